"""Authenticate: exchange an API key for a token, as the official Java client does."""

from danube.broker.services.context import ServiceContext
from danube.model.errors import UnauthenticatedError
from danube.rpc.carrier import UnaryCall, UnaryHandler
from danube.security.attempts import FailedAttempts
from danube.wire.security.messages import AUTHENTICATE, TOKEN


def authenticate(context: ServiceContext) -> UnaryHandler:
    """Answer a token. Wrong keys of one address are refused unchecked after some."""
    attempts = FailedAttempts()

    def handle(request: bytes, call: UnaryCall) -> bytes:
        host, now_s = call.caller.address.rpartition(":")[0], context.clock.monotonic_s()
        if wait_s := attempts.wait_s(host, now_s):
            raise UnauthenticatedError(f"too many wrong keys from this address: try again in {wait_s:.0f} s")
        try:
            return TOKEN.encode(context.control.security.exchange(AUTHENTICATE.decode(request)))
        except UnauthenticatedError:
            attempts.add(host, now_s)
            raise

    return handle
