"""Takeover and release: topics change their owner in a shared folder, and nothing acknowledged is lost."""
