"""Sequence of changes as one log in a service that several brokers reach: etcd or ZooKeeper."""
