"""What is wrong, and what to do about it.

In:      /metrics and incidents.
Out:     rules for Prometheus, a runbook and a rule test for each alert, incidents in Alertmanager.
Promise: every alert is documented, tested and worth waking for; an incident is sent at least once.
"""
