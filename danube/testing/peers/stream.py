"""Batches sent and fetched call by call: what a broker answers is what the test sees."""

from collections import deque
from collections.abc import Sequence
from typing import Any

from danube.model.calls.client import OutgoingMessage, Subscribe
from danube.model.calls.consume import (
    ConsumeAssigned,
    ConsumeBatches,
    ConsumeConfirmed,
    ConsumeEvent,
    ConsumeFenced,
    ConsumeMoved,
    ConsumeOpen,
    ConsumeOpened,
    ConsumeResponse,
    ConsumeUpdate,
)
from danube.model.calls.stream import (
    Fetch,
    FetchedBatch,
    FetchFrom,
    FetchStart,
    PublishAcknowledged,
    PublishBatch,
    PublishOpen,
    PublishOpened,
    PublishRefused,
)
from danube.model.errors import UnavailableError
from danube.model.limits.broker import MIB
from danube.model.ranges import OffsetRange
from danube.model.subscription import SubscriptionType
from danube.model.topic import DispatchStrategy, TopicName
from danube.rpc.carrier import Channel, ClientStream
from danube.storage.batches.batch import BatchOrigin, encode_payloads
from danube.wire import client_messages, decode, encode
from danube.wire.stream import consume

PUBLISH = "/danube.stream.StreamService/Publish"
CONSUME = "/danube.stream.StreamService/Consume"
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


class ConsumeLine(_Line):
    """One Consume stream. It counts what it saw, and answers nothing by itself."""

    def __init__(self, stream: ClientStream) -> None:
        super().__init__(stream)
        self.consumer_id = 0
        self.generation = 0
        self.answers_seen = 0
        self.events: list[ConsumeEvent] = []
        self._sequence = 0
        self._early: deque[ConsumeBatches] = deque()

    async def open(self, opening: ConsumeOpen) -> int:
        """Subscribe; answers the consumer's id. Raises the DanubeError with which the broker refuses."""
        await self.stream.send(consume.open_request(opening))
        answer = await self.answer()
        if not isinstance(answer, ConsumeOpened):
            raise UnavailableError(f"the stream answered its opening with {answer}")
        self.consumer_id = answer.consumer_id
        return answer.consumer_id

    async def answer(self) -> ConsumeResponse:
        """The next answer. Raises UnavailableError when the stream has ended with OK, DanubeError when it failed."""
        raw = await self.stream.receive()
        if raw is None:
            raise UnavailableError("the stream ended")
        answer = consume.response(raw)
        assert answer is not None  # noqa: S101 - a broker of this version
        if isinstance(answer, ConsumeBatches):
            self.answers_seen += 1
            self.generation = answer.generation
        elif isinstance(answer, ConsumeAssigned | ConsumeFenced | ConsumeMoved):
            self.events.append(answer)
        return answer

    async def batches(self) -> list[FetchedBatch]:
        """The batches of the next answer that has some."""
        if self._early:
            return list(self._early.popleft().batches)
        while not isinstance(answer := await self.answer(), ConsumeBatches):
            pass
        return list(answer.batches)

    async def spans(self, count: int) -> list[tuple[int, int]]:
        """The next ranges of offsets, until they have `count` messages."""
        found: list[tuple[int, int]] = []
        while sum(end - start for start, end in found) < count:
            found += [(each.base_offset + each.first, each.base_offset + each.end) for each in await self.batches()]
        return found

    async def update(self, **fields: Any) -> None:  # noqa: ANN401 - of any field
        """Send answers or credit, for what was seen, and return when the broker confirms that it has them."""
        self._sequence += 1
        wanted: dict[str, Any] = {"generation": self.generation, "answers_seen": self.answers_seen}
        wanted["sequence"] = self._sequence
        await self.stream.send(consume.update_request(ConsumeUpdate(**(wanted | fields))))
        while not isinstance(answer := await self.answer(), ConsumeConfirmed):
            if isinstance(answer, ConsumeBatches):
                self._early.append(answer)

    async def acknowledge(self, *spans: tuple[int, int]) -> None:
        """Acknowledge ranges."""
        await self.update(acknowledged=tuple(OffsetRange(*span) for span in spans))


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

    def consume(self) -> ConsumeLine:
        """A Consume stream that is not opened yet."""
        return ConsumeLine(self._channel.stream(CONSUME))

    async def consuming(
        self,
        topic: TopicName,
        consumer: str = "consumer",
        *,
        type: SubscriptionType = SubscriptionType.SHARED,  # noqa: A002 - as the field of Subscribe
        start: FetchStart = FetchFrom.EARLIEST,
        credit_bytes: int = MIB,
    ) -> ConsumeLine:
        """A Consume stream of subscription `sub`."""
        call = Subscribe(request_id=0, topic=topic, consumer_name=consumer, subscription="sub", type=type)
        line = self.consume()
        await line.open(ConsumeOpen(subscribe=call, start=start, credit_bytes=credit_bytes))
        return line

    def fetch(self, call: Fetch) -> FetchLine:
        """A Fetch stream."""
        return FetchLine(self._channel.server_stream(FETCH, client_messages.FETCH.encode(call)))
