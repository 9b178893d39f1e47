"""Etcd."""
