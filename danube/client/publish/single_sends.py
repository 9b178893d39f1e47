"""Single sends that are under way at once: those to one topic go together in batches, without waiting for more.

A batch is what came while the one before it left. Messages without key and attributes share a batch of payloads, others
one of whole messages. Where a batch is refused, or the broker takes none, each message of it is sent by a call of its
own, so that an error reaches the send that it belongs to.
"""

import asyncio
from collections import deque
from collections.abc import Mapping
from typing import TYPE_CHECKING

from danube.client.publish.sender import BatchStream, StoredRange
from danube.model.calls.client import NO_ATTRIBUTES
from danube.model.errors import MessageTooLargeError, UnsupportedError
from danube.model.limits.stream import CLIENT_SENDS_WAITING_BYTES_MAX, CLIENT_SINGLES_IDLE_S
from danube.runtime.clock import Clock, TimerHandle
from danube.runtime.tasks import TaskScope, Wakeup, resolve

if TYPE_CHECKING:
    from danube.client.publish.topic_producer import TopicProducer

_STORED, _ALONE = True, False
"""Outcome of a send that was put into a batch."""


class SingleSends:
    """Sends to one topic that were made one by one."""

    def __init__(self, producer: "TopicProducer", scope: TaskScope, clock: Clock) -> None:
        self._producer = producer
        self._plain = _Sends(producer, scope, clock, are_whole=False)
        self._whole = _Sends(producer, scope, clock, are_whole=True)

    async def send(self, data: bytes, attributes: Mapping[str, str], routing_key: str | None) -> bool:
        """Return True once the message is stored, False where it has to be sent by itself. Raises DanubeError."""
        if not attributes and routing_key is None:
            return await self._plain.send(data)
        return await self._whole.send(self._producer.encoded(data, attributes, routing_key))


class _Sends:
    """Sends of one form: payloads, or whole messages."""

    def __init__(self, producer: "TopicProducer", scope: TaskScope, clock: Clock, *, are_whole: bool) -> None:
        self._producer = producer
        self._scope = scope
        self._clock = clock
        self._are_whole = are_whole
        self._waiting: deque[tuple[bytes, asyncio.Future[bool]]] = deque()
        self._waiting_bytes = 0
        self._room = Wakeup()
        self._sent: deque[asyncio.Future[bool]] = deque()
        """Those in the stream, in order."""
        self._stream: BatchStream | None = None
        self._work: asyncio.Task[Exception | None] | None = None
        self._idle: TimerHandle | None = None
        self._is_unsupported = False

    async def send(self, record: bytes) -> bool:
        """As `SingleSends.send`."""
        while self._waiting_bytes > CLIENT_SENDS_WAITING_BYTES_MAX:
            await self._room.wait()
        if self._is_unsupported or self._scope.closed:
            return False
        stored: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._waiting.append((record, stored))
        self._waiting_bytes += len(record)
        if self._stream is not None:
            self._fill()
        elif self._work is None:
            self._work = self._scope.spawn(self._run(), "batches of single sends")
            self._work.add_done_callback(self._settle)
        return await stored

    async def _run(self) -> Exception | None:
        """One stream, from the first send to a moment without any; answers the error that ended it."""
        batch_stream = self._producer.batch_stream
        try:
            stream = batch_stream(NO_ATTRIBUTES, self._stored, are_whole=self._are_whole, on_room=self._fill)
            await stream.open(self._scope)
            self._stream = stream
            self._fill()
            await stream.ended()
            await stream.finish()  # which raises its error, or keeps its sequence for the next one
        except Exception as error:
            return error
        finally:
            self._stream = None
            if self._idle is not None:
                self._idle.cancel()
        return None

    def _fill(self) -> None:
        """Put into the stream's batch what fits."""
        stream = self._stream
        while stream is not None and stream.error is None and self._waiting:
            record, stored = self._waiting[0]
            try:
                if not stream.append(record):
                    break
            except MessageTooLargeError as error:
                if not stored.done():
                    stored.set_exception(error)
            else:
                self._sent.append(stored)
            self._waiting.popleft()
            self._waiting_bytes -= len(record)
        self._room.notify()

    def _stored(self, stored: StoredRange) -> None:
        for _ in range(stored.count):
            resolve(self._sent.popleft(), _STORED)
        if not self._sent and not self._waiting:
            if self._idle is not None:
                self._idle.cancel()
            self._idle = self._clock.call_at(self._clock.monotonic_s() + CLIENT_SINGLES_IDLE_S, self._retire)

    def _retire(self) -> None:
        """End a stream that is not needed: it keeps exclusive producers away."""
        if self._stream is not None and self._stream.is_idle and not self._waiting:
            stream, self._stream = self._stream, None
            stream.end()

    def _settle(self, work: "asyncio.Task[Exception | None]") -> None:
        """Nothing more comes of a stream that ended: each send that is left is made by itself, or fails."""
        error, self._work = None if work.cancelled() else work.result(), None
        self._is_unsupported = isinstance(error, UnsupportedError)
        left = [*self._sent, *(stored for _, stored in self._waiting)]
        self._sent.clear()
        self._waiting.clear()
        self._waiting_bytes = 0
        self._room.notify()
        for stored in left:
            if error is None or self._producer.is_attached or self._is_unsupported:
                resolve(stored, _ALONE)
            elif not stored.done():
                stored.set_exception(error)
