"""Other brokers that `danube bench --compare` measures beside this one, each by its own protocol."""
