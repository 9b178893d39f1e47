"""Payloads that are checked in a process of its own."""
