"""Brokers of a cluster: leases, registry, election, membership."""
