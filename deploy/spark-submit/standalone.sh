#!/bin/sh
# The job on a standalone Spark cluster, driver on this machine.
#   MASTER=spark://host:7077 deploy/spark-submit/standalone.sh /etc/palisade/palisade.toml
# The workers need /opt/palisade/.venv with the same lock file, or pack.sh's archive (see yarn.sh).
set -eu
config=$(realpath "${1:?name the palisade.toml}")
root=$(realpath "$(dirname "$0")/../..")

export PYSPARK_PYTHON="${PYSPARK_PYTHON:-/opt/palisade/.venv/bin/python}"
export PYSPARK_DRIVER_PYTHON="${PYSPARK_DRIVER_PYTHON:-$PYSPARK_PYTHON}"

# --supervise is for cluster mode only; in client mode systemd restarts the driver.
exec spark-submit \
  --master "${MASTER:?set MASTER=spark://host:7077}" \
  --deploy-mode client \
  --name palisade \
  --conf spark.executor.memory=1g \
  --conf spark.cores.max="${CORES:-4}" \
  --conf spark.task.maxFailures=4 \
  "$root/palisade.py" stream --config "$config"
