"""Brokers over one object store that fails, by seed: nothing acknowledged is lost, whatever the store and they do."""
