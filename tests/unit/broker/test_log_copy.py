"""Logs that are carried between disks, with faults on the way: nothing is lost, and nothing stays half done."""

import asyncio
import zlib
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from danube.broker.cluster.log_copy import paced
from danube.broker.rates.rates import TokenBucket
from danube.metadata.records.catalog import Records
from danube.metadata.records.record_format import TopicStorage
from danube.metadata.records.storage import StorageRecords
from danube.model.calls.carry import CarryStep, PrepareCarry, ReadSegment, SegmentPiece
from danube.model.errors import (
    BrokerUnreachableError,
    MetadataError,
    TopicNotServedError,
)
from danube.model.policies import Policies, PolicyChange
from danube.model.topic import TopicName
from danube.runtime.rng import SystemRng
from danube.storage.carry import LogCarry
from danube.storage.segment.manifest import Manifest, Segment
from danube.testing.in_process_broker import Cell
from danube.testing.patience import LONG_S
from danube.testing.simulated.clock import SimClock
from danube.wire import control_messages
from tests.unit.broker.meddled import Answer, Hold, Meddled
from tests.unit.broker.network import Network, is_served, until

ORDERS = TopicName("default", "orders")
EVENTS = TopicName("default", "events")
MIB = 1 << 20
PAYLOAD = 200_000
COUNT = 20
"""Messages of this size: four segments."""


@pytest.fixture
async def network(tmp_path: Path) -> AsyncIterator[Network]:
    made = Network(tmp_path)
    made.carrier = Meddled(made.carrier)
    yield made
    await made.close()


@pytest.fixture
def carrier(network: Network) -> Meddled:
    assert isinstance(network.carrier, Meddled)
    return network.carrier


async def started(network: Network, name: str, **settings: Any) -> Cell:
    values = {
        "segment_bytes_max": MIB,
        "telemetry_interval_s": 0,
        "move_rate_bytes_s": 0,
        "max_unacked_messages": COUNT,
    }
    return await network.start(name, **values | settings)


async def with_topic(network: Network, name: TopicName = ORDERS, on: str = "a") -> tuple[Cell, int]:
    """A broker that serves a topic with a few segments; answers it and the topic's id."""
    cell = await started(network, on)
    await fill(network, cell, name)
    return cell, await topic_id_of(network, name)


async def fill(network: Network, cell: Cell, name: TopicName) -> None:
    await network.put(name, cell)
    await cell.client.subscribe(name, "s")
    producer = await cell.client.create_producer(name)
    for number in range(COUNT):
        await cell.client.send(name, producer, payload_of(number))


def payload_of(number: int) -> bytes:
    return (b"%d " % number).ljust(PAYLOAD, b".")


async def topic_id_of(network: Network, name: TopicName) -> int:
    record = await Records(network.meta_store.store).topic(name)
    assert record is not None
    return record.topic_id


async def assign(network: Network, name: TopicName, cell: Cell) -> None:
    records = Records(network.meta_store.store)
    record = await records.topic(name)
    assert record is not None
    assert await records.assign([(record, await network.id_of(cell))]) == 1


async def is_whole(cell: Cell, name: TopicName = ORDERS) -> None:
    """Every message is there, in order, and the next offset follows."""
    await until(lambda: is_open(cell, name))
    inbox = await cell.client.receive(await cell.client.subscribe(name, "s"))
    found = [(message.offset, message.payload) for message in await inbox.take(COUNT)]
    inbox.close()
    assert found == [(number, payload_of(number)) for number in range(COUNT)]
    producer = await cell.client.create_producer(name, "last")
    assert await cell.client.send(name, producer, b"next", producer="last")


async def is_open(cell: Cell, name: TopicName = ORDERS) -> bool:
    """True once it is not only this broker's by metadata, but takes clients."""
    try:
        await cell.client.create_producer(name, "first")
    except TopicNotServedError:
        return False
    return True


def files_of(network: Network, broker: str, topic_id: int) -> list[str]:
    folder = network.folder / broker / "segments" / str(topic_id)
    return sorted(each.name for each in folder.iterdir()) if folder.exists() else []


async def has_files(network: Network, broker: str, topic_id: int) -> bool:
    return bool(files_of(network, broker, topic_id))


async def until_removed(network: Network, broker: str, topic_id: int) -> None:
    async def holds() -> bool:
        return not files_of(network, broker, topic_id)

    await until(holds)


async def test_a_copy_that_broke_off_goes_on_with_the_segments_that_are_missing(
    network: Network, carrier: Meddled
) -> None:
    await with_topic(network)
    second = await started(network, "b")
    failed: list[ReadSegment] = []

    async def meddle(path: str, request: bytes, answer: Answer) -> bytes:
        if path.endswith("/ReadSegment") and len(carrier.reads) == 3 and not failed:
            failed.append(control_messages.READ_SEGMENT.decode(request))
            raise BrokerUnreachableError("the connection broke")
        return await answer()

    carrier.meddle = meddle
    await assign(network, ORDERS, second)
    await until(lambda: is_served(second, ORDERS))
    again = [read for read in carrier.reads if read.name != failed[0].name]
    assert len(set(map(str, again))) == len(again)
    assert len({read.name for read in again}) == 3
    await is_whole(second)


async def test_one_segment_of_a_log_is_in_memory_at_a_time(
    network: Network, carrier: Meddled, monkeypatch: pytest.MonkeyPatch
) -> None:
    await with_topic(network)
    second = await started(network, "b")
    original, read_before_put = LogCarry.put, list[int]()

    async def put(self: LogCarry, topic_id: int, segment: Segment, content: Sequence[bytes]) -> None:
        read_before_put.append(len({read.name for read in carrier.reads}))
        await original(self, topic_id, segment, content)

    monkeypatch.setattr(LogCarry, "put", put)
    await assign(network, ORDERS, second)
    await until(lambda: is_open(second))
    assert read_before_put == list(range(1, len(read_before_put) + 1))
    assert len(read_before_put) >= 4


async def test_a_taker_that_dies_half_way_leaves_the_topic_to_its_owner_and_nothing_on_its_disk(
    network: Network, carrier: Meddled
) -> None:
    first, topic_id = await with_topic(network)
    second = await started(network, "b")
    hold = carrier.hold_reads(after=6)
    await assign(network, ORDERS, second)
    await hold.wait()
    await network.stop("b")
    hold.free.set()
    assert files_of(network, "b", topic_id)
    await started(network, "b")
    await until_removed(network, "b", topic_id)
    await is_whole(first)


async def test_an_owner_that_dies_half_way_is_waited_for_and_the_copy_goes_on(
    network: Network, carrier: Meddled
) -> None:
    await with_topic(network)
    second = await started(network, "b")
    hold = carrier.hold_reads(after=6)
    await assign(network, ORDERS, second)
    await hold.wait()
    await network.stop("a")
    hold.free.set()
    with pytest.raises(TopicNotServedError):
        await second.client.create_producer(ORDERS)
    await started(network, "a")
    await until(lambda: is_served(second, ORDERS))
    await is_whole(second)


async def test_an_offer_of_an_owner_that_has_started_anew_is_void(
    network: Network, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its next owner may have been asleep with the offer, and the owner has taken messages since."""
    await with_topic(network)
    second = await started(network, "b")
    hold, original = Hold(), LogCarry.put_manifest

    async def put_manifest(self: LogCarry, manifest: Manifest) -> None:
        await original(self, manifest)
        hold.reached.set()
        await hold.free.wait()

    monkeypatch.setattr(LogCarry, "put_manifest", put_manifest)
    await assign(network, ORDERS, second)
    await hold.wait()
    monkeypatch.setattr("danube.broker.cluster.placement.LEAVE_TIMEOUT_S", 0.1)  # as if it were killed
    await network.stop("a")
    first = await started(network, "a")
    await until(lambda: is_open(first))
    producer = await first.client.create_producer(ORDERS, "meanwhile")
    assert await first.client.send(ORDERS, producer, b"meanwhile", producer="meanwhile")
    hold.free.set()
    await until(lambda: is_open(second))
    inbox = await second.client.receive(await second.client.subscribe(ORDERS, "s"))
    found = await inbox.take(COUNT)
    await second.client.acknowledge(ORDERS, found[0].offset, "s")
    assert (await inbox.next()).payload == b"meanwhile"
    inbox.close()


async def test_a_move_that_is_called_off_half_way_leaves_the_topic_where_it_was_and_nothing_of_it_elsewhere(
    network: Network, carrier: Meddled
) -> None:
    first, topic_id = await with_topic(network)
    second = await started(network, "b")
    hold = carrier.hold_reads(after=6)
    await assign(network, ORDERS, second)
    await hold.wait()
    assert files_of(network, "b", topic_id)
    await assign(network, ORDERS, first)
    hold.free.set()
    await until_removed(network, "b", topic_id)
    await is_whole(first)


async def test_of_two_moves_of_a_topic_the_last_one_holds(network: Network, carrier: Meddled) -> None:
    _, topic_id = await with_topic(network)
    second, third = await started(network, "b"), await started(network, "c")
    hold = carrier.hold_reads(after=6)
    await assign(network, ORDERS, second)
    await hold.wait()
    await assign(network, ORDERS, third)
    hold.free.set()
    await until(lambda: is_served(third, ORDERS))
    await is_whole(third)
    await until_removed(network, "b", topic_id)
    await until_removed(network, "a", topic_id)


@pytest.mark.parametrize(
    ("is_read_so", "said"),
    [(False, "came damaged"), (True, "as its owner reads it, is damaged")],
    ids=["sent so", "read so"],
)
async def test_a_piece_that_is_damaged_is_not_kept(
    network: Network, carrier: Meddled, caplog: pytest.LogCaptureFixture, is_read_so: bool, said: str
) -> None:
    await with_topic(network)
    second = await started(network, "b")

    async def meddle(path: str, _request: bytes, answer: Answer) -> bytes:
        response = await answer()
        if path.endswith("/ReadSegment") and len(carrier.reads) == 2:
            piece = control_messages.SEGMENT_PIECE.decode(response)
            content = b"x" + piece.content[1:]
            checksum = zlib.crc32(content) if is_read_so else piece.checksum
            return control_messages.SEGMENT_PIECE.encode(SegmentPiece(content=content, checksum=checksum))
        return response

    carrier.meddle = meddle
    await assign(network, ORDERS, second)
    await until(lambda: is_served(second, ORDERS))
    assert said in caplog.text
    await is_whole(second)


async def test_a_segment_that_retention_trims_before_it_is_copied_has_a_new_offer_asked_for(
    network: Network, carrier: Meddled, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("danube.broker.environment.SWEEP_INTERVAL_S", 0.05)
    _, topic_id = await with_topic(network)
    second = await started(network, "b")
    hold = carrier.hold_reads(after=0)
    await assign(network, ORDERS, second)
    await hold.wait()
    oldest = carrier.reads[0].name
    assert oldest in files_of(network, "a", topic_id)
    change = PolicyChange(given=Policies(retention_bytes=MIB, retention_drops_unread=1))
    await Records(network.meta_store.store).change_topic_policies([ORDERS], change)

    async def is_trimmed() -> bool:
        return oldest not in files_of(network, "a", topic_id)

    await until(is_trimmed)
    hold.free.set()
    await until(lambda: is_open(second))
    assert oldest not in files_of(network, "b", topic_id)
    assert "could not be copied" not in caplog.text
    producer = await second.client.create_producer(ORDERS)
    assert await second.client.send(ORDERS, producer, b"next")


async def test_a_topic_stays_where_it_is_while_the_other_disk_has_no_room(
    network: Network, caplog: pytest.LogCaptureFixture
) -> None:
    first, topic_id = await with_topic(network)
    second = await started(network, "b", disk_refuse_free_bytes=1 << 50)
    await assign(network, ORDERS, second)

    async def is_said() -> bool:
        return "free some space, or move the topic to another broker" in caplog.text

    await until(is_said)
    assert not files_of(network, "b", topic_id)
    await is_whole(first)


async def test_a_topic_that_is_deleted_while_it_is_carried_leaves_nothing_behind(
    network: Network, carrier: Meddled
) -> None:
    first, topic_id = await with_topic(network)
    second = await started(network, "b")
    hold = carrier.hold_reads(after=6)
    await assign(network, ORDERS, second)
    await hold.wait()
    await first.admin.delete_topic(ORDERS)
    hold.free.set()
    await until_removed(network, "a", topic_id)
    await until_removed(network, "b", topic_id)


async def test_a_topic_that_is_deleted_in_the_pause_leaves_nothing_behind(network: Network, carrier: Meddled) -> None:
    first, topic_id = await with_topic(network)
    second = await started(network, "b")
    hold = hold_pause(carrier)
    await assign(network, ORDERS, second)
    await hold.wait()
    await first.admin.delete_topic(ORDERS)
    hold.free.set()
    await until_removed(network, "a", topic_id)
    await until_removed(network, "b", topic_id)


def hold_pause(carrier: Meddled) -> Hold:
    """Hold the first answer to a pause."""
    hold = Hold()

    async def meddle(path: str, request: bytes, answer: Answer) -> bytes:
        response = await answer()
        if path.endswith("/Prepare") and pauses(control_messages.PREPARE_CARRY.decode(request)):
            hold.reached.set()
            await hold.free.wait()
        return response

    carrier.meddle = meddle
    return hold


def pauses(wanted: PrepareCarry) -> bool:
    return wanted.step is CarryStep.PAUSE


async def test_a_topic_whose_new_owner_gets_no_answer_from_the_metadata_is_served_by_it_with_its_messages(
    network: Network, monkeypatch: pytest.MonkeyPatch
) -> None:
    await with_topic(network)
    second = await started(network, "b")
    taker, original, lost = await network.id_of(second), StorageRecords.own, list[int]()

    async def own(self: StorageRecords, records: Sequence[TopicStorage], broker_id: int) -> list[TopicStorage]:
        owned = await original(self, records, broker_id)
        if broker_id == taker and not lost:
            lost.append(broker_id)
            raise MetadataError("no answer came")
        return owned

    monkeypatch.setattr(StorageRecords, "own", own)
    await assign(network, ORDERS, second)
    await until(lambda: is_served(second, ORDERS))
    assert lost
    await is_whole(second)


async def test_as_many_logs_are_copied_at_once_as_is_set(network: Network, carrier: Meddled) -> None:
    first, _ = await with_topic(network)
    await fill(network, first, EVENTS)
    second = await started(network, "b", move_parallelism=1)
    under_way: set[int] = set()
    most = 0

    async def meddle(path: str, request: bytes, answer: Answer) -> bytes:
        nonlocal most
        if path.endswith("/Prepare"):
            wanted = control_messages.PREPARE_CARRY.decode(request)
            under_way.add(wanted.topic_id)
            most = max(most, len(under_way))
            if wanted.step is not CarryStep.COPY:
                under_way.discard(wanted.topic_id)
        return await answer()

    carrier.meddle = meddle
    for name in (ORDERS, EVENTS):
        await assign(network, name, second)
    for name in (ORDERS, EVENTS):
        await until(lambda name=name: is_served(second, name))  # type: ignore[misc]
    assert most == 1


async def test_copies_keep_the_pace_that_is_set_all_together() -> None:
    clock = SimClock()
    pace, free = TokenBucket(1_000, 0.0), TokenBucket(0, 0.0)
    copies = asyncio.gather(*(paced(pace, 500, clock) for _ in range(6)), paced(free, 1 << 40, clock))
    await clock.run_for(1.9)  # after a second's worth at once
    assert not copies.done()
    await clock.run_for(0.2)
    await asyncio.wait_for(copies, LONG_S)


async def test_files_of_a_topic_that_another_broker_owns_are_kept_until_metadata_says_so(network: Network) -> None:
    first, topic_id = await with_topic(network)
    second = await started(network, "b")
    await assign(network, ORDERS, second)
    await until(lambda: is_served(second, ORDERS))
    stored = await StorageRecords(network.meta_store.store, SystemRng()).get(topic_id)
    assert stored.owner == await network.id_of(second)
    await until_removed(network, "a", topic_id)
    assert files_of(network, "b", topic_id)
    assert not await is_served(first, ORDERS)


async def test_a_topic_whose_disk_is_lost_starts_anew_elsewhere_and_its_messages_stay_on_that_disk(
    network: Network, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("danube.broker.cluster.leading.PLACEMENT_INTERVAL_S", 0.1)
    second = await started(network, "b", local_owner_lost="recreate", local_owner_lost_after_s=1)
    first = await started(network, "a", journal_file_bytes_max=MIB)
    await fill(network, first, ORDERS)
    topic_id = await topic_id_of(network, ORDERS)
    lost_id = await network.id_of(first)
    await network.stop("a")
    await until(lambda: is_open(second))
    assert f"starts anew, without messages, as topic id {await topic_id_of(network, ORDERS)}" in caplog.text
    producer = await second.client.create_producer(ORDERS)
    await second.client.send(ORDERS, producer, b"new")
    inbox = await second.client.receive(await second.client.subscribe(ORDERS, "s"))
    assert [(each.offset, each.payload) for each in await inbox.take(1)] == [(0, b"new")]
    inbox.close()
    again = await started(network, "a")
    described = control_messages.CLUSTER_DESCRIPTION.decode(
        await again.admin.call("/danube.control.Cluster/DescribeCluster")
    )
    assert {each.broker_id: each.lost_logs for each in described.brokers if each.lost_logs} == {str(lost_id): 1}
    assert not await is_served(again, ORDERS)
    await network.stop("a")
    await started(network, "a")
    stored = await StorageRecords(network.meta_store.store, SystemRng()).get(topic_id)
    assert stored.owner == lost_id
    await until(lambda: has_files(network, "a", topic_id))


async def test_a_topic_waits_for_its_disk_unless_it_is_to_start_anew(
    network: Network, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("danube.broker.cluster.leading.PLACEMENT_INTERVAL_S", 0.1)
    second = await started(network, "b", local_owner_lost_after_s=1)
    await with_topic(network)
    await network.stop("a")
    with pytest.raises(TopicNotServedError, match="has its messages and does not run"):
        await second.client.lookup(ORDERS)
    await is_whole(await started(network, "a"))
