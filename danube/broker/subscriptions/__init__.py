"""Subscriptions of a topic, and their consumers."""
