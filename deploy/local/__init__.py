"""The whole stack embedded on one machine: real servers, generated traffic, a live view.

In:      Python, Java 17, and whichever of Prometheus, Alertmanager and Grafana the machine has.
Out:     `palisade demo`, and the servers that the integration tests run against.
Promise: no root, no Docker, only loopback addresses, and nothing left running afterwards.
"""
