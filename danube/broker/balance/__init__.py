"""Balance of load in a cluster: reports, the view of all brokers, plans that rebalance, and their execution."""
