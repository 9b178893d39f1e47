"""`danube-admin tui`: the cluster in a terminal, generated from the operations."""
