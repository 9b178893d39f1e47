"""Reading stored messages by offset: a stream of batches, opened again where it broke."""

from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from dataclasses import replace

from danube.client import paths
from danube.client.connection import Connection
from danube.client.message import Message
from danube.client.retry import Failure, delay_before_retry
from danube.client.settings import ConsumerOptions
from danube.model.calls import ReceivedMessage
from danube.model.errors import DanubeError
from danube.model.limits import CLIENT_RETRY_TOTAL_S
from danube.model.stream import Fetch, FetchedBatch
from danube.storage.batch import RecordKind, RecordView, check
from danube.wire import decode, decode_stream, encode_stream


async def fetch_messages(connection: Connection, wanted: Fetch) -> AsyncGenerator[Message, None]:
    """The messages asked for, in order, each once. Raises DanubeError when no further try is made."""
    tries = _Tries(connection)
    while True:
        try:
            async with aclosing(_batches(connection, wanted)) as batches:
                async for batch in batches:
                    tries.succeeded()
                    wanted = replace(wanted, start=batch.base_offset + batch.end)
                    for received in messages_of(batch):
                        yield Message(received)
            return
        except DanubeError as error:
            await tries.failed(error)


async def _batches(connection: Connection, wanted: Fetch) -> AsyncGenerator[FetchedBatch, None]:
    """One stream, from where the topic is now."""
    address = await connection.lookup.locate(connection.service_url, wanted.topic)
    stream = await connection.transport.open_stream(address, paths.FETCH, encode_stream.fetch(wanted))
    try:
        while (raw := await stream.receive()) is not None:
            for batch in decode_stream.fetched(raw):
                yield batch
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

    def __init__(self, connection: Connection) -> None:
        self._clock = connection.clock
        self._rng = connection.rng
        self._policy = ConsumerOptions().policy(CLIENT_RETRY_TOTAL_S)
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
