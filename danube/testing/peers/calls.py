"""A channel of a peer: each call is made once, and what the broker answers is what the test sees."""

from typing import TypeVar

from danube.rpc.carrier import Channel
from danube.testing.patience import PATIENCE_S
from danube.wire.codec import Codec

Request = TypeVar("Request")
Answer = TypeVar("Answer")


class Calls:
    """Unary calls over one channel; each raises the DanubeError that the broker answers."""

    def __init__(self, channel: Channel, *, timeout_s: float = PATIENCE_S) -> None:
        self.channel = channel
        self._timeout_s = timeout_s

    async def call(self, path: str, request: bytes = b"") -> bytes:
        """One unary call, as it is."""
        return await self.channel.call(path, request, timeout_s=self._timeout_s)

    async def ask(self, path: str, request: Codec[Request], value: Request, answer: Codec[Answer]) -> Answer:
        """One unary call, encoded and decoded."""
        return answer.decode(await self.call(path, request.encode(value)))
