"""Load of brokers and topics: scores, imbalance, and plans that rebalance. Pure."""
