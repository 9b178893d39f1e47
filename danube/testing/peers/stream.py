"""Batches sent and fetched call by call: what a broker answers is what the test sees."""

from collections.abc import Sequence

from danube.model.calls.client import OutgoingMessage
from danube.model.calls.stream import (
    Fetch,
    FetchedBatch,
    PublishAcknowledged,
    PublishBatch,
    PublishOpen,
    PublishOpened,
    PublishRefused,
)
from danube.model.errors import UnavailableError
from danube.model.topic import DispatchStrategy, TopicName
from danube.rpc.carrier import Channel, ClientStream
from danube.storage.batches.batch import BatchOrigin, encode_payloads
from danube.wire import client_messages, decode, encode

PUBLISH = "/danube.stream.StreamService/Publish"
FETCH = "/danube.stream.StreamService/Fetch"

Answer = PublishOpened | PublishAcknowledged | PublishRefused


def payload_batch(
    topic: TopicName, payloads: Sequence[bytes], *, producer: str = "producer", origin: BatchOrigin | None = None
) -> bytes:
    """The body of a batch as a well-behaved producer makes it; with `origin` it says who made it."""
    shared = OutgoingMessage(0, 1, str(topic), "http://peer", b"", 1, producer)
    return encode_payloads(encode.send_message(shared), payloads, origin or BatchOrigin())


class _Line:
    def __init__(self, stream: ClientStream) -> None:
        self.stream = stream

    def close(self) -> None:
        """Drop the stream."""
        self.stream.cancel()


class PublishLine(_Line):
    """One Publish stream."""

    async def open(
        self, topic: TopicName, producer: str = "producer", strategy: DispatchStrategy = DispatchStrategy.RELIABLE
    ) -> PublishOpened:
        """Attach. Raises the DanubeError with which the broker refuses."""
        return await self.open_as(PublishOpen(topic=topic, producer_name=producer, strategy=strategy))

    async def open_as(self, opening: PublishOpen) -> PublishOpened:
        """Attach in any way. Raises as `open`."""
        await self.stream.send(encode.publish_open(opening))
        answer = await self.answer()
        if not isinstance(answer, PublishOpened):
            raise UnavailableError(f"the stream answered its opening with {answer}")
        return answer

    async def send(self, sequence: int, body: bytes) -> None:
        """Send a batch and wait for nothing."""
        await self.stream.send(encode.publish_batch(PublishBatch(sequence, body)))

    async def answer(self) -> Answer:
        """The next answer. Raises UnavailableError when the stream has ended with OK, DanubeError when it failed."""
        raw = await self.stream.receive()
        if raw is None:
            raise UnavailableError("the stream ended")
        return decode.publish_response(raw)

    async def stored(self, count: int) -> list[int]:
        """The base offsets of the next `count` batches. Raises the DanubeError of one that is refused."""
        offsets: list[int] = []
        while len(offsets) < count:
            answer = await self.answer()
            if isinstance(answer, PublishRefused):
                raise answer.error
            if isinstance(answer, PublishAcknowledged):
                offsets += answer.base_offsets
        return offsets


class FetchLine(_Line):
    """One Fetch stream."""

    async def next(self) -> list[FetchedBatch]:
        """The next answer; empty at the end. Raises the DanubeError with which the broker ended."""
        raw = await self.stream.receive()
        return [] if raw is None else decode.fetched(raw)

    async def rest(self) -> list[FetchedBatch]:
        """All batches up to the end of the stream."""
        found: list[FetchedBatch] = []
        while batches := await self.next():
            found += batches
        return found


class StreamPeer:
    """Streams of batches over one channel."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel

    def publish(self) -> PublishLine:
        """A Publish stream that is not opened yet."""
        return PublishLine(self._channel.stream(PUBLISH))

    async def opened(self, topic: TopicName, producer: str = "producer") -> PublishLine:
        """A Publish stream to a reliable topic."""
        line = self.publish()
        await line.open(topic, producer)
        return line

    def fetch(self, call: Fetch) -> FetchLine:
        """A Fetch stream."""
        return FetchLine(self._channel.server_stream(FETCH, client_messages.FETCH.encode(call)))
