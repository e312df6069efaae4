#!/bin/sh
# The job on YARN, driver in the cluster. The ledger must be on a shared filesystem (ledger = "hdfs:///palisade/ledger").
#   deploy/spark-submit/pack.sh && deploy/spark-submit/yarn.sh /etc/palisade/palisade.toml
set -eu
config=$(realpath "${1:?name the palisade.toml}")
root=$(realpath "$(dirname "$0")/../..")

# The archive is unpacked as ./environment beside every process; the configuration lies beside it.
# A new attempt takes the lock and fences the old driver, so restarting is safe.
exec spark-submit \
  --master yarn \
  --deploy-mode cluster \
  --name palisade \
  --archives "$root/dist/palisade-env.tar.gz#environment" \
  --files "$config#palisade.toml" \
  --conf spark.yarn.appMasterEnv.PYSPARK_PYTHON=./environment/bin/python \
  --conf spark.executorEnv.PYSPARK_PYTHON=./environment/bin/python \
  --conf spark.yarn.maxAppAttempts=1000 \
  --conf spark.yarn.am.attemptFailuresValidityInterval=1h \
  --conf spark.yarn.submit.waitAppCompletion=false \
  --conf spark.executor.instances="${EXECUTORS:-2}" \
  --conf spark.executor.cores=2 \
  --conf spark.executor.memory=1g \
  --conf spark.task.maxFailures=4 \
  "$root/palisade.py" stream --config palisade.toml
