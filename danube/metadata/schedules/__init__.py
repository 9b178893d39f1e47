"""Schedules of analytics jobs in the metadata store, and the lease of their runner."""
