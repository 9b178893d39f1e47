"""Topics of a cluster: assigned, released, taken over and closed, so that each is served by the broker it should be."""

import asyncio
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import pytest

from danube.broker.cluster.leading import Leading
from danube.broker.topics import drain
from danube.client import DanubeClientBuilder
from danube.client.connection import attachment
from danube.metadata.cluster.membership import Member, MemberRole, MembershipStatus
from danube.metadata.records import keys
from danube.metadata.records.catalog import Records
from danube.metadata.records.cluster import BrokerDrain, encode_drain
from danube.metadata.records.storage import StorageRecords
from danube.metadata.store import Transaction
from danube.model.calls.carry import CarryOffer, CarryStep, PrepareCarry, ReadSegment
from danube.model.calls.client import LookupKind
from danube.model.errors import (
    DanubeError,
    DataFolderError,
    PreconditionFailedError,
    SettingsError,
    StorageChangedError,
    TopicNotServedError,
    UnavailableError,
)
from danube.model.records.analytics import ANALYTICS_TOPIC
from danube.model.topic import DispatchStrategy, TopicName
from danube.runtime.disk import LocalDisk
from danube.runtime.rng import SystemRng
from danube.storage.journal.folder import Fence
from danube.storage.segment.manifest import segment_name
from danube.storage.segment.manifest_format import decode_manifest
from danube.testing.in_process_broker import Cell
from danube.testing.patience import LONG_S, PATIENCE_S
from danube.wire import control_messages
from tests.unit.broker.network import Network, is_served, until

ORDERS = TopicName("default", "orders")
EVENTS = TopicName("default", "events")


async def shared(network: Network, name: str) -> Cell:
    """A broker over the shared folder."""
    folder = network.folder / "shared"
    folder.mkdir(exist_ok=True)
    return await network.start(name, storage={"mode": "shared_fs", "folder": folder}, telemetry_interval_s=0)


async def assign(network: Network, name: TopicName, cell: Cell) -> None:
    await assign_to(network, name, await network.id_of(cell))


async def assign_to(network: Network, name: TopicName, broker_id: int) -> None:
    records = Records(network.meta_store.store)
    record = await records.topic(name)
    assert record is not None
    assert await records.assign([(record, broker_id)]) == 1


async def published(cell: Cell, name: TopicName, count: int, first: int = 0) -> None:
    producer = await cell.client.create_producer(name)
    for number in range(first, first + count):
        await cell.client.send(name, producer, b"%d" % number)


async def received(cell: Cell, name: TopicName, count: int, subscription: str = "s") -> list[tuple[int, bytes]]:
    inbox = await cell.client.receive(await cell.client.subscribe(name, subscription))
    found = [(message.offset, message.payload) for message in await inbox.take(count)]
    for offset, _ in found:
        await cell.client.acknowledge(name, offset, subscription)
    inbox.close()
    return found


def numbers(first: int, end: int) -> list[tuple[int, bytes]]:
    return [(number, b"%d" % number) for number in range(first, end)]


async def test_new_topics_go_to_the_brokers_with_the_fewest(network: Network) -> None:
    cells = [await shared(network, name) for name in "abc"]
    await cells[0].admin.create_partitioned_topic(ORDERS, 6)
    names = [ORDERS.partition(number) for number in range(6)]

    async def are_spread() -> bool:
        served = [sum([await is_served(cell, name) for name in names]) for cell in cells]
        return served == [2, 2, 2]

    await until(are_spread)


async def test_no_new_topic_goes_to_a_broker_whose_raft_member_is_away(
    network: Network, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = await shared(network, "a"), await shared(network, "b")
    cluster = first.broker.cluster
    assert cluster is not None
    brokers, gone = cluster.registry.brokers, await network.id_of(second)
    numbered = {broker_id: replace(one, node_id=broker_id) for broker_id, one in brokers.items()}
    members = [
        Member(node_id=broker_id, address="", role=MemberRole.VOTER, connected=broker_id != gone)
        for broker_id in brokers
    ]
    monkeypatch.setattr(type(cluster.registry), "brokers", numbered)
    monkeypatch.setattr(cluster, "membership", Told(MembershipStatus(kind="raft", node_id=1, members=members)))
    assert cluster.topics.choose([ORDERS, EVENTS]) == [await network.id_of(first)] * 2


@dataclass
class Told:
    """A membership that says this."""

    told: MembershipStatus

    def status(self) -> MembershipStatus:
        return self.told


async def test_a_planned_move_loses_nothing_and_continues_offsets_and_cursors(network: Network) -> None:
    first, second = await shared(network, "a"), await shared(network, "b")
    await network.put(ORDERS, first)
    await first.client.subscribe(ORDERS, "s")
    await published(first, ORDERS, 10)
    assert await received(first, ORDERS, 4) == numbers(0, 4)
    await assign(network, ORDERS, second)
    await until(lambda: is_served(second, ORDERS))
    assert (await first.client.lookup(ORDERS)).kind is LookupKind.REDIRECT
    await published(second, ORDERS, 2, first=10)
    assert await received(second, ORDERS, 8) == numbers(4, 12)
    await assign(network, ORDERS, first)
    await until(lambda: is_served(first, ORDERS))
    await published(first, ORDERS, 1, first=12)
    assert await received(first, ORDERS, 1) == numbers(12, 13)


async def test_a_topic_that_was_another_brokers_before_its_creation_is_answered_keeps_its_subscriptions(
    network: Network,
) -> None:
    first, second = await shared(network, "a"), await shared(network, "b")
    ids = [await network.id_of(cell) for cell in (first, second)]
    assert first.broker.cluster is not None
    first.broker.cluster.topics.assigner = lambda names, _: [ids[0] for _ in names]
    answered, transact = asyncio.Event(), network.meta_store.store.transact

    async def create_and_move(transaction: Transaction) -> int:
        if keys.topic(ORDERS) not in {one.key for one in transaction.conditions}:
            return await transact(transaction)
        network.meta_store.store.transact = transact  # type: ignore[method-assign]
        revision = await transact(transaction)
        await assign_to(network, ORDERS, ids[1])  # before the first one is told of its creation
        await answered.wait()
        return revision

    network.meta_store.store.transact = create_and_move  # type: ignore[method-assign]
    creating = asyncio.create_task(first.admin.create_topic(ORDERS))
    await until(lambda: is_served(second, ORDERS))
    await second.client.subscribe(ORDERS, "s")
    await published(second, ORDERS, 3)
    assert await received(second, ORDERS, 2) == numbers(0, 2)
    await assign(network, ORDERS, first)
    await until(lambda: knows_owner(network, ORDERS, ids[0]))
    answered.set()
    await creating
    await until(lambda: is_served(first, ORDERS))
    assert await received(first, ORDERS, 1) == numbers(2, 3)


async def knows_owner(network: Network, name: TopicName, owner: int) -> bool:
    store = network.meta_store.store
    return (await StorageRecords(store, SystemRng()).get(await topic_id_of(network, name))).owner == owner


async def test_our_consumer_follows_a_move_without_a_health_check(
    network: Network, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attachment, "CLIENT_HEALTH_INTERVAL_S", LONG_S)
    monkeypatch.setattr(drain, "DRAIN_WAIT_S", LONG_S)
    first, second = await shared(network, "a"), await shared(network, "b")
    await network.put(ORDERS, first)
    url = f"http://{first.broker.addresses.broker}"
    async with await DanubeClientBuilder().service_url(url).with_carrier(network.carrier).build() as client:
        naming = client.new_consumer().with_topic(str(ORDERS)).with_consumer_name("c").with_subscription("s")
        consumer = naming.build()
        await consumer.subscribe()
        messages = await consumer.receive()
        await assign(network, ORDERS, second)
        await until(lambda: is_served(second, ORDERS))
        await published(second, ORDERS, 1)
        async with asyncio.timeout(PATIENCE_S):
            assert (await messages.get()).payload == b"0"


async def test_a_move_of_a_non_reliable_topic_keeps_its_subscriptions(network: Network) -> None:
    first, second = await shared(network, "a"), await shared(network, "b")
    await network.put(EVENTS, first, DispatchStrategy.NON_RELIABLE)
    await first.client.subscribe(EVENTS, "s")
    await assign(network, EVENTS, second)
    await until(lambda: is_served(second, EVENTS))
    inbox = await second.client.receive(await second.client.subscribe(EVENTS, "s"))
    producer = await second.client.create_producer(EVENTS, strategy=DispatchStrategy.NON_RELIABLE)
    await second.client.send(EVENTS, producer, b"x")
    assert [message.payload for message in await inbox.take(1)] == [b"x"]
    inbox.close()


async def test_topics_of_a_broker_that_is_gone_are_taken_over_with_all_that_was_acknowledged(network: Network) -> None:
    first, second = await shared(network, "a"), await shared(network, "b")
    await network.put(ORDERS, first)
    await first.client.subscribe(ORDERS, "s")
    await published(first, ORDERS, 5)
    await network.lose(first)
    await until(lambda: is_served(second, ORDERS))
    await published(second, ORDERS, 3, first=5)
    assert await received(second, ORDERS, 8) == numbers(0, 8)


async def test_a_broker_whose_topics_were_taken_over_acknowledges_nothing_and_is_to_start_again(
    network: Network,
) -> None:
    first, second = await shared(network, "a"), await shared(network, "b")
    await network.put(ORDERS, first)
    producer = await first.client.create_producer(ORDERS)
    await first.client.send(ORDERS, producer, b"0")
    await network.lose(first)
    await until(lambda: is_served(second, ORDERS))
    with pytest.raises(DanubeError):
        await first.client.send(ORDERS, producer, b"never")
    async with asyncio.timeout(10):
        await first.broker.fenced.wait()
    await network.stop("a")
    again = await shared(network, "a")
    assert (await again.client.lookup(ORDERS)).kind is LookupKind.REDIRECT
    await assign(network, ORDERS, again)
    await until(lambda: is_served(again, ORDERS))
    await published(again, ORDERS, 1, first=1)


async def test_a_broker_that_stops_has_its_topics_served_before_it_ends(network: Network) -> None:
    first, second = await shared(network, "a"), await shared(network, "b")
    for number in range(5):
        await network.put(ORDERS.partition(number), first)
    await network.stop("a")
    assert all([await is_served(second, ORDERS.partition(number)) for number in range(5)])


async def test_a_drained_broker_has_no_topics_and_gets_none(network: Network) -> None:
    first, second = await shared(network, "a"), await shared(network, "b")
    for number in range(5):
        await network.put(ORDERS.partition(number), first)
    broker_id = await network.id_of(first)
    await network.meta_store.store.put(
        keys.drained_broker(broker_id), encode_drain(BrokerDrain(broker_id=broker_id, parallel_moves=2))
    )

    async def all_moved() -> bool:
        return all([await is_served(second, ORDERS.partition(number)) for number in range(5)])

    await until(all_moved)
    await first.admin.create_topic(EVENTS)
    await until(lambda: is_served(second, EVENTS))


async def test_a_topic_on_the_disk_of_a_broker_that_is_gone_waits_for_it(network: Network) -> None:
    first, second = await network.start("a"), await network.start("b")
    await network.put(ORDERS, first)
    await published(first, ORDERS, 3)
    await first.client.subscribe(ORDERS, "s")
    await network.stop("a")
    with pytest.raises(TopicNotServedError, match="has its messages and does not run"):
        await second.client.lookup(ORDERS)
    again = await network.start("a")
    await published(again, ORDERS, 1, first=3)
    assert await received(again, ORDERS, 1) == numbers(3, 4)


async def test_non_reliable_topics_of_a_broker_that_is_gone_are_served_at_once(network: Network) -> None:
    first, second = await network.start("a"), await network.start("b")
    await network.put(EVENTS, first, DispatchStrategy.NON_RELIABLE)
    await network.stop("a")
    await until(lambda: is_served(second, EVENTS))


async def test_a_broker_without_its_lease_takes_no_messages_of_topics_that_others_may_serve(network: Network) -> None:
    first, _ = await shared(network, "a"), await shared(network, "b")
    await network.put(EVENTS, first, DispatchStrategy.NON_RELIABLE)
    producer = await first.client.create_producer(EVENTS, strategy=DispatchStrategy.NON_RELIABLE)
    await network.lose(first)
    with pytest.raises(UnavailableError), suppress(TopicNotServedError):
        await first.client.send(EVENTS, producer, b"x")


async def test_a_broker_of_another_storage_mode_is_refused(network: Network) -> None:
    await shared(network, "a")
    with pytest.raises(SettingsError, match="keep messages in mode shared_fs, and this one is set to local"):
        await network.start("b")


async def test_a_shared_folder_that_is_not_mounted_is_refused(network: Network, tmp_path: Path) -> None:
    await shared(network, "a")
    for folder, said in ((tmp_path / "no", "is not there"), (tmp_path / "empty", "is it mounted")):
        if said != "is not there":
            folder.mkdir()
        with pytest.raises(DataFolderError, match=said):
            await network.start("b", storage={"mode": "shared_fs", "folder": folder})


async def test_a_topic_is_carried_between_disks_with_its_messages_cursors_and_producer_states(network: Network) -> None:
    first, second = await network.start("a"), await network.start("b")
    await network.put(ORDERS, first)
    await first.client.subscribe(ORDERS, "s")
    await published(first, ORDERS, 6)
    assert await received(first, ORDERS, 2) == numbers(0, 2)
    topic_id = await topic_id_of(network, ORDERS)
    await assign(network, ORDERS, second)
    await until(lambda: is_served(second, ORDERS))
    assert (await first.client.lookup(ORDERS)).kind is LookupKind.REDIRECT
    await published(second, ORDERS, 2, first=6)
    assert await received(second, ORDERS, 6) == numbers(2, 8)
    await until(lambda: is_removed(network.folder / "a" / "segments" / str(topic_id)))
    await network.stop("a")
    await network.stop("b")
    again = await network.start("b")
    await published(again, ORDERS, 1, first=8)
    assert await received(again, ORDERS, 1) == numbers(8, 9)


async def test_a_topic_is_carried_there_and_back_again(network: Network) -> None:
    cells = [await network.start(name) for name in "ab"]
    await network.put(ORDERS, cells[0])
    await cells[0].client.subscribe(ORDERS, "s")
    for turn in range(4):
        cell, other = cells[turn % 2], cells[(turn + 1) % 2]
        await published(cell, ORDERS, 2, first=2 * turn)
        assert await received(cell, ORDERS, 2) == numbers(2 * turn, 2 * turn + 2)
        await assign(network, ORDERS, other)
        await until(partial(is_served, other, ORDERS))
    await network.stop("a")
    again = await network.start("a")
    await published(again, ORDERS, 1, first=8)
    assert await received(again, ORDERS, 1) == numbers(8, 9)


@pytest.fixture
def _leaderless(monkeypatch: pytest.MonkeyPatch) -> None:
    """Topics of a broker that is gone stay with it."""

    async def rest(_leading: Leading) -> None:
        return

    monkeypatch.setattr(Leading, "_reconcile", rest)


LEADERLESS = pytest.mark.usefixtures("_leaderless")


@LEADERLESS
async def test_a_carry_that_is_called_off_leaves_the_topic_where_it_was(network: Network) -> None:
    first, second = await network.start("a"), await network.start("b")
    await network.put(ORDERS, first)
    await published(first, ORDERS, 3)
    topic_id = await topic_id_of(network, ORDERS)
    offer = await carry_step(first, topic_id, CarryStep.PAUSE)
    assert isinstance(offer, PreconditionFailedError)
    await network.lose(second)
    await assign(network, ORDERS, second)
    assert isinstance(await carry_step(first, topic_id, CarryStep.PAUSE), CarryOffer)
    with pytest.raises(TopicNotServedError):
        await first.client.create_producer(ORDERS)
    await assign(network, ORDERS, first)
    await carry_step(first, topic_id, CarryStep.RESUME)
    await until(lambda: is_served(first, ORDERS))
    await published(first, ORDERS, 1, first=3)


@LEADERLESS
async def test_segments_are_read_of_a_topic_that_leaves_and_of_no_other(network: Network) -> None:
    first, second = await network.start("a"), await network.start("b")
    await network.put(ORDERS, first)
    await published(first, ORDERS, 3)
    topic_id = await topic_id_of(network, ORDERS)
    await network.lose(second)
    await assign(network, ORDERS, second)
    offer = await carry_step(first, topic_id, CarryStep.PAUSE)
    assert isinstance(offer, CarryOffer)
    manifest = decode_manifest(offer.manifest)
    assert manifest is not None
    name = segment_name(topic_id, manifest.segments[0]).rpartition("/")[2]
    wanted = ReadSegment(topic_id=topic_id, name=name, position=0, length=8)
    path, request = "/danube.control.Carry/ReadSegment", control_messages.READ_SEGMENT.encode(wanted)
    assert len(control_messages.SEGMENT_PIECE.decode(await first.admin.call(path, request)).content) == 8
    await assign(network, ORDERS, first)
    await carry_step(first, topic_id, CarryStep.RESUME)
    await until(lambda: is_served(first, ORDERS))
    with pytest.raises(PreconditionFailedError, match="is assigned to this broker and stays here"):
        await first.admin.call(path, request)


@LEADERLESS
async def test_an_owner_that_has_resumed_cannot_lose_its_topic_to_a_late_one(network: Network) -> None:
    first, second = await network.start("a"), await network.start("b")
    await network.put(ORDERS, first)
    topic_id = await topic_id_of(network, ORDERS)
    stored = StorageRecords(network.meta_store.store, SystemRng())
    await network.lose(second)
    await assign(network, ORDERS, second)
    offer = await carry_step(first, topic_id, CarryStep.PAUSE)
    assert isinstance(offer, CarryOffer)
    record = await stored.get(topic_id)
    assert record.revision == offer.revision
    await assign(network, ORDERS, first)
    await carry_step(first, topic_id, CarryStep.RESUME)
    await until(lambda: is_served(first, ORDERS))
    with pytest.raises(StorageChangedError):
        await stored.own([record], await network.id_of(first) + 1)


async def carry_step(cell: Cell, topic_id: int, step: CarryStep) -> CarryOffer | DanubeError:
    wanted = PrepareCarry(topic=ORDERS, topic_id=topic_id, step=step)
    request = control_messages.PREPARE_CARRY.encode(wanted)
    try:
        return control_messages.CARRY_OFFER.decode(await cell.admin.call("/danube.control.Carry/Prepare", request))
    except DanubeError as error:
        return error


async def topic_id_of(network: Network, name: TopicName) -> int:
    record = await Records(network.meta_store.store).topic(name)
    assert record is not None
    return record.topic_id


async def is_removed(path: Path) -> bool:
    return not path.exists()  # noqa: ASYNC240 - a moment, in a test


async def test_a_broker_that_is_behind_takes_no_topic_from_one_that_runs(network: Network) -> None:
    first, second = await shared(network, "a"), await shared(network, "b")
    store = network.meta_store.store
    for name, strategy in ((ORDERS, DispatchStrategy.RELIABLE), (EVENTS, DispatchStrategy.NON_RELIABLE)):
        await network.put(name, first, strategy)
        record = await Records(store).topic(name)
        assert record is not None
        assert await second.broker.moves.topics._owner.acquire([record], lambda _broker_id: False) == frozenset()
    await published(first, ORDERS, 3)
    assert not first.broker.fenced.is_set()


async def test_a_log_that_the_metadata_is_too_old_to_know_stays_on_the_disk(network: Network) -> None:
    first = await network.start("a")
    await network.put(EVENTS, first, DispatchStrategy.NON_RELIABLE)
    deleted = await topic_id_of(network, EVENTS)
    await first.admin.delete_topic(EVENTS)
    await network.start("b")
    await network.put(ORDERS, await network.start("c"))
    other = await topic_id_of(network, ORDERS)
    folders = [network.folder / "a" / "segments" / str(topic_id) for topic_id in (deleted, deleted + 1_000, other)]
    for folder in folders:
        folder.mkdir(parents=True)
        (folder / "0000000001.manifest").touch()
    await first.broker.moves.topics._owner.sweep_unowned(first.broker.moves.topics.cluster)
    assert [folder.exists() for folder in folders] == [False, True, True]


def fence_all(folder: Path, broker_id: int) -> None:
    for path in (folder / "journals").iterdir():
        Fence(LocalDisk(folder), f"journals/{path.name}").put_up(broker_id)


async def test_a_topic_in_an_older_journal_of_its_owner_is_released_all_the_same(network: Network) -> None:
    first, second = await shared(network, "a"), await shared(network, "b")
    await network.put(ORDERS, first)
    await published(first, ORDERS, 3)
    await first.client.subscribe(ORDERS, "s")
    target = await network.id_of(second)
    await network.stop("b")
    await asyncio.to_thread(fence_all, network.folder / "shared", target)
    await network.stop("a")
    records = Records(network.meta_store.store)
    record = await records.topic(ORDERS)
    assert record is not None
    assert await records.assign([(record, target)]) == 1
    await shared(network, "a")  # in a new journal, and still the owner of what is in the old one
    second = await shared(network, "b")
    await until(lambda: is_served(second, ORDERS))
    await published(second, ORDERS, 1, first=3)
    assert await received(second, ORDERS, 1) == numbers(3, 4)


async def test_results_of_jobs_are_taken_over_and_drained_as_other_topics_are(network: Network) -> None:
    first, second = await shared(network, "a"), await shared(network, "b")
    await network.put(ANALYTICS_TOPIC, first)
    await assign(network, ANALYTICS_TOPIC, second)
    await until(lambda: is_served(second, ANALYTICS_TOPIC))
    await network.lose(second)
    await until(lambda: is_served(first, ANALYTICS_TOPIC))
