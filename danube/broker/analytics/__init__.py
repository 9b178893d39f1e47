"""Calls about the schedules of analytics jobs: the broker keeps them, and starts nothing."""
