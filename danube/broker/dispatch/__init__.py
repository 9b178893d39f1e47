"""Dispatch of messages to consumers: events in, instructions out; only `driver` knows of asyncio."""
