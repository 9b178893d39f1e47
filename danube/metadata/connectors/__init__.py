"""Connectors in the metadata of a cluster."""
