"""Faults of brokers of a cluster while applications work: how soon others serve, and whether anything is lost."""
