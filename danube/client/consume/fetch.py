"""Reads of stored messages by offset: a stream of batches that is opened again where it broke, and the bounds."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import replace

from danube.client.connection import paths
from danube.client.connection.connection import Connection
from danube.client.connection.retry import Failures, delay_before_retry
from danube.client.connection.session import naming_redirect
from danube.client.message import Message
from danube.client.settings import ConsumerOptions
from danube.model.calls.stream import Bounds, Fetch, FetchedBatch, TopicBounds
from danube.model.errors import DanubeError
from danube.model.limits.broker import CLIENT_RETRY_TOTAL_S
from danube.runtime.clock import sleep_for
from danube.storage.batches.batch import RecordKind, RecordView, check
from danube.wire import client_messages, decode


async def fetch_messages(connection: Connection, wanted: Fetch) -> AsyncGenerator[Message, None]:
    """The messages asked for, in order, each once. Raises DanubeError when no further try is made."""
    async with aclosing(fetch_batches(connection, wanted)) as answers:
        async for batches in answers:
            for batch in batches:
                for message in batch_messages(batch):
                    yield message


async def fetch_batches(
    connection: Connection, wanted: Fetch, *, retry_s: float = CLIENT_RETRY_TOTAL_S
) -> AsyncGenerator[list[FetchedBatch], None]:
    """The same as it is stored: the batches of each answer, whose checksums are the caller's to check."""
    policy, failures = ConsumerOptions().policy(retry_s), Failures()
    while True:
        try:
            async with aclosing(_answers(connection, wanted)) as answers:
                async for batches in answers:
                    failures.clear()
                    wanted = replace(wanted, start=batches[-1].base_offset + batches[-1].end)
                    yield batches
            return
        except DanubeError as error:
            failure = failures.add(error, connection.clock.monotonic_s())
            delay_s = delay_before_retry(policy, failure, connection.rng.uniform(0, 1))
            if delay_s is None:
                raise
            await sleep_for(connection.clock, delay_s)


async def topic_bounds(connection: Connection, wanted: Bounds) -> TopicBounds:
    """The offsets that a reliable topic holds now. Raises DanubeError."""
    address = await connection.locate(wanted.topic)
    request = client_messages.BOUNDS.encode(wanted)
    with naming_redirect(connection.service_url, address):
        return client_messages.TOPIC_BOUNDS.decode(await connection.call(address, paths.BOUNDS, request))


async def _answers(connection: Connection, wanted: Fetch) -> AsyncGenerator[list[FetchedBatch], None]:
    """One stream, from where the topic is now."""
    address = await connection.locate(wanted.topic)
    with naming_redirect(connection.service_url, address):
        stream = await connection.open_stream(address, paths.FETCH, client_messages.FETCH.encode(wanted))
        try:
            while (raw := await stream.receive()) is not None:
                if batches := decode.fetched(raw):
                    yield batches
        finally:
            stream.cancel()


def batch_messages(batch: FetchedBatch) -> list[Message]:
    """The messages of a batch that were asked for. Raises InvalidBatchError when it was damaged on its way."""
    check(batch.body)
    view = RecordView(batch.body)
    records = view.slice(batch.first, batch.end)
    first = batch.base_offset + batch.first
    if view.header.kind is RecordKind.PAYLOADS:
        return Message.of_batch(decode.received_message(view.shared), first, records)
    return [
        Message(decode.received_message(record)._replace(offset=offset)) for offset, record in enumerate(records, first)
    ]
