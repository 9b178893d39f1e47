"""Reading what is stored by offset: a stream of batches, opened again where it broke, and which offsets there are."""

from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from dataclasses import replace

from danube.client.connection import paths
from danube.client.connection.connection import Connection
from danube.client.connection.retry import Failure, delay_before_retry
from danube.client.connection.session import naming_redirect
from danube.client.message import Message
from danube.client.settings import ConsumerOptions
from danube.model.calls.client import ReceivedMessage
from danube.model.calls.stream import Bounds, Fetch, FetchedBatch, TopicBounds
from danube.model.errors import DanubeError
from danube.model.limits.broker import CLIENT_RETRY_TOTAL_S
from danube.storage.batches.batch import RecordKind, RecordView, check
from danube.wire import client_messages, decode


async def fetch_messages(connection: Connection, wanted: Fetch) -> AsyncGenerator[Message, None]:
    """The messages asked for, in order, each once. Raises DanubeError when no further try is made."""
    async with aclosing(fetch_batches(connection, wanted)) as answers:
        async for batches in answers:
            for batch in batches:
                for received in messages_of(batch):
                    yield Message(received)


async def fetch_batches(
    connection: Connection, wanted: Fetch, *, retry_s: float = CLIENT_RETRY_TOTAL_S
) -> AsyncGenerator[list[FetchedBatch], None]:
    """The same as it is stored: the batches of each answer, whose checksums are the caller's to check."""
    tries = _Tries(connection, retry_s)
    while True:
        try:
            async with aclosing(_answers(connection, wanted)) as answers:
                async for batches in answers:
                    tries.succeeded()
                    wanted = replace(wanted, start=batches[-1].base_offset + batches[-1].end)
                    yield batches
            return
        except DanubeError as error:
            await tries.failed(error)


async def topic_bounds(connection: Connection, wanted: Bounds) -> TopicBounds:
    """Which offsets a reliable topic holds now. Raises DanubeError."""
    address = await connection.lookup.locate(connection.service_url, wanted.topic)
    request = client_messages.BOUNDS.encode(wanted)
    with naming_redirect(connection.service_url, address):
        return client_messages.TOPIC_BOUNDS.decode(await connection.transport.call(address, paths.BOUNDS, request))


async def _answers(connection: Connection, wanted: Fetch) -> AsyncGenerator[list[FetchedBatch], None]:
    """One stream, from where the topic is now."""
    address = await connection.lookup.locate(connection.service_url, wanted.topic)
    with naming_redirect(connection.service_url, address):
        stream = await connection.transport.open_stream(address, paths.FETCH, client_messages.FETCH.encode(wanted))
        try:
            while (raw := await stream.receive()) is not None:
                if batches := decode.fetched(raw):
                    yield batches
        finally:
            stream.cancel()


def messages_of(batch: FetchedBatch) -> Iterator[ReceivedMessage]:
    """The records of a batch that were asked for. Raises InvalidBatchError when it was damaged on its way."""
    check(batch.body)
    view = RecordView(batch.body)
    records = enumerate(view.slice(batch.first, batch.end), batch.base_offset + batch.first)
    if view.header.kind is RecordKind.PAYLOADS:
        shared = decode.received_message(view.shared)
        return (shared._replace(offset=offset, payload=payload) for offset, payload in records)
    return (decode.received_message(record)._replace(offset=offset) for offset, record in records)


class _Tries:
    """The failures in a row, and the pauses between them."""

    def __init__(self, connection: Connection, retry_s: float) -> None:
        self._clock = connection.clock
        self._rng = connection.rng
        self._policy = ConsumerOptions().policy(retry_s)
        self._attempt = 0
        self._since_s = 0.0

    def succeeded(self) -> None:
        """Something came: the next failure is the first of its row."""
        self._attempt = 0

    async def failed(self, error: DanubeError) -> None:
        """Wait before the next try. Raises `error` where none helps."""
        now_s = self._clock.monotonic_s()
        if not self._attempt:
            self._since_s = now_s
        self._attempt += 1
        failure = Failure(error=error, attempt=self._attempt, elapsed_s=now_s - self._since_s)
        delay_s = delay_before_retry(self._policy, failure, self._rng.uniform(0, 1))
        if delay_s is None:
            raise error
        await self._clock.sleep_until(now_s + delay_s)
