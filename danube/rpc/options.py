"""The bounds of one carrier, so that a test can lower what production leaves at its default."""

from dataclasses import dataclass

from danube.model.limits import broker as limits


@dataclass(frozen=True, slots=True, kw_only=True)
class CarrierOptions:
    """What a carrier takes, holds and queues at most."""

    receive_bytes_max: int = limits.RPC_RECEIVE_BYTES_MAX
    """Of one message, at either end."""
    metadata_bytes_max: int = limits.RPC_METADATA_BYTES_MAX
    """Of one call's metadata; each entry counts 32 bytes beside its key and value, as in HTTP/2."""
    concurrent_calls_max: int = limits.RPC_CONCURRENT_CALLS_MAX
    """Under way at one server."""
    queue_bytes_max: int = limits.STREAM_QUEUE_BYTES_MAX
    """Written to one stream by its server and not yet taken by the transport."""
    queue_messages_max: int = limits.STREAM_QUEUE_MESSAGES_MAX
    """The same, in messages."""
    stream_memory_bytes_max: int = limits.STREAM_MEMORY_BYTES_MAX
    """Written to all streams of a carrier's servers and not yet taken by the transport, with the transport's copies."""
    inbound_bytes_max: int = limits.STREAM_INBOUND_BYTES_MAX
    """Received on one stream and not yet taken by whoever reads it; one message may pass it."""
    inbound_messages_max: int = limits.STREAM_INBOUND_MESSAGES_MAX
    """The same, in messages."""
