"""Linearizability."""
