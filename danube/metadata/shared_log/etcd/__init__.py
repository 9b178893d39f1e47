"""Shared log in etcd."""
