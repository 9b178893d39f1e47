"""Schedules: the runner that starts jobs when they are due, with a lease so that one runs."""
