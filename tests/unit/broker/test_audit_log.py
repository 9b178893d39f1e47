"""The audit log of a whole broker: one unbroken chain, written by the broker alone."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from danube.broker.clients import producers
from danube.model.errors import (
    InvalidRequestError,
    JournalStoppedError,
    NotPermittedError,
    PreconditionFailedError,
    StorageUnavailableError,
)
from danube.model.limits.broker import AUDIT_PAGE_BYTES_MAX, AUDIT_TEXT_CHARS_MAX, PLAN_ARGUMENTS_BYTES_MAX
from danube.model.message import producer_id
from danube.model.plans.plan import Caller, Effect, Face
from danube.model.records.audit import (
    AUDIT_TOPIC,
    GENESIS,
    AuditEntry,
    AuditRecord,
    Outcome,
    decode_record,
    encode_record,
    verify,
)
from danube.model.topic import DispatchStrategy, TopicName
from danube.runtime.disk import Buffer
from danube.storage.journal.writer import RoundWriter, Written
from danube.testing.in_process_broker import Cell, StartBroker, running_broker
from danube.testing.peers.stream import StreamPeer

ENTRY = AuditEntry(
    caller=Caller(who="ada@desk", face=Face.WEB),
    operation="create_topic",
    arguments={"topic": "/default/orders"},
    effect=Effect.WRITE,
    outcome=Outcome.DONE,
)


def sequenced(number: int) -> AuditEntry:
    return replace(ENTRY, detail=str(number))


async def record_all(cell: Cell, *numbers: int) -> None:
    for number in numbers:
        await cell.admin.record(sequenced(number))


async def chain(cell: Cell) -> Sequence[AuditRecord]:
    """All records, which are one intact chain, each at the offset of its sequence."""
    page = await cell.admin.audit()
    assert verify(page.records, previous=GENESIS).is_intact
    assert [record.sequence for record in page.records] == list(range(page.end))
    return page.records


class FailingWriter:
    """The journal's writer, which fails on demand."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.error: Exception | None = None
        write = RoundWriter.write

        def fail_or_write(writer: RoundWriter, content: Sequence[Buffer], *args: Any, sync: bool) -> Written:
            if self.error is not None and content:
                raise self.error
            return write(writer, content, *args, sync=sync)

        monkeypatch.setattr(RoundWriter, "write", fail_or_write)


@pytest.fixture
def writer(monkeypatch: pytest.MonkeyPatch) -> FailingWriter:
    return FailingWriter(monkeypatch)


@pytest.fixture
async def streams(cell: Cell) -> AsyncIterator[StreamPeer]:
    channel = cell.carrier.connect(cell.broker.addresses.broker)
    yield StreamPeer(channel)
    await channel.close()


# The chain


async def test_recorded_entry_is_read_back_with_its_sequence_hash_and_keeper(cell: Cell) -> None:
    receipt = await cell.admin.record(ENTRY)
    (record,) = await chain(cell)
    assert (record.entry, record.sequence, record.hash) == (ENTRY, receipt.sequence, receipt.hash)
    assert record.keeper == (await cell.admin.describe_broker()).info.broker_id


async def test_entries_of_calls_made_at_once_are_one_chain(cell: Cell) -> None:
    receipts = await asyncio.gather(*(cell.admin.record(sequenced(number)) for number in range(100)))
    records = await chain(cell)
    assert {receipt.sequence: receipt.hash for receipt in receipts} == {one.sequence: one.hash for one in records}
    assert {record.entry.detail for record in records} == {str(number) for number in range(100)}


async def test_calls_made_at_once_share_rounds_of_the_journal(cell: Cell) -> None:
    before = (await cell.admin.describe_broker()).journal.rounds
    await asyncio.gather(*(cell.admin.record(sequenced(number)) for number in range(200)))
    assert (await cell.admin.describe_broker()).journal.rounds - before < 20


async def test_chain_goes_on_after_a_restart(start_broker: StartBroker) -> None:
    cell = await start_broker()
    await record_all(cell, 0, 1)
    cell = await start_broker()
    await record_all(cell, 2)
    assert [record.entry.detail for record in await chain(cell)] == ["0", "1", "2"]


async def test_entries_that_could_not_be_stored_leave_no_gap(cell: Cell, writer: FailingWriter) -> None:
    await record_all(cell, 0)
    writer.error = StorageUnavailableError("the disk is full")
    ends = await asyncio.gather(*(cell.admin.record(sequenced(9)) for _ in range(5)), return_exceptions=True)
    assert {str(end) for end in ends} == {"the disk is full"}
    writer.error = None
    await record_all(cell, 1)
    assert [record.entry.detail for record in await chain(cell)] == ["0", "1"]


async def test_stopped_journal_refuses_entries_and_says_why(start_broker: StartBroker, writer: FailingWriter) -> None:
    cell = await start_broker(telemetry_interval_s=0)
    await record_all(cell, 0)
    writer.error = JournalStoppedError("a sync failed")
    for _ in range(2):
        with pytest.raises(StorageUnavailableError, match="the journal has stopped: a sync failed"):
            await cell.admin.record(ENTRY)
    assert len(await chain(cell)) == 1


async def test_foreign_last_record_stops_the_log_and_begins_no_second_chain(
    start_broker: StartBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    cell = await start_broker()
    await record_all(cell, 0)
    monkeypatch.setattr(producers, "refuse_producer", lambda _: None)
    await cell.client.send(AUDIT_TOPIC, await cell.client.create_producer(AUDIT_TOPIC), b"{}")
    cell = await start_broker()
    for _ in range(2):
        with pytest.raises(PreconditionFailedError, match=r"record 1 of /system/audit is damaged.*restore it"):
            await cell.admin.record(ENTRY)
    with pytest.raises(InvalidRequestError, match="record 1 of the audit log is damaged"):
        await cell.admin.audit()
    page = await cell.admin.audit(limit=1)
    assert (len(page.records), page.end) == (1, 2)


async def test_record_of_another_place_at_the_end_stops_the_log(
    start_broker: StartBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    cell = await start_broker()
    await record_all(cell, 0)
    monkeypatch.setattr(producers, "refuse_producer", lambda _: None)
    first_again = encode_record((await chain(cell))[0])
    await cell.client.send(AUDIT_TOPIC, await cell.client.create_producer(AUDIT_TOPIC), first_again)
    cell = await start_broker()
    with pytest.raises(PreconditionFailedError, match="record 1 of /system/audit"):
        await cell.admin.record(ENTRY)


async def test_somebody_writing_beside_the_log_is_noticed_at_once(cell: Cell, monkeypatch: pytest.MonkeyPatch) -> None:
    await record_all(cell, 0)
    monkeypatch.setattr(producers, "refuse_producer", lambda _: None)
    await cell.client.send(AUDIT_TOPIC, await cell.client.create_producer(AUDIT_TOPIC), b"{}")
    for _ in range(2):
        with pytest.raises(PreconditionFailedError):
            await cell.admin.record(ENTRY)


# Reading


async def test_log_is_read_in_pages(cell: Cell) -> None:
    await asyncio.gather(*(cell.admin.record(sequenced(number)) for number in range(25)))
    pages = [await cell.admin.audit(start, 10) for start in (0, 10, 20, 25, 99)]
    assert [[record.sequence for record in page.records] for page in pages] == [
        list(range(10)),
        list(range(10, 20)),
        list(range(20, 25)),
        [],
        [],
    ]
    assert {(page.start, page.end) for page in pages} == {(0, 25)}


async def test_page_of_the_longest_records_can_be_received(cell: Cell) -> None:
    long = replace(ENTRY, detail="\U0001f600" * AUDIT_TEXT_CHARS_MAX)
    await asyncio.gather(*(cell.admin.record(long) for _ in range(60)))
    page = await cell.admin.audit()
    assert 0 < len(page.records) < 60
    assert sum(len(encode_record(record)) for record in page.records) < 2 * AUDIT_PAGE_BYTES_MAX


async def test_log_that_is_empty_has_an_empty_page(cell: Cell) -> None:
    page = await cell.admin.audit()
    assert (page.records, page.start, page.end) == ((), 0, 0)


async def test_any_client_may_read_the_log(cell: Cell) -> None:
    inbox = await cell.client.receive(await cell.client.subscribe(AUDIT_TOPIC))
    await record_all(cell, 0, 1)
    messages = await inbox.take(2)
    assert verify([decode_record(message.payload) for message in messages], previous=GENESIS).is_intact
    assert [message.offset for message in messages] == [0, 1]


async def test_topic_of_the_log_is_shown_like_any_other(cell: Cell) -> None:
    await record_all(cell, 0)
    assert AUDIT_TOPIC in [info.topic for info in await cell.admin.topics("system")]
    (described,) = await cell.admin.describe(AUDIT_TOPIC)
    assert (described.end_offset, described.messages_in, described.strategy) == (1, 1, DispatchStrategy.RELIABLE)


async def test_arguments_that_are_long_are_cut_and_ones_that_are_too_long_refused(cell: Cell) -> None:
    await cell.admin.record(replace(ENTRY, arguments={"definition": "x" * (PLAN_ARGUMENTS_BYTES_MAX - 100)}))
    (record,) = await chain(cell)
    assert str(record.entry.arguments["cut"]).startswith('{"definition":"xxx')
    with pytest.raises(InvalidRequestError, match="cut them"):
        await cell.admin.record(replace(ENTRY, arguments={"definition": "x" * PLAN_ARGUMENTS_BYTES_MAX}))


# Nobody else


@pytest.mark.parametrize("strategy", list(DispatchStrategy))
async def test_no_client_attaches_a_producer_to_the_log(cell: Cell, strategy: DispatchStrategy) -> None:
    with pytest.raises(NotPermittedError, match="which brokers write alone"):
        await cell.client.create_producer(AUDIT_TOPIC, strategy=strategy)


async def test_no_client_sends_to_the_log_without_attaching(cell: Cell) -> None:
    with pytest.raises(NotPermittedError):
        await cell.client.send(AUDIT_TOPIC, producer_id(AUDIT_TOPIC, "producer"), b"x")
    assert await chain(cell) == ()


async def test_no_client_publishes_batches_to_the_log(streams: StreamPeer) -> None:
    with pytest.raises(NotPermittedError):
        await streams.publish().open(AUDIT_TOPIC, "p")


async def test_nobody_deletes_the_log(cell: Cell) -> None:
    await record_all(cell, 0)
    with pytest.raises(PreconditionFailedError, match="the audit log stays"):
        await cell.admin.delete_topic(AUDIT_TOPIC)
    with pytest.raises(PreconditionFailedError, match="the audit log stays"):
        await cell.admin.plan("delete_topic", topic=str(AUDIT_TOPIC))
    acts = [(record.entry.operation, record.entry.outcome) for record in await chain(cell)]
    ends = (Outcome.STARTED, Outcome.FAILED)
    assert acts[1:] == [("delete_topic", end) for end in ends * 2]  # the broker's own


async def test_nobody_makes_a_topic_of_its_name_before_the_broker_does(tmp_path: Path) -> None:
    async with running_broker(tmp_path / "data", telemetry_interval_s=0) as cell:
        with pytest.raises(NotPermittedError):
            await cell.admin.create_topic(AUDIT_TOPIC, DispatchStrategy.NON_RELIABLE)
        with pytest.raises(NotPermittedError):
            await cell.client.create_producer(TopicName("system", "audit-part-0"))
