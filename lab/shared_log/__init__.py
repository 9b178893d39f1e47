"""A simulated service with members on it."""
