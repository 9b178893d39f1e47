"""The takeover protocol: a model checker, and storages over one simulated folder."""
