"""A clock, a disk and threads in simulated time."""
