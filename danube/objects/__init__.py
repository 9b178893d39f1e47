"""Object storage: the port, its adapters, retries, and what the requests cost."""
