"""Bounds of quotas."""

QUOTA_MAX = 1 << 50
QUOTA_ACCOUNTS_MAX = 20_000
"""Namespaces and principals that are counted at once; those without open streams are forgotten first."""
