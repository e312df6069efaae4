"""Decide what a batch reads. Pure: no broker, no clock, no ZooKeeper."""
