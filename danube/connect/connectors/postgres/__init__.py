"""Postgres, both ways."""
