"""Opens the metadata store that the settings name; the other kinds are not imported."""

import logging
import socket
from dataclasses import dataclass
from typing import TYPE_CHECKING

from danube.broker.config.metadata_store import MetaStoreSettings, MetaStoreType
from danube.broker.config.secret_files import check_private, private_content, public_content, secret_of
from danube.data_folder.data_folder import DataFolder
from danube.metadata.cluster.membership import Membership
from danube.metadata.store import MetadataStore
from danube.model.errors import SettingsError
from danube.model.limits.metadata import RAFT_JOIN_TIMEOUT_S, RAFT_START_TIMEOUT_S
from danube.rpc.address import join_address, split_address
from danube.runtime.blocking import BlockingRunner
from danube.runtime.clock import Clock
from danube.runtime.rng import Rng

if TYPE_CHECKING:
    from danube.metadata.raft.settings import RaftSettings
    from danube.metadata.shared_log.etcd.client import EtcdSettings
    from danube.metadata.shared_log.zookeeper.client import ZookeeperSettings

_log = logging.getLogger(__name__)

_KEY = "a private key"


@dataclass(frozen=True, slots=True)
class MetaStore:
    """An open metadata store."""

    store: MetadataStore
    kind: MetaStoreType
    membership: Membership | None = None
    """Of the brokers that agree among themselves; None where something else keeps it."""


async def open_meta_store(
    settings: MetaStoreSettings,
    folder: DataFolder | None,
    clock: Clock,
    rng: Rng,
    runner: BlockingRunner,
    *,
    is_alone: bool = False,
) -> MetaStore:
    """The store, opened; closing it is the caller's. `folder` is needed by those that keep something in it.

    A broker that `is_alone` has no Raft port.

    Raises SettingsError for a secret or a certificate that cannot be read and for a package that is not there, and
    MetadataError when a service cannot be used.
    """
    match settings.type:
        case MetaStoreType.MEMORY:
            from danube.metadata.memory import MemoryStore  # noqa: PLC0415 - as above

            store: MetadataStore = MemoryStore(clock)
        case MetaStoreType.ETCD:
            store = await _open_etcd(settings, clock, rng, runner)
        case MetaStoreType.ZOOKEEPER:
            store = await _open_zookeeper(settings, clock, rng, runner)
        case MetaStoreType.RAFT if folder is not None:
            return await _open_raft(settings, folder, clock, rng, runner, is_alone=is_alone)
        case _:
            raise ValueError(f"metadata in {settings.type} is kept in a data folder: give one")
    return MetaStore(store, settings.type)


async def _open_etcd(settings: MetaStoreSettings, clock: Clock, rng: Rng, runner: BlockingRunner) -> MetadataStore:
    from danube.metadata.shared_log.etcd.etcd_backend import EtcdBackend  # noqa: PLC0415 - as above
    from danube.metadata.shared_log.sequencer import open_shared_log  # noqa: PLC0415 - as above

    return await open_shared_log(EtcdBackend(await runner.run(lambda: etcd_settings(settings)), rng), clock, rng)


def etcd_settings(settings: MetaStoreSettings) -> "EtcdSettings":
    """The settings of the etcd client; reads files. An endpoint with `https://` asks for TLS."""
    from danube.metadata.shared_log.etcd.client import EtcdSettings  # noqa: PLC0415 - as above

    files = (settings.tls_ca, settings.tls_cert)
    ca, certificate = (None if path is None else public_content(path) for path in files)
    key = None if settings.tls_key is None else private_content(settings.tls_key, _KEY)
    is_https = any(endpoint.startswith("https://") for endpoint in settings.endpoints)
    return EtcdSettings(
        endpoints=[endpoint.rpartition("://")[2] for endpoint in settings.endpoints],
        root=settings.root,
        user=settings.user or "",
        password=(secret_of(settings.password, settings.password_file) or b"").decode(),
        tls=is_https or any((*files, key)),
        ca=ca,
        certificate=certificate,
        key=key,
    )


async def _open_zookeeper(settings: MetaStoreSettings, clock: Clock, rng: Rng, runner: BlockingRunner) -> MetadataStore:
    from danube.metadata.shared_log.sequencer import open_shared_log  # noqa: PLC0415 - as above
    from danube.metadata.shared_log.zookeeper.zookeeper_backend import ZookeeperBackend  # noqa: PLC0415 - as above

    wanted = await runner.run(lambda: zookeeper_settings(settings))
    return await open_shared_log(ZookeeperBackend(wanted, rng), clock, rng)


def zookeeper_settings(settings: MetaStoreSettings) -> "ZookeeperSettings":
    """The settings of the ZooKeeper client; reads files. Any certificate file asks for TLS."""
    from danube.metadata.shared_log.zookeeper.client import ZookeeperSettings  # noqa: PLC0415 - as above

    if settings.tls_key is not None:
        check_private(settings.tls_key, _KEY)
    ca, certificate, key = (
        None if path is None else str(path) for path in (settings.tls_ca, settings.tls_cert, settings.tls_key)
    )
    return ZookeeperSettings(
        hosts=settings.hosts,
        root=settings.root,
        user=settings.user or "",
        password=(secret_of(settings.password, settings.password_file) or b"").decode(),
        tls=any((ca, certificate, key)),
        ca_file=ca,
        certificate_file=certificate,
        key_file=key,
    )


async def _open_raft(
    settings: MetaStoreSettings, folder: DataFolder, clock: Clock, rng: Rng, runner: BlockingRunner, *, is_alone: bool
) -> MetaStore:
    from danube.metadata.raft.sequencer import RaftSequencer  # noqa: PLC0415 - the kind that is used, and no other
    from danube.metadata.raft.settings import RaftSettings  # noqa: PLC0415 - as above
    from danube.metadata.replication.replicated import ReplicatedStore  # noqa: PLC0415 - as above

    wanted = RaftSettings(is_alone=True) if is_alone else await runner.run(lambda: raft_settings(settings))
    sequencer = await RaftSequencer.open(wanted, folder.disk, clock, rng)
    store = ReplicatedStore(sequencer, clock, rng)
    sequencer.renew_by(store.renewal)
    sequencer.make_room_by(folder.reserve.make_room)
    try:
        if not is_alone:
            _log.info("the other brokers reach this one at %s for the metadata", sequencer.address)
        await store.start()
    except BaseException:
        await store.close()
        raise
    return MetaStore(store, settings.type, sequencer)


def raft_settings(settings: MetaStoreSettings) -> "RaftSettings":
    """The settings of this broker's Raft member; reads files.

    A Raft port without authentication is for this machine only: a broker that forms a cluster of one listens on
    loopback instead. With seeds that was refused before.
    """
    from danube.metadata.raft.port.tls import TlsSettings  # noqa: PLC0415 - as above
    from danube.metadata.raft.settings import RaftSettings  # noqa: PLC0415 - as above

    bind, tls = settings.raft_addr, None
    if not settings.is_guarded and not settings.is_on_loopback:
        bind = join_address("127.0.0.1", split_address(bind)[1])
        _log.warning("the Raft port listens on %s only, until meta_store.secret_file or meta_store.tls_* is set", bind)
    if settings.tls_cert and settings.tls_key and settings.tls_ca:
        check_private(settings.tls_key, _KEY)
        tls = TlsSettings(certificate=settings.tls_cert, key=settings.tls_key, ca=settings.tls_ca)
    return RaftSettings(
        bind=bind,
        advertised=settings.raft_advertised_addr or _dialled(bind),
        secret=secret_of(settings.secret, settings.secret_file),
        tls=tls,
        seeds=settings.seed_nodes,
        join=settings.join,
        start_timeout_s=RAFT_JOIN_TIMEOUT_S if settings.join else RAFT_START_TIMEOUT_S,
    )


def _dialled(bind: str) -> str:
    """The address that peers dial for a bound one: "" for the same, this machine's name for the wildcard address."""
    host, port = split_address(bind)
    if host not in {"0.0.0.0", "::"}:  # noqa: S104 - compared, not bound
        return ""
    if not port:
        raise SettingsError("a Raft port on every address needs a number, or meta_store.raft_advertised_addr")
    return join_address(socket.gethostname(), port)
