"""Calls of the original that make no sense here, or not yet: each says why, in one sentence."""

from danube.model.errors import UnsupportedError
from danube.rpc.carrier import UnaryCall, UnaryHandler


def refuse(why: str) -> UnaryHandler:
    """A handler that answers every request with an UnsupportedError."""

    def handle(request: bytes, call: UnaryCall) -> bytes:  # noqa: ARG001 - whatever is asked
        raise UnsupportedError(why)

    return handle
