"""Whole clusters by seed: brokers in one process, over a simulated disk, network, time and metadata."""
