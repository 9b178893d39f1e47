"""Protobuf: definitions, differences, payloads."""
