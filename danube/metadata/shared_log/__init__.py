"""One log of requests in a service that several brokers reach: etcd or ZooKeeper."""
