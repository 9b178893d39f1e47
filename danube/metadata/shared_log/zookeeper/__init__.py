"""Zookeeper."""
