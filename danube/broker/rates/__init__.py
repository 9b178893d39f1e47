"""Token buckets: publish rates, quotas, claims."""
