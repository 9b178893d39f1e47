"""Raft among the brokers themselves: pysyncobj's rules, with a log, a transport and guards of our own."""
