"""Bounds of `danube bench --compare`."""

COMPARE_IDLE_S = 60.0
"""Silence after which messages that a broker owes count as lost; longest wait for one of its answers."""
COMPARE_POLL_S = 1.0
"""Longest wait of one question for messages."""
COMPARE_IN_FLIGHT = 1_000
"""Publishes to NATS that are not acknowledged."""
COMPARE_PIPELINE = 256
"""Commands to Redis that are not answered, and messages of one answer."""
COMPARE_PULLED = 500
"""Messages that one question to NATS or Kafka asks for."""
COMPARE_ROUNDS = 5
"""Runs of each broker, in turns."""
COMPARE_RATE = 1_000
"""Messages a second, where latency is measured."""
COMPARE_LATENCY_MESSAGES_MAX = 3_000
