"""access.log → Kafka. Runs beside the web server.

In:      Apache access logs as they grow, rotate and vanish.
Out:     Kafka records: byte ranges of those files, each with its identity (see `ingest.log_record`).
Promise: every complete line reaches Kafka at least once, in order, and its identity lets the job count it once.
"""
