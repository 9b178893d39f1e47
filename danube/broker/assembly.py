"""Assembly of a broker: builds every part once, starts them in order, and has them stopped in the reverse order.

`assemble` is the order. A new part is one function here, or in its room, that builds it from `Dependencies` and from
earlier parts, and one line in `assemble`.
"""

import asyncio
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from danube import __version__
from danube.broker.analytics.control import ScheduleControl
from danube.broker.balance.parts import Balance, open_balance, start_balance
from danube.broker.clients.consumers import Consumers
from danube.broker.clients.moves import Moves
from danube.broker.clients.producers import Producers
from danube.broker.clients.remote_publishes import RemotePublishes
from danube.broker.cluster.log_copy import LogCopies
from danube.broker.cluster.log_offer import LogOffers
from danube.broker.cluster.metadata import Metadata, join_cluster, mark_opened, open_metadata
from danube.broker.config.addresses import BrokerUrls
from danube.broker.config.settings import BrokerSettings, Mode
from danube.broker.config.values import (
    advertised_urls,
    approval_rules,
    bound_url,
    default_policies,
    dispatch_settings,
    own_policies,
    quotas_of,
    storage_settings,
    topics_max_of,
)
from danube.broker.control import Control
from danube.broker.control.audit import AuditLog
from danube.broker.control.brokers import BrokerControl, BrokerIdentity
from danube.broker.control.cluster import ClusterControl
from danube.broker.control.connections import Connections
from danube.broker.control.describe import Descriptions
from danube.broker.control.moves import MoveControl
from danube.broker.control.namespaces import NamespaceControl
from danube.broker.control.peeking import Peeking
from danube.broker.control.plans.deletions import deletions
from danube.broker.control.plans.durability import DurabilityControl
from danube.broker.control.plans.lifecycle import PlanControl
from danube.broker.control.plans.members import member_changes
from danube.broker.control.plans.moves import moves as planned_moves
from danube.broker.control.plans.peers import PartitionedSeek, Peers
from danube.broker.control.plans.policies import drop_policies
from danube.broker.control.plans.positions import position_changes
from danube.broker.control.plans.retention import MessageTtlControl, RetentionControl
from danube.broker.control.plans.schemas import schema_changes
from danube.broker.control.policies import PolicyControl
from danube.broker.control.positions import PositionControl
from danube.broker.control.subscriptions import SubscriptionControl
from danube.broker.control.topics import TopicControl
from danube.broker.environment import Addresses, Dependencies, Environment
from danube.broker.ownership.owner import TopicOwner
from danube.broker.policy.admission import Admission
from danube.broker.policy.dead_letters import DeadLetters
from danube.broker.policy.retention import Expiry, RetentionSync
from danube.broker.schemas.access import SubjectAccess
from danube.broker.schemas.opened import OpenedSchemas, open_schemas, serve_schemas
from danube.broker.security.assembly import Security, open_credentials, open_security
from danube.broker.security.metrics import SecurityCollector, metrics_app
from danube.broker.security.planned import security_changes
from danube.broker.services import admin_services, client_services
from danube.broker.services.context import ServiceContext
from danube.broker.services.recording import recorder_of_modes
from danube.broker.subscriptions.unread_times import UnreadTimes
from danube.broker.telemetry.health import open_health
from danube.broker.telemetry.inspection import InspectionControl
from danube.broker.telemetry.log_ring import LogRing
from danube.broker.telemetry.metrics import RpcCounts, new_registry
from danube.broker.telemetry.publisher import Telemetry, TelemetrySource
from danube.broker.topics.drain import DisconnectedClients, going_down
from danube.broker.topics.local_topics import Topics
from danube.broker.topics.producer_access import ProducerAccesses
from danube.broker.topics.topic_states import TopicStates
from danube.data_folder.data_folder import open_data_folder
from danube.metadata.connectors.records import ConnectorRecords
from danube.metadata.records.storage import owner_of
from danube.metadata.schedules.records import ScheduleRecords
from danube.model.limits.broker import DISK_PLENTY_BYTES, DRAIN_TIMEOUT_S
from danube.model.ownership import StorageMode
from danube.rpc.carrier import Carrier, Service
from danube.runtime.blocking import BlockingThread
from danube.runtime.disk import Disk
from danube.runtime.tasks import TaskScope
from danube.storage.environment import StorageEnvironment
from danube.storage.settings import StorageSettings
from danube.storage.store import Storage

if TYPE_CHECKING:
    from danube.broker.cluster.member import Cluster
    from danube.rpc.metrics_port import MetricsPort


@dataclass(frozen=True, slots=True)
class Assembled:
    """The parts of a running broker that its owner uses."""

    addresses: Addresses
    moves: Moves
    replaced: asyncio.Event
    """Set when another process has taken this broker's place in the cluster."""
    fenced: asyncio.Event
    """Set when others have taken over all topics of this broker."""
    cluster: "Cluster | None"


async def assemble(settings: BrokerSettings, environment: Environment, running: AsyncExitStack) -> Assembled:
    """Build and start all parts; closing `running` stops them. Raises as `Broker.start`."""
    how_stored, replaced, fenced = storage_settings(settings), asyncio.Event(), asyncio.Event()
    deps = await _open_folder(settings, environment, running)
    credentials = await open_credentials(deps)
    health, port = await open_health(deps, credentials)
    metadata = await open_metadata(deps)
    storage = await _open_storage(deps, metadata, how_stored)
    health.follow(storage)
    running.push_async_callback(deps.tasks.close)
    owner = TopicOwner(storage, metadata.stored, deps.folder.broker_id, is_alone=metadata.cluster is None)
    security = await open_security(deps, metadata, credentials)
    context, balance = await _open_topics(deps, metadata, storage, owner, security=security)
    context.gate = security.gate
    security.directory.know_topics(context.topics.is_plain)
    await context.control.positions.open()
    await context.control.audit.open()  # before anybody else can make a topic of its name
    addresses = await _listen(deps, context, storage, security, port)
    running.callback(_announce_end, context)
    await _start_sweeps(deps, context, storage)
    storage.start()
    urls = _urls(settings, context, addresses)
    context.control.brokers.announce(urls)
    if metadata.cluster is not None:
        await join_cluster(deps, metadata.cluster, urls, storage, replaced.set)
        copies = LogCopies(
            security.admin_carrier,
            storage,
            metadata.stored,
            metadata.cluster,
            clock=deps.clock,
            bytes_per_s=settings.move_rate_bytes_s,
        )
        context.control.states.follow_copies(copies.progress)
        _start_placement(deps, metadata, context, owner, copies=copies, fenced=fenced)
    start_balance(deps, metadata, balance, storage, context.topics, audit=context.control.audit.record)
    await _start_telemetry(deps, context, storage)
    health.started()
    running.callback(health.ending)
    return Assembled(addresses, context.moves, replaced, fenced, metadata.cluster)


async def _open_folder(settings: BrokerSettings, environment: Environment, running: AsyncExitStack) -> Dependencies:
    writer, reader, flusher = (BlockingThread(name) for name in ("journal", "storage-read", "storage-flush"))
    log = running.enter_context(LogRing().listening())
    for thread in (writer, reader, flusher):
        running.push_async_callback(thread.aclose)
    is_shared = settings.mode is Mode.CLUSTER
    folder = await writer.run(lambda: open_data_folder(settings.data_dir, environment.rng, is_shared=is_shared))
    running.callback(folder.lock.release)
    return Dependencies(
        settings=settings,
        environment=environment,
        folder=folder,
        running=running,
        tasks=TaskScope("broker"),
        writer=writer,
        reader=reader,
        flusher=flusher,
        log=log,
    )


async def _open_storage(deps: Dependencies, metadata: Metadata, settings: StorageSettings) -> Storage:
    folder, shared_folder = deps.folder, deps.settings.storage.folder
    if shared_folder is not None:
        from danube.broker.object_storage import open_shared_storage  # noqa: PLC0415 - for this mode alone

        return await open_shared_storage(deps, metadata, settings, shared_folder)
    if deps.settings.storage.mode is StorageMode.OBJECT_STORE:
        from danube.broker.object_storage import open_object_storage  # noqa: PLC0415 - for this mode alone

        return await open_object_storage(deps, metadata, settings)
    owners = await metadata.stored.all()
    names = {
        record.topic_id: record.name
        for record in await metadata.records.topics()
        if metadata.cluster is None or owner_of(owners.get(record.topic_id), record.broker) == folder.broker_id
    }
    names |= {one.topic_id: one.name for one in await metadata.records.lost_logs() if one.broker == folder.broker_id}
    environment = StorageEnvironment(
        disk=folder.disk,
        clock=deps.clock,
        rng=deps.rng,
        records=metadata.stored,
        runner=deps.writer,
        read_runner=deps.reader,
        flush_runner=deps.flusher,
        settings=settings,
        broker_id=folder.broker_id,
        **await _tiering(deps, metadata, folder.disk, f"brokers/{folder.broker_id}/"),
    )
    storage = await Storage.open(
        environment, known_topics=names.keys(), names=names, has_begun=folder.identity.has_journal
    )
    deps.running.push_async_callback(storage.close)
    await mark_opened(deps, metadata)
    return storage


async def _tiering(deps: Dependencies, metadata: Metadata, disk: Disk, below: str) -> dict[str, Any]:
    if deps.settings.object_store.url is None and not await deps.writer.run(lambda: disk.exists("object-tier")):
        return {}
    from danube.broker.object_storage import open_tiering  # noqa: PLC0415 - where a bucket is set alone

    return await open_tiering(deps, metadata, disk, below)


def _start_placement(
    deps: Dependencies,
    metadata: Metadata,
    context: ServiceContext,
    owner: TopicOwner,
    *,
    copies: LogCopies,
    fenced: asyncio.Event,
) -> None:
    from danube.broker.cluster.leading import Leading  # noqa: PLC0415 - a standalone broker starts without it
    from danube.broker.cluster.placement import Placement  # noqa: PLC0415 - as above

    cluster = metadata.cluster
    assert cluster is not None  # noqa: S101 - its caller has looked
    placement = Placement(
        cluster,
        context.topics,
        context.moves,
        owner,
        offers=context.control.offers,
        copies=copies,
        copies_at_once=deps.settings.move_parallelism,
        clock=deps.clock,
        on_fenced=fenced.set,
    )
    deps.running.push_async_callback(placement.close)
    placement.start()
    settings = deps.settings
    recreates_after_s = settings.local_owner_lost_after_s if settings.local_owner_lost == "recreate" else None
    Leading(cluster, metadata.records, deps.clock, recreates_after_s=recreates_after_s).start(deps.tasks)
    deps.running.push_async_callback(placement.leave)


async def _open_topics(
    deps: Dependencies, metadata: Metadata, storage: Storage, owner: TopicOwner, *, security: Security
) -> tuple[ServiceContext, Balance]:
    settings, clock, records = deps.settings, deps.clock, metadata.records
    topics = Topics(
        records=records,
        storage=storage,
        clock=clock,
        tasks=deps.tasks,
        dispatch=dispatch_settings(settings),
        policies=default_policies(settings),
        owner=owner,
        own_policies=own_policies(settings),
        cluster=metadata.cluster.topics if metadata.cluster else None,
    )
    topics.namespace_topics_max = topics_max_of(settings)
    remote = RemotePublishes(security.carrier, topics.cluster, f"dead-letters-{deps.folder.broker_id}")
    deps.running.push_async_callback(remote.close)
    topics.dead_letters = DeadLetters(topics, deps.tasks, remote, auto_create_topics=settings.auto_create_topics).send
    schemas = await open_schemas(deps, metadata.store, topics, SubjectAccess(security.gate))
    disconnected_clients = DisconnectedClients(clock)
    producers = Producers(
        topics,
        ProducerAccesses(metadata.epochs),
        disconnected_clients,
        clock,
        schemas=schemas.versions,
        auto_create_topics=settings.auto_create_topics,
    )
    consumers = Consumers(topics, records, disconnected_clients, clock=clock, rng=deps.rng)
    await topics.load()
    await consumers.load()
    if metadata.cluster is not None:
        metadata.cluster.follow_namespaces(topics.follow_namespace)
    moves = Moves(topics, producers, consumers, clock)
    balance = open_balance(deps, metadata, topics)
    context = ServiceContext(
        topics=topics,
        producers=producers,
        consumers=consumers,
        disconnected_clients=disconnected_clients,
        moves=moves,
        admission=Admission(topics, consumers, clock),
        control=_control(
            deps,
            metadata,
            storage,
            topics=topics,
            producers=producers,
            consumers=consumers,
            moves=moves,
            balance=balance,
            schemas=schemas,
            security=security,
        ),
        counts=RpcCounts(),
        quotas=quotas_of(settings),
        validations=schemas.versions.counts,
        clock=clock,
        tasks=deps.tasks,
        silence=storage.silence,
    )
    return context, balance


def _control(
    deps: Dependencies,
    metadata: Metadata,
    storage: Storage,
    *,
    topics: Topics,
    producers: Producers,
    consumers: Consumers,
    moves: Moves,
    balance: Balance,
    schemas: OpenedSchemas,
    security: Security,
) -> Control:
    clock, rng, settings, records = deps.clock, deps.rng, deps.settings, metadata.records
    identity = BrokerIdentity(
        broker_id=deps.folder.broker_id,
        cluster_name=settings.cluster_name,
        mode=settings.mode,
        version=__version__,
        started_s=clock.monotonic_s(),
    )
    brokers = BrokerControl(identity, topics, storage, clock, metadata.cluster)
    states = TopicStates(topics, metadata.cluster.topics if metadata.cluster else None)
    cluster = ClusterControl(metadata.cluster, metadata.kind, brokers, states)
    namespaces = NamespaceControl(records, topics)
    topic_control = TopicControl(
        topics,
        moves,
        namespaces=namespaces,
        brokers=brokers,
        schemas=schemas.versions,
        latest_schema=schemas.control.latest,
    )
    subscriptions = SubscriptionControl(topics, consumers)
    policies = PolicyControl(topics, records)
    positions = PositionControl(topics, records, clock=clock, rng=rng)
    move_control = MoveControl(metadata.cluster, topics, records, metadata.store, rng)
    peers = Peers(topics, security.admin_carrier)
    operations = {
        **deletions(topic_control, subscriptions, namespaces, peers),
        **position_changes(positions, PartitionedSeek(positions, topics, peers)),
        **RetentionControl(topics, storage, records, peers).operations(),
        **MessageTtlControl(topics, records, peers, clock).operations(),
        **DurabilityControl(
            topics, records, peers, default=settings.durability, sync_interval_ms=settings.sync_interval_ms
        ).operations(),
        **drop_policies(policies),
        **member_changes(cluster, metadata.store, rng),
        **planned_moves(move_control, peers),
        **balance.plans.operations(),
        **schema_changes(schemas.control),
        **security_changes(security.control, security.gate),
    }
    offers = LogOffers(topics, moves, storage, clock)
    states.follow_copies(offers.progress)
    return Control(
        balance=balance.control,
        brokers=brokers,
        offers=offers,
        cluster=cluster,
        namespaces=namespaces,
        moves=move_control,
        states=states,
        topics=topic_control,
        subscriptions=subscriptions,
        descriptions=Descriptions(topics, brokers, states, UnreadTimes(deps.tasks, storage.silence), clock),
        inspection=InspectionControl(deps.log, topics.is_plain),
        policies=policies,
        positions=positions,
        peeking=Peeking(topics),
        connections=Connections(topics, producers, consumers),
        plans=PlanControl(operations, metadata.plans, clock=clock, rng=rng, approval=approval_rules(settings)),
        audit=AuditLog(topics, brokers, clock),
        schedules=ScheduleControl(ScheduleRecords(metadata.store, rng), clock),
        connectors=ConnectorRecords(metadata.store, rng, clock),
        schemas=schemas.control,
        security=security.control,
    )


async def _listen(
    deps: Dependencies,
    context: ServiceContext,
    storage: Storage,
    security: Security,
    port: "MetricsPort | None",
) -> Addresses:
    settings = deps.settings
    broker = await _serve(deps, security.carrier, settings.broker_addr, client_services(context))
    context.broker_url, context.connect_url = advertised_urls(settings, broker)
    admin = await _serve(deps, security.admin_carrier, settings.admin_addr, admin_services(context))
    registry = new_registry(context.topics, storage, context.counts, context.validations)
    registry.register(SecurityCollector(security))
    context.control.inspection.follow(registry)
    if port is not None:
        port.show(security.guarded(metrics_app(registry, security.gate)))
        deps.running.callback(port.show, None)
    schemas = await serve_schemas(deps, context.control.schemas, security, recorder_of_modes(context))
    return Addresses(broker, admin, port.address if port else None, schemas)


async def _serve(deps: Dependencies, carrier: Carrier, address: str, services: list[Service]) -> str:
    server = await carrier.serve(address, services)
    deps.running.push_async_callback(server.stop, DRAIN_TIMEOUT_S)
    return server.address


async def _start_sweeps(deps: Dependencies, context: ServiceContext, storage: Storage) -> None:
    async def forget_clients() -> None:
        context.producers.sweep()
        await context.consumers.sweep()

    expiry_s = deps.settings.subscription_expiry_s
    expiry = Expiry(context.topics, context.consumers, deps.clock, subscription_expiry_s=expiry_s)
    reserve = deps.folder.reserve

    async def make_room() -> None:
        if (storage.free_bytes or 0) <= DISK_PLENTY_BYTES:
            await deps.reader.run(reserve.make_room)

    async def keep_reserve() -> None:
        await deps.reader.run(reserve.keep)

    deps.sweep("forgetting disconnected clients", forget_clients)
    deps.sweep("expiry", expiry.sweep)
    deps.sweep("retention", RetentionSync(context.topics, storage).sweep)
    deps.sweep("weighing namespaces", context.weigh)
    deps.sweep("moving subscriptions", context.control.positions.sweep)
    await deps.reader.run(lambda: reserve.follow(storage.note_reserve))
    await keep_reserve()
    context.make_room = make_room
    deps.sweep("keeping the disk reserve", keep_reserve)


def _urls(settings: BrokerSettings, context: ServiceContext, addresses: Addresses) -> BrokerUrls:
    is_admin_secure, advertised = settings.auth.is_on and settings.auth.admin_tls, settings.advertised_addr
    return BrokerUrls(
        broker=context.broker_url,
        connect=context.connect_url,
        admin=bound_url(addresses.admin, is_secure=is_admin_secure, advertised=advertised),
        metrics=bound_url(addresses.metrics, advertised=advertised) if addresses.metrics else "",
    )


async def _start_telemetry(deps: Dependencies, context: ServiceContext, storage: Storage) -> None:
    interval_s = deps.settings.telemetry_interval_s
    if not interval_s:
        return
    source = TelemetrySource(
        broker_id=deps.folder.broker_id,
        start_id=deps.rng.new_id(),
        broker_url=context.broker_url,
        version=__version__,
    )
    telemetry = Telemetry(
        context.topics,
        storage,
        source,
        clock=deps.clock,
        process=deps.environment.process,
        runner=deps.reader,
    )
    await telemetry.open()
    deps.tasks.spawn(telemetry.run(interval_s), "telemetry")


def _announce_end(context: ServiceContext) -> None:
    """Refuse new calls and end consumers' streams with an error after which official clients reconnect.

    It waits for nobody: a client without a broker tries until there is one, and one that is told CLOSE soon gives up.
    """
    context.closing = going_down()
    context.moves.go_down()
    context.disconnected_clients.close(context.closing)
