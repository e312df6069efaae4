#!/bin/sh
# The job on Kubernetes, driver in the cluster, from the image of deploy/Dockerfile.
#   API=https://host:6443 IMAGE=registry.example/palisade:stream deploy/spark-submit/kubernetes.sh
# Needs: a namespace, a service account that may create pods, and a config map `palisade` with palisade.toml in it:
#   kubectl -n palisade create configmap palisade --from-file=palisade.toml
set -eu
namespace="${NAMESPACE:-palisade}"

# The ledger must be on a shared filesystem (hdfs://, s3://) or a claim; the driver alone writes it.
exec spark-submit \
  --master "k8s://${API:?set API=https://host:6443}" \
  --deploy-mode cluster \
  --name palisade \
  --conf spark.kubernetes.namespace="$namespace" \
  --conf spark.kubernetes.container.image="${IMAGE:?set IMAGE=registry.example/palisade:stream}" \
  --conf spark.kubernetes.authenticate.driver.serviceAccountName="${SERVICE_ACCOUNT:-palisade}" \
  --conf spark.kubernetes.driver.podTemplateFile="$(realpath "$(dirname "$0")")/kubernetes-driver.yaml" \
  --conf spark.kubernetes.executor.podTemplateFile="$(realpath "$(dirname "$0")")/kubernetes-executor.yaml" \
  --conf spark.kubernetes.submission.waitAppCompletion=false \
  --conf spark.executor.instances="${EXECUTORS:-2}" \
  --conf spark.executor.cores=2 \
  --conf spark.executor.memory=1g \
  --conf spark.task.maxFailures=4 \
  local:///opt/palisade/palisade.py stream --config /etc/palisade/palisade.toml
