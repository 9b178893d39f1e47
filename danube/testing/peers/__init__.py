"""Clients and a proxy that make each call as they are told."""
