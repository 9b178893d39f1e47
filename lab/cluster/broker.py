"""One broker of a simulated cluster: the real parts, put together as a real broker's, on a simulated machine."""

import asyncio
import random
from collections.abc import Awaitable
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import Any, cast

from danube.broker import assembly
from danube.broker.cluster.log_copy import LogCopies
from danube.broker.cluster.metadata import join_cluster, open_metadata
from danube.broker.cluster.metadata_store import MetaStore
from danube.broker.config.addresses import BrokerUrls
from danube.broker.config.metadata_store import MetaStoreType
from danube.broker.config.settings import BrokerSettings
from danube.broker.environment import Dependencies, Environment
from danube.broker.ownership.owner import TopicOwner
from danube.broker.security.assembly import unguarded
from danube.broker.services.context import ServiceContext
from danube.broker.topics.topic import ReliableTopic
from danube.data_folder.data_folder import DataFolder, Identity
from danube.data_folder.disk_reserve import DiskReserve
from danube.metadata.records import keys
from danube.metadata.records.catalog import Records, TopicRecord
from danube.metadata.records.cluster import decode_cluster_id
from danube.metadata.replication.replicated import ReplicatedStore
from danube.model.errors import BrokerUnreachableError, DeadlineExceededError
from danube.model.limits.broker import UNLOAD_TIMEOUT_S
from danube.model.ownership import StorageMode
from danube.model.topic import TopicName
from danube.rpc.carrier import Carrier
from danube.runtime.rng import SystemRng
from danube.runtime.tasks import TaskScope
from danube.storage.settings import StorageSettings
from danube.storage.store import Storage
from danube.testing.simulated.disk import SimDisk
from danube.wire import control_messages as wire
from lab.cluster.history import History
from lab.cluster.machine import Machine
from lab.cluster.metadata import NEAR_S, Line, Sequence, Trouble
from lab.kernel.time import LoopClock, loop_s

SUBSCRIPTION = "s"
_LOOK_S = 0.1  # between two looks at whether a connection has ended
_SETTINGS: dict[StorageMode, BrokerSettings] = {
    mode: BrokerSettings.model_validate(
        {
            "mode": "cluster",
            "broker_addr": "memory:0",
            "admin_addr": "memory:0",
            "storage": {"mode": mode, **({"folder": "shared"} if mode is StorageMode.SHARED_FS else {})},
        }
    )
    for mode in (StorageMode.LOCAL, StorageMode.SHARED_FS)
}


class SimBroker:
    """A broker process; what others ask of it goes through its machine."""

    store: ReplicatedStore
    storage: Storage
    records: Records
    serving: ServiceContext | None = None  # once it is a member

    def __init__(self, world: "Surroundings", machine: Machine) -> None:
        self.world = world
        self.machine = machine
        self.number = machine.number
        self.line = Line(world.sequence, machine, world.trouble)
        self.hears_others = self.is_heard = True
        """False while calls of other brokers do not come in, or answers do not go out."""
        self.denies = False
        """True while a firewall answers for it: its connections end, new ones are refused, and it lives."""
        self.fenced = asyncio.Event()
        self.is_ending = False
        self._running = AsyncExitStack()

    async def start(self) -> None:
        """Open all parts, in the order of `assembly`. Raises DanubeError."""
        given, running, carrier = self._given(), self._running, cast("Carrier", Calls(self))
        running.push_async_callback(self.store.close)
        await self.store.start()
        metadata = await open_metadata(given)
        self.records, cluster = metadata.records, metadata.cluster
        assert cluster is not None  # noqa: S101 - by the settings
        storage = self.storage = await assembly._open_storage(given, metadata, self.world.settings)  # noqa: SLF001 - as a broker
        self.world.begun.add(self.number)
        running.push_async_callback(given.tasks.close)
        owner = TopicOwner(storage, metadata.stored, self.number, is_alone=False)
        security = unguarded(given, metadata, carrier)
        serving, _ = await assembly._open_topics(given, metadata, storage, owner, security=security)  # noqa: SLF001 - as above
        for topic in serving.topics:
            self._opened(serving, topic.record)
        for name in ("open_owned", "unload"):
            setattr(serving.moves, name, partial(getattr(self, f"_{name}"), serving, getattr(serving.moves, name)))
        running.callback(serving.moves.go_down)
        storage.start()
        url = f"http://broker:{self.number}"
        await join_cluster(given, cluster, BrokerUrls(broker=url, connect=url, admin=url), storage, self.fenced.set)
        copies = LogCopies(
            carrier,
            storage,
            metadata.stored,
            cluster,
            clock=given.clock,
            bytes_per_s=given.settings.move_rate_bytes_s,
        )
        assembly._start_placement(given, metadata, serving, owner, copies=copies, fenced=self.fenced)  # noqa: SLF001 - as above
        self.serving = serving

    async def stop(self) -> None:
        """End as a broker that was asked to."""
        await self._running.aclose()

    def find(self, name: TopicName) -> Any:  # noqa: ANN401 - AnyTopic is no type that a caller can ask for parts of
        """A topic that it serves; None while clients cannot ask it."""
        return self.serving.topics.find(str(name)) if self.serving is not None and not self.is_ending else None

    def note_position(self, topic: ReliableTopic, position: int) -> None:
        """A position is durable."""
        self.world.history.position_saved(topic.record.topic_id, epoch_of(topic), position)

    def _opened(self, serving: ServiceContext, record: TopicRecord) -> None:
        """Judge the position at which a topic's subscription goes on."""
        topic = serving.topics.find(str(record.name))
        if isinstance(topic, ReliableTopic) and SUBSCRIPTION in topic.subscriptions:
            position = topic.subscriptions[SUBSCRIPTION].driver.engine.position
            self.world.history.position_found(record.topic_id, epoch_of(topic), position)

    async def _open_owned(self, serving: ServiceContext, original: Any, record: TopicRecord) -> None:  # noqa: ANN401
        await original(record)
        self._opened(serving, record)

    async def _unload(self, serving: ServiceContext, original: Any, name: TopicName) -> None:  # noqa: ANN401
        """A planned move begins: from here on the subscription goes on where it is."""
        topic, begun_s = serving.topics.find(str(name)), loop_s()
        await original(name)
        if isinstance(topic, ReliableTopic) and self.storage.stopped is None and loop_s() < begun_s + UNLOAD_TIMEOUT_S:
            for subscription in topic.subscriptions.values():
                self.note_position(topic, subscription.driver.engine.position)

    async def _connected(self, url: str) -> Awaitable[None]:
        """A connection with another broker, by which its death shows. A machine without power closes none."""
        await asyncio.sleep(self.machine.chance.uniform(0.0, NEAR_S))
        number = int(url.rpartition(":")[2])
        peer = self.world.brokers.get(number)
        is_whole = peer is None or (self.is_heard and peer.hears_others and peer.is_heard and self.hears_others)
        if number in self.world.dark or not is_whole:
            raise TimeoutError
        if peer is None or peer.denies or peer.serving is None:
            raise ConnectionRefusedError
        return self._connection_ended(peer)

    async def _connection_ended(self, peer: "SimBroker") -> None:
        while not peer.denies and (not peer.machine.is_dead or peer.number in self.world.dark):  # noqa: ASYNC110 - set in many places
            await asyncio.sleep(_LOOK_S)

    def _given(self) -> Dependencies:
        world, machine = self.world, self.machine
        rng, clock = SystemRng(machine.chance.getrandbits(63)), LoopClock()
        disk = machine.disk if world.mode is StorageMode.LOCAL else SimDisk()
        self.store = ReplicatedStore(self.line, clock, rng)
        entry, has_begun = world.sequence.state.entry(keys.CLUSTER_ID), self.number in world.begun
        identity = Identity(
            broker_id=self.number,
            cluster_id=decode_cluster_id(entry) if entry is not None and has_begun else "",
            is_shared=True,
            has_journal=has_begun and world.mode is StorageMode.LOCAL,
        )
        path = Path("simulated")
        return Dependencies(
            settings=_SETTINGS[world.mode],
            environment=Environment(
                clock=clock,
                rng=rng,
                meta_store=MetaStore(self.store, MetaStoreType.MEMORY),
                shared_disk=machine.disk,
                peers=self._connected,
            ),
            folder=DataFolder(path, disk, disk.lock("lock"), identity, DiskReserve(path, disk)),
            running=self._running,
            tasks=TaskScope("broker", machine.crashed),
            writer=cast("Any", machine.thread()),
            reader=cast("Any", machine.thread()),
            flusher=cast("Any", machine.thread()),
        )


class Calls:
    """Calls of one broker to others: what a copy of a log needs of a `Carrier`, and of its channel."""

    def __init__(self, own: SimBroker, number: int = 0) -> None:
        self._own = own
        self._number = number

    def connect(self, address: str) -> "Calls":
        return Calls(self._own, int(address.rpartition(":")[2]))

    async def close(self) -> None:
        return None

    async def call(self, path: str, request: bytes, *, timeout_s: float) -> bytes:
        peer = self._own.world.brokers.get(self._number)
        try:
            async with asyncio.timeout(timeout_s):
                await asyncio.sleep(self._own.machine.chance.uniform(0.0, NEAR_S))
                if peer is None or peer.serving is None or peer.machine.is_dead:
                    raise BrokerUnreachableError(f"broker {self._number} cannot be reached")
                if not (self._own.is_heard and peer.hears_others):
                    await asyncio.Event().wait()
                answer = await asyncio.shield(peer.machine.spawn(_answered(peer.serving, path, request)))
                if not (peer.is_heard and self._own.hears_others):
                    await asyncio.Event().wait()
                return answer
        except TimeoutError:
            raise DeadlineExceededError(f"broker {self._number} does not answer") from None


async def _answered(peer: ServiceContext, path: str, request: bytes) -> bytes:
    offers = peer.control.offers
    if path.endswith("/Prepare"):
        return wire.CARRY_OFFER.encode(await offers.prepare(wire.PREPARE_CARRY.decode(request)))
    return wire.SEGMENT_PIECE.encode(await offers.read(wire.READ_SEGMENT.decode(request)))


def epoch_of(topic: ReliableTopic) -> int:
    """Epoch under which a topic is written."""
    state = getattr(topic.log, "_topic", None)
    return state.epoch if state is not None else 0


class Surroundings:
    """Parts of a simulated cluster that outlive its brokers, as each of them meets them."""

    def __init__(self, chance: random.Random, settings: StorageSettings) -> None:
        self.chance = chance
        self.settings = settings
        self.mode = chance.choice([StorageMode.LOCAL, StorageMode.SHARED_FS])
        self.history = History()
        self.trouble = Trouble(chance)
        self.sequence = Sequence(self.history.owner_changed)
        self.brokers: dict[int, SimBroker] = {}
        self.begun: set[int] = set()
        """Brokers that have opened their storage before."""
        self.dark: set[int] = set()
        """Brokers whose machines have no power: their connections do not end."""
