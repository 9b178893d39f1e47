"""The composition root: builds every part of a broker once, starts them in order and stops them in the other."""

import asyncio
import logging
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING

from danube import __version__
from danube.broker.clients.consumers import Consumers
from danube.broker.clients.disconnected import DisconnectedClients
from danube.broker.clients.drain import going_down
from danube.broker.clients.producers import Producers
from danube.broker.cluster.metadata_store import MetaStore, open_meta_store
from danube.broker.config.dispatch import DispatchSettings
from danube.broker.config.metadata_store import MetaStoreType
from danube.broker.config.settings import (
    BrokerSettings,
    Mode,
    advertised_urls,
    bound_url,
    default_policies,
    own_policies,
)
from danube.broker.config.storage import storage_settings
from danube.broker.control import Control
from danube.broker.control.audit import AuditLog
from danube.broker.control.brokers import BrokerControl, BrokerIdentity, BrokerUrls
from danube.broker.control.cluster import ClusterControl
from danube.broker.control.connections import Connections
from danube.broker.control.describe import Descriptions
from danube.broker.control.namespaces import BUILT_IN_NAMESPACES, NamespaceControl
from danube.broker.control.peeking import Peeking
from danube.broker.control.plans.durability import DurabilityControl
from danube.broker.control.plans.lifecycle import PlanControl
from danube.broker.control.plans.membership_plan import MarkPlan, Members
from danube.broker.control.plans.planned import planned_operations
from danube.broker.control.plans.retention import RetentionControl
from danube.broker.control.policies import PolicyControl
from danube.broker.control.positions import PositionControl
from danube.broker.control.subscriptions import SubscriptionControl
from danube.broker.control.topics import TopicControl
from danube.broker.dispatch.redelivery import RedeliveryPolicy
from danube.broker.environment import Addresses, Environment
from danube.broker.periodic import sweep_on
from danube.broker.policy.admission import Admission
from danube.broker.policy.dead_letters import DeadLetters
from danube.broker.policy.disk_reserve import DiskReserve
from danube.broker.policy.expiry import Expiry
from danube.broker.policy.pacing import Paces
from danube.broker.policy.retention import RetentionSync
from danube.broker.services import admin_services, client_services
from danube.broker.services.context import ServiceContext
from danube.broker.telemetry.metrics import RpcCounts, new_registry
from danube.broker.telemetry.publisher import Telemetry, TelemetrySource
from danube.broker.topics.local_topics import Topics
from danube.broker.topics.moves import Moves
from danube.broker.topics.producer_access import ProducerAccesses
from danube.data_folder.data_folder import REPAIRED, DataFolder, open_data_folder
from danube.metadata.records.catalog import Records
from danube.metadata.records.cluster import own_cluster_id
from danube.metadata.records.plans import PlanRecords
from danube.metadata.records.producers import ProducerEpochs
from danube.metadata.records.restore_mark import read_mark
from danube.metadata.records.storage import StorageRecords
from danube.metadata.store import MetadataStore
from danube.model.limits.broker import DRAIN_TIMEOUT_S
from danube.model.policies import PoisonPolicy
from danube.rpc.carrier import CarrierOptions, Service
from danube.rpc.grpc.carrier import GrpcCarrier
from danube.runtime.blocking import BlockingThread
from danube.runtime.tasks import TaskScope
from danube.storage.settings import StorageSettings
from danube.storage.store import Storage

if TYPE_CHECKING:
    from danube.broker.cluster.member import Cluster
    from danube.metadata.sqlite.store import SqliteStore

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Metadata:
    """What is read and written of one metadata store."""

    records: Records
    plans: PlanRecords
    epochs: ProducerEpochs
    stored: StorageRecords
    mark: MarkPlan
    cluster: "Cluster | None"
    """None where the broker stands alone."""
    kind: MetaStoreType
    cluster_id: str
    restore_id: str
    """Of the last restore; "" for none."""
    alone: "SqliteStore | None"
    """The broker's own file; None where the metadata is elsewhere."""


class Assembly:
    """Builds the parts of one broker; each leaves behind how to stop it, and the last started is stopped first."""

    def __init__(self, settings: BrokerSettings, world: Environment, parts: AsyncExitStack) -> None:
        self._settings = settings
        self._environment = world
        options = CarrierOptions(stream_memory_bytes_max=settings.stream_memory_bytes_max)
        self._carrier = world.carrier or GrpcCarrier(world.clock, options)
        self._parts = parts
        self._tasks = TaskScope("broker")
        self.replaced = asyncio.Event()
        self._writer = BlockingThread("journal")
        self._reader = BlockingThread("storage-read")
        self._flusher = BlockingThread("storage-cut")

    async def build(self) -> tuple[Addresses, Moves]:
        settings, how_stored = self._settings, storage_settings(self._settings)
        for thread in (self._writer, self._reader, self._flusher):
            self._parts.push_async_callback(thread.aclose)
        is_shared = settings.mode is Mode.CLUSTER
        rng = self._environment.rng
        folder = await self._writer.run(lambda: open_data_folder(settings.data_dir, rng, is_shared=is_shared))
        self._parts.callback(folder.lock.release)
        metadata = await self._open_metadata(folder)
        storage = await self._open_storage(folder, metadata, how_stored)
        self._parts.push_async_callback(self._tasks.close)
        context = await self._open_topics(metadata, storage, folder)
        await context.control.positions.open()
        await context.control.audit.open()  # before anybody else can make a topic of its name
        broker = await self._listen(settings.broker_addr, client_services(context))
        context.broker_url, context.connect_url = advertised_urls(settings, broker)
        admin = await self._listen(settings.admin_addr, admin_services(context))
        metrics = await self._serve_metrics(context, storage)
        self._parts.callback(_announce_end, context)
        expiry = Expiry(
            context.topics,
            context.consumers,
            context.clock,
            subscription_expiry_s=settings.subscription_expiry_s,
        )
        self._start_sweeps(context, expiry, RetentionSync(context.topics, storage))
        await self._keep_reserve(context, DiskReserve(folder.path, folder.disk, storage, self._reader))
        storage.start()
        urls = self._urls(context, admin, metrics)
        context.control.brokers.announce(urls)
        if metadata.cluster is not None:
            await self._join(metadata.cluster, urls, storage)
        await self._start_telemetry(context, storage, folder.broker_id)
        return Addresses(broker, admin, metrics), context.moves

    async def _open_metadata(self, folder: DataFolder) -> "_Metadata":
        opened, rng = await self._open_meta_store(folder), self._environment.rng
        store, is_shared = opened.store, self._settings.mode is Mode.CLUSTER
        if opened.rollback is not None:  # before anything is written to it
            await self._take_in_restore(opened, folder)
        cluster_id = await own_cluster_id(store, rng)
        await self._writer.run(lambda: folder.check(cluster_id, is_shared=is_shared))
        restore_id = await self._take_in_restore(opened, folder)
        if is_shared and not folder.identity.is_shared and folder.identity.cluster_id == cluster_id:
            await self._carry_over(store, folder, restore_id)
        await self._writer.run(lambda: folder.adopt(cluster_id, is_shared=is_shared))
        if await self._writer.run(lambda: folder.disk.exists(REPAIRED)):
            from danube.data_folder.after_repair import take_in_repair  # noqa: PLC0415 - once after a repair

            await take_in_repair(store, folder, rng, self._writer)
        records = Records(store, rng, owner=folder.broker_id)
        for namespace in (*BUILT_IN_NAMESPACES, *self._settings.bootstrap_namespaces):
            await records.ensure_namespace(namespace)
        cluster = None
        if is_shared:
            from danube.broker.cluster.member import Cluster  # noqa: PLC0415 - a broker that stands alone starts without it

            cluster = Cluster(store, opened.membership, folder.broker_id, self._environment.clock)
            self._parts.push_async_callback(cluster.close)
            await cluster.open()
        return _Metadata(
            records=records,
            plans=PlanRecords(store, rng),
            epochs=ProducerEpochs(store, rng),
            stored=StorageRecords(store, rng, deleted_of=folder.broker_id if is_shared else None),
            mark=MarkPlan(store, rng),
            cluster=cluster,
            kind=opened.kind,
            cluster_id=cluster_id,
            restore_id=restore_id,
            alone=opened.alone,
        )

    async def _take_in_restore(self, opened: MetaStore, folder: DataFolder) -> str:
        """The last restore of the metadata, "" for none; the folder goes on under it."""
        mark = await read_mark(opened.store)
        if mark.restore_id == folder.identity.restore_id and opened.rollback is None:
            return mark.restore_id
        from danube.data_folder.after_restore import take_in_restore  # noqa: PLC0415 - once after a restore

        await take_in_restore(opened.store, folder, self._environment.rng, self._writer, opened.rollback)
        return mark.restore_id  # noted once the storage is open

    async def _carry_over(self, store: MetadataStore, folder: DataFolder, restore_id: str) -> None:
        from danube.metadata.cluster.migrate import check_not_older, migrate_to_cluster  # noqa: PLC0415 - once in a broker's life
        from danube.metadata.sqlite.store import SqliteStore  # noqa: PLC0415 - as above

        is_accepted = folder.identity.accepted_restore_id == restore_id
        if not is_accepted and await self._writer.run(folder.metadata_path.exists):
            own = await SqliteStore.open(folder.metadata_path, self._environment.clock)
            try:
                await check_not_older(store, own)
            finally:
                await own.close()
        carried = await migrate_to_cluster(store, self._environment.rng, folder.broker_id)
        _log.info("this broker stood alone before, and is one of a cluster now; topics that had no owner: %d", carried)

    async def _open_meta_store(self, folder: DataFolder) -> MetaStore:
        if self._environment.meta_store is not None:
            return self._environment.meta_store
        world, settings = self._environment, self._settings.meta_store
        opened = await open_meta_store(settings, folder, world.clock, world.rng, self._reader)
        self._parts.push_async_callback(opened.store.close)
        return opened

    async def _join(self, cluster: "Cluster", urls: BrokerUrls, storage: Storage) -> None:
        from danube.broker.cluster.member import Announcement, DataPath  # noqa: PLC0415 - as above

        self._parts.push_async_callback(cluster.leave)
        announcement = Announcement(
            broker_url=urls.broker,
            connect_url=urls.connect,
            admin_url=urls.admin,
            metrics_url=urls.metrics,
            version=__version__,
            start_id=self._environment.rng.new_id(),
        )
        await cluster.join(announcement, DataPath(storage).progresses, self.replaced.set)

    async def _open_storage(self, folder: DataFolder, metadata: "_Metadata", settings: StorageSettings) -> Storage:
        names = {
            record.topic_id: record.name
            for record in await metadata.records.topics()
            if metadata.cluster is None or record.owner == folder.broker_id
        }
        storage = await Storage.open(
            folder.disk,
            self._environment.clock,
            rng=self._environment.rng,
            records=metadata.stored,
            runner=self._writer,
            read_runner=self._reader,
            flush_runner=self._flusher,
            settings=settings,
            broker_id=folder.broker_id,
            has_begun=folder.identity.has_journal,
            known_topics=names.keys(),
            names=names,
        )
        self._parts.push_async_callback(storage.close)
        await self._note_opened(folder, metadata)
        return storage

    async def _note_opened(self, folder: DataFolder, metadata: "_Metadata") -> None:
        """Not before the storage is open: its journal has to be there, and who has mended what kept it closed after a
        restore is to have the folder looked at again.
        """
        cluster_id, is_shared = metadata.cluster_id, metadata.cluster is not None
        is_noted = metadata.restore_id == folder.identity.restore_id and folder.identity.accepted_restore_id is None
        restore_id = None if is_noted else metadata.restore_id
        if metadata.alone is not None:  # first: a restore that is not noted is taken in once more, and no harm done
            await metadata.alone.write_mark()
        await self._writer.run(
            lambda: folder.adopt(cluster_id, is_shared=is_shared, restore_id=restore_id, has_journal=True)
        )

    async def _open_topics(self, metadata: "_Metadata", storage: Storage, folder: DataFolder) -> ServiceContext:
        settings, clock, records = self._settings, self._environment.clock, metadata.records
        topics = Topics(
            records=records,
            storage=storage,
            clock=clock,
            tasks=self._tasks,
            dispatch=_dispatch_settings(settings),
            policies=default_policies(settings),
            own_policies=own_policies(settings),
            others=metadata.cluster.topics if metadata.cluster else None,
        )
        topics.dead_letters = DeadLetters(topics, self._tasks, auto_create_topics=settings.auto_create_topics).send
        disconnected_clients = DisconnectedClients(clock)
        accesses = ProducerAccesses(metadata.epochs)
        producers = Producers(
            topics, accesses, disconnected_clients, clock, auto_create_topics=settings.auto_create_topics
        )
        consumers = Consumers(topics, records, disconnected_clients, clock=clock, rng=self._environment.rng)
        moves = Moves(topics, producers, consumers, clock)
        await topics.load()
        await consumers.load()
        if metadata.cluster is not None:
            metadata.cluster.follow_namespaces(topics.follow_namespace)
        return ServiceContext(
            topics=topics,
            producers=producers,
            consumers=consumers,
            disconnected_clients=disconnected_clients,
            moves=moves,
            admission=Admission(topics, consumers, clock),
            paces=Paces(clock),
            control=self._control(
                topics,
                producers,
                consumers,
                moves,
                metadata=metadata,
                storage=storage,
                broker_id=folder.broker_id,
            ),
            counts=RpcCounts(),
            clock=clock,
            tasks=self._tasks,
        )

    def _control(
        self,
        topics: Topics,
        producers: Producers,
        consumers: Consumers,
        moves: Moves,
        *,
        metadata: "_Metadata",
        storage: Storage,
        broker_id: int,
    ) -> Control:
        clock, settings, records = self._environment.clock, self._settings, metadata.records
        identity = BrokerIdentity(
            broker_id=broker_id,
            cluster_name=settings.cluster_name,
            mode=settings.mode,
            version=__version__,
            started_s=clock.monotonic_s(),
        )
        brokers = BrokerControl(identity, topics, storage, clock, metadata.cluster)
        cluster = ClusterControl(metadata.cluster, metadata.kind, brokers)
        namespaces = NamespaceControl(records, topics)
        topic_control = TopicControl(topics, moves, namespaces=namespaces, brokers=brokers)
        subscriptions = SubscriptionControl(topics, consumers)
        positions = PositionControl(topics, records, clock=clock, rng=self._environment.rng)
        retention = RetentionControl(topics, storage, records)
        durability = DurabilityControl(
            topics, records, default=settings.durability, sync_interval_ms=settings.sync_interval_ms
        )
        operations = planned_operations(
            topic_control,
            subscriptions,
            namespaces,
            positions,
            retention,
            durability=durability,
            members=Members(cluster, metadata.mark),
        )
        return Control(
            brokers=brokers,
            cluster=cluster,
            namespaces=namespaces,
            topics=topic_control,
            subscriptions=subscriptions,
            descriptions=Descriptions(topics, brokers),
            policies=PolicyControl(topics, records),
            positions=positions,
            peeking=Peeking(topics),
            connections=Connections(topics, producers, consumers),
            plans=PlanControl(operations, metadata.plans, clock=clock, rng=self._environment.rng),
            audit=AuditLog(topics, brokers, clock),
        )

    @staticmethod
    def _urls(context: ServiceContext, admin: str, metrics: str | None) -> BrokerUrls:
        return BrokerUrls(
            broker=context.broker_url,
            connect=context.connect_url,
            admin=bound_url(admin),
            metrics=bound_url(metrics) if metrics else "",
        )

    async def _listen(self, address: str, services: list[Service]) -> str:
        server = await self._carrier.serve(address, services)
        self._parts.push_async_callback(server.stop, DRAIN_TIMEOUT_S)
        return server.address

    async def _serve_metrics(self, context: ServiceContext, storage: Storage) -> str | None:
        if self._settings.prom_exporter is None:
            return None
        from danube.broker.telemetry.http import HttpServer  # noqa: PLC0415 - a broker without a metrics port starts without it

        registry = new_registry(context.topics, storage, context.counts)
        server = HttpServer(registry, lambda: storage.stopped, self._tasks)  # no restart mends a full disk
        await server.start(self._settings.prom_exporter)
        self._parts.push_async_callback(server.stop)
        return server.address

    def _start_sweeps(self, context: ServiceContext, expiry: Expiry, retaining: RetentionSync) -> None:
        async def forget_clients() -> None:
            context.producers.sweep()
            await context.consumers.sweep()

        clock = context.clock
        self._tasks.spawn(sweep_on(clock, "forgetting clients that are gone", forget_clients), "forgetting")
        self._tasks.spawn(sweep_on(clock, "expiry", expiry.sweep), "expiry")
        self._tasks.spawn(sweep_on(clock, "retention", retaining.sweep), "retention")
        positions = context.control.positions
        self._tasks.spawn(sweep_on(clock, "putting subscriptions elsewhere", positions.sweep), "positions")

    async def _keep_reserve(self, context: ServiceContext, reserve: DiskReserve) -> None:
        await reserve.keep()
        context.make_room = reserve.give_up
        self._tasks.spawn(sweep_on(context.clock, "keeping room on the disk", reserve.keep), "disk reserve")

    async def _start_telemetry(self, context: ServiceContext, storage: Storage, broker_id: int) -> None:
        interval_s = self._settings.telemetry_interval_s
        if not interval_s:
            return
        source = TelemetrySource(
            broker_id=broker_id,
            start_id=self._environment.rng.new_id(),
            broker_url=context.broker_url,
            version=__version__,
        )
        telemetry = Telemetry(
            context.topics,
            storage,
            source,
            clock=self._environment.clock,
            process=self._environment.process,
            runner=self._reader,
        )
        await telemetry.open()
        self._tasks.spawn(telemetry.run(interval_s), "telemetry")


def _dispatch_settings(settings: BrokerSettings) -> DispatchSettings:
    policy = RedeliveryPolicy(
        ack_timeout_s=settings.ack_timeout_s,
        base_delay_s=settings.redelivery_delay_s,
        max_delay_s=max(settings.redelivery_delay_s, settings.redelivery_delay_max_s),
        max_redelivery_count=settings.max_redelivery_count,
        poison=PoisonPolicy[settings.poison_policy.upper()],
        disconnects_fail=settings.disconnects_fail,
    )
    return DispatchSettings(window=settings.max_unacked_messages, policy=policy, grace_s=settings.key_shared_grace_s)


def _announce_end(context: ServiceContext) -> None:
    """Refuse new calls and end consumers' streams, in the way after which official clients come back by themselves.

    It waits for nobody: a client that finds no broker comes back when there is one, told CLOSE it soon gives up.
    """
    context.closing = going_down()
    context.moves.go_down()
    context.disconnected_clients.close(context.closing)
