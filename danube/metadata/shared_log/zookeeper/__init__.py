"""Shared log in ZooKeeper."""
