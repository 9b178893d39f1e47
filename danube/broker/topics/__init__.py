"""Topics that this broker serves, with their subscriptions and producers."""
