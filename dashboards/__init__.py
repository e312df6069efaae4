"""What the on-call engineer looks at.

In:      the metric names (see `alerts.metric_names`).
Out:     Grafana dashboards as committed JSON, pushed or provisioned.
Promise: every panel's query uses a metric that exists; the committed JSON is what the code builds.
"""
