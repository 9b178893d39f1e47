"""Who gets the next message: events in, instructions out; only `driver` knows of asyncio."""
