"""Avro: definitions, differences, payloads."""
