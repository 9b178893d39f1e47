"""Designed pages: what a person wants to know of topics, groups, brokers and the cluster, troubles first."""
