"""Tiers: where segments and manifests live."""
