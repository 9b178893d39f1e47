"""The domain as values: names, ids, policies, errors, limits. No I/O, no protobuf, no asyncio."""
