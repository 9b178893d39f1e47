"""Metadata of a broker: opens the store, checks it against the data folder, and joins the cluster."""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from danube import __version__
from danube.broker.cluster.metadata_store import MetaStore, open_meta_store
from danube.broker.config.addresses import BrokerUrls
from danube.broker.config.metadata_store import MetaStoreType
from danube.broker.environment import Dependencies
from danube.data_folder.data_folder import REPAIRED
from danube.metadata.records.catalog import ProducerEpochs, Records
from danube.metadata.records.cluster import BrokerRegistration, agree_on_storage_mode, own_cluster_id
from danube.metadata.records.plans import PlanRecords
from danube.metadata.records.restore_mark import read_mark
from danube.metadata.records.storage import StorageRecords
from danube.metadata.store import MetadataStore
from danube.model.errors import SettingsError
from danube.model.ownership import StorageMode
from danube.model.topic import BUILT_IN_NAMESPACES

if TYPE_CHECKING:
    from danube.broker.cluster.member import Cluster
    from danube.storage.store import Storage

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Metadata:
    """The records of one metadata store, and the broker's membership in its cluster."""

    records: Records
    plans: PlanRecords
    epochs: ProducerEpochs
    stored: StorageRecords
    store: MetadataStore
    cluster: "Cluster | None"
    """None for a standalone broker."""
    kind: MetaStoreType
    cluster_id: str
    restore_id: str
    """Of the last restore; "" for none."""


async def open_metadata(deps: Dependencies) -> Metadata:
    """Open the metadata; the folder belongs to its cluster from then on. Raises DataFolderError, MetadataError."""
    folder, rng, writer, is_shared = deps.folder, deps.rng, deps.writer, deps.is_cluster
    opened = await _open_store(deps)
    store = opened.store
    cluster_id = await own_cluster_id(store, rng)
    await writer.run(lambda: folder.check(cluster_id, is_shared=is_shared))
    restore_id = await _accept_restore(deps, store)
    if is_shared and not folder.identity.is_shared and folder.identity.cluster_id == cluster_id:
        from danube.metadata.cluster.system_topics import part_system_topics  # noqa: PLC0415 - once in a broker's life

        await part_system_topics(store, rng)
        _log.info("this broker stood alone before, and is one of a cluster now")
    await writer.run(lambda: folder.adopt(cluster_id, is_shared=is_shared))
    if await writer.run(lambda: folder.disk.exists(REPAIRED)):
        from danube.data_folder.after_repair import apply_repair  # noqa: PLC0415 - once after a repair

        await apply_repair(store, folder, rng, writer)
    own_mode = deps.settings.cluster_mode
    if is_shared and (mode := await agree_on_storage_mode(store, own_mode)) is not own_mode:
        raise SettingsError(
            f"the brokers of this cluster keep messages in mode {mode}, and this one is set to {own_mode}: set"
            " storage.mode to the same, and object_store.journal; topics cannot be carried from one mode to the other"
        )
    shares_logs = own_mode.shares_logs
    stored = StorageRecords(store, rng, deleted_of=None if shares_logs else folder.broker_id)
    records = Records(store, rng, broker_id=folder.broker_id, shares_logs=shares_logs)
    for namespace in (*BUILT_IN_NAMESPACES, *deps.settings.bootstrap_namespaces):
        await records.ensure_namespace(namespace)
    return Metadata(
        records=records,
        plans=PlanRecords(store, rng),
        epochs=ProducerEpochs(store, rng),
        stored=stored,
        store=store,
        cluster=await _open_cluster(deps, opened) if is_shared else None,
        kind=opened.kind,
        cluster_id=cluster_id,
        restore_id=restore_id,
    )


async def mark_opened(deps: Dependencies, metadata: Metadata) -> None:
    """Record in the folder that it was opened with this metadata.

    Not before the storage is open: its journal has to exist, and a folder that could not be opened after a restore is
    checked again after its repair.
    """
    folder, cluster_id, is_shared = deps.folder, metadata.cluster_id, metadata.cluster is not None
    has_journal = deps.settings.storage.mode is StorageMode.LOCAL
    is_noted = metadata.restore_id == folder.identity.restore_id and folder.identity.accepted_restore_id is None
    restore_id = None if is_noted else metadata.restore_id
    await deps.writer.run(
        lambda: folder.adopt(cluster_id, is_shared=is_shared, restore_id=restore_id, has_journal=has_journal)
    )


async def join_cluster(
    deps: Dependencies, cluster: "Cluster", urls: BrokerUrls, storage: "Storage", on_replaced: Callable[[], None]
) -> None:
    """Announce this broker to the others; `on_replaced` is called when another process takes its place."""
    from danube.broker.cluster.member import DataPath  # noqa: PLC0415 - a standalone broker starts without it

    deps.running.push_async_callback(cluster.leave)
    registration = BrokerRegistration(
        broker_id=deps.folder.broker_id,
        start_id=deps.rng.new_id(),
        broker_url=urls.broker,
        connect_url=urls.connect,
        admin_url=urls.admin,
        metrics_url=urls.metrics,
        version=__version__,
    )
    await cluster.join(registration, DataPath(storage).progresses, on_replaced)


async def _open_store(deps: Dependencies) -> MetaStore:
    if deps.environment.meta_store is not None:
        return deps.environment.meta_store
    settings, is_alone = deps.settings.meta_store, not deps.is_cluster
    opened = await open_meta_store(settings, deps.folder, deps.clock, deps.rng, deps.reader, is_alone=is_alone)
    deps.running.push_async_callback(opened.store.close)
    return opened


async def _accept_restore(deps: Dependencies, store: MetadataStore) -> str:
    """The id of the last restore of the metadata, "" for none; the folder continues with what was restored."""
    mark = await read_mark(store)
    if mark.restore_id != deps.folder.identity.restore_id:
        from danube.data_folder.older_metadata import adopt_older_metadata  # noqa: PLC0415 - once after a restore

        await adopt_older_metadata(store, deps.folder, deps.rng, deps.writer)
    return mark.restore_id  # recorded by `mark_opened`


async def _open_cluster(deps: Dependencies, opened: MetaStore) -> "Cluster":
    from danube.broker.cluster.deaths import connect  # noqa: PLC0415 - a standalone broker starts without it
    from danube.broker.cluster.member import Cluster  # noqa: PLC0415 - as above

    environment = deps.environment
    cluster = Cluster(
        opened.store,
        opened.membership,
        deps.folder.broker_id,
        deps.clock,
        mode=deps.settings.cluster_mode,
        lease_ttl_s=deps.settings.lease_ttl_s,
        connect=environment.peers or (connect if environment.carrier is None else None),
    )
    deps.running.push_async_callback(cluster.close)
    await cluster.open()
    return cluster
