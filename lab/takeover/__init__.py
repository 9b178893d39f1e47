"""Takeover."""
