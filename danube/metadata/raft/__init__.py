"""Raft among the brokers themselves: pysyncobj's core, with a log, a transport and a message filter of our own."""
