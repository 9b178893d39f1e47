"""Telemetry from the topic into a table: exactly once, partitioned by day, compacted, with retention."""
