"""Kafka → ledger → metrics and incidents. The PySpark job.

In:      Kafka records: byte ranges of log files, each with its identity (see `ingest.log_record`).
Out:     the ledger (Parquet partials for each batch), /metrics and /api/status from committed state, incidents.
Promise: every line counts exactly once in the ledger; offsets move only after it did; publishing repeats
         rather than misses.
"""
