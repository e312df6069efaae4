"""How Palisade runs: compose, systemd, spark-submit, and the whole stack embedded on one machine (`deploy.local`)."""
