"""Sources of metadata: a data folder that no broker has, or a service. All of it blocks."""

import asyncio
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from danube import __version__
from danube.broker.cluster.metadata_store import etcd_settings, raft_settings, zookeeper_settings
from danube.broker.config.metadata_store import MetaStoreSettings, MetaStoreType
from danube.broker.config.settings import BrokerSettings, Mode
from danube.data_folder.data_folder import Identity
from danube.metadata.backup.backup import cluster_id_of
from danube.metadata.backup.format import Backup, Origin
from danube.metadata.backup.raft import begin_group, own_address, read_raft
from danube.metadata.backup.shared_log import LogState, PlantableBackend, begin_log, read_log
from danube.metadata.raft.bootstrap import add_command
from danube.metadata.raft.folder.format import FOLDER
from danube.metadata.raft.values.node import ALONE
from danube.metadata.state import StateSnapshot
from danube.model.errors import (
    DanubeError,
    DataFolderError,
    NotFoundError,
    PreconditionFailedError,
    SettingsError,
)
from danube.offline.folder import identity_in, locked
from danube.rpc.address import split_address
from danube.runtime.clock import SystemClock
from danube.runtime.disk import LocalDisk
from danube.runtime.process import configure_logging
from danube.runtime.rng import SystemRng
from danube.runtime.settings import Loaded

STAGING = "metadata-restore.new"
"""In a data folder: what is being restored, and does not count yet."""

_GROUP = "meta_store."
_NOBODY = Identity(broker_id=0)  # where no broker was yet, or nobody can say which
_NO_ADDRESS = frozenset({"", ALONE})


@dataclass(frozen=True, slots=True)
class Wanted:
    """The data folder and the metadata that a command is about."""

    data_dir: Path
    meta_store: MetaStoreSettings
    store: MetaStoreType | None = None
    """None for the one that the settings say, or that is in the data folder."""
    is_set: frozenset[str] = frozenset()
    """Which settings of `meta_store` were given, and are not defaults."""
    mode: Mode = Mode.STANDALONE
    """As the settings say."""

    @property
    def is_of_cluster(self) -> bool:
        """True if a cluster is meant: by the settings, or by the data folder."""
        if self.store is not None or self.mode is Mode.CLUSTER:
            return True
        identity = identity_in(self.data_dir)
        return identity.is_shared if identity is not None else _known_address(self.data_dir) not in _NO_ADDRESS


def wanted(loaded: Loaded[BrokerSettings], data_dir: Path, store: MetaStoreType | None = None) -> Wanted:
    """The folder and metadata that a broker's settings name."""
    given = [key for key, origin in loaded.origins.items() if key.startswith(_GROUP) and origin != "default"]
    is_set = frozenset(key.removeprefix(_GROUP) for key in given)
    return Wanted(data_dir, loaded.settings.meta_store, store, is_set, loaded.settings.mode)


@dataclass(frozen=True, slots=True)
class Planted:
    """The result of a restore."""

    what: str
    next_step: str


class Place(Protocol):
    """A place that keeps metadata."""

    kind: MetaStoreType
    """How."""
    name: str
    """Where, for people; nothing secret."""

    @property
    def path(self) -> Path | None:
        """The data folder; what is in it can be set aside. None where it is none."""

    def is_empty(self) -> bool:
        """True when a restore would replace nothing here."""

    def read(self) -> Backup:
        """All of it. Raises DanubeError."""

    def check(self, backup: Backup) -> None:
        """Raise PreconditionFailedError when no broker would start with this backup here."""

    def plant(self, snapshot: StateSnapshot, quarantine: str) -> Planted:
        """Have it hold this; what was there is moved to `quarantine`, a name in the folder. Raises DanubeError."""


class FolderPlace:
    """A data folder that this process has locked, with the metadata in its folder `raft/`."""

    path: Path
    kind = MetaStoreType.RAFT

    def __init__(self, wanted: Wanted) -> None:
        self._wanted = wanted
        self.path = wanted.data_dir
        self.name = str(self.path.absolute())
        self._identity = identity_in(self.path) or _NOBODY

    def is_empty(self) -> bool:
        return not (self.path / FOLDER).exists()

    def read(self) -> Backup:
        state = read_raft(LocalDisk(self.path))
        return _backup(
            self,
            state.snapshot,
            broker_id=self._identity.broker_id,
            position=state.position,
            agreed_position=state.agreed_position,
            members=state.members,
        )

    def check(self, backup: Backup) -> None:
        own, other = self._identity.cluster_id, backup.origin.cluster_id
        if own and other and own != other:
            raise PreconditionFailedError(
                f"{self.path} holds messages of another cluster ({own}), and the backup is of {other}: choose another"
                " folder with --data-dir"
            )
        self._address()

    def plant(self, snapshot: StateSnapshot, quarantine: str) -> Planted:
        address = self._address()
        disk, staging = LocalDisk(self.path), self.path / STAGING
        _remove(staging)
        disk.make_folder(STAGING)
        made, target = self._build(staging, snapshot, address), self.path / FOLDER
        if target.exists():
            disk.make_folder(quarantine)
            target.rename(self.path / quarantine / FOLDER)
            disk.sync_folder(quarantine)
        (staging / FOLDER).rename(target)
        disk.sync_folder("")
        _remove(staging)
        return made

    def _build(self, staging: Path, snapshot: StateSnapshot, address: str) -> Planted:
        cluster_id, node_id = begin_group(LocalDisk(staging), snapshot, address, SystemRng())
        if address == ALONE:
            return Planted(f"raft, {self.name}", "start the broker as one that stands alone")
        return Planted(
            f"raft, {self.name}: a new group {cluster_id} with one member, {node_id} at {address}",
            f"start this broker with the Raft address {address}; the others start with --join, each without its old"
            f" folder {FOLDER}/ in its data folder, and are added with `{add_command(address, 'ADDRESS')}`, each by the"
            " address of its Raft port",
        )

    def _address(self) -> str:
        """At which the others will reach this broker, if any do: as set, or as it was. Raises SettingsError."""
        if not self._wanted.is_of_cluster:
            return ALONE
        if not self._wanted.is_set & {"raft_addr", "raft_advertised_addr"}:
            before = _known_address(self.path)
            if before not in _NO_ADDRESS:
                return before
        settings = raft_settings(self._wanted.meta_store)
        address = settings.advertised or settings.bind
        if not split_address(address)[1]:
            raise SettingsError(
                "the new group's member needs a port that others find it by: give --raft-addr host:port"
            )
        return address


def _known_address(path: Path) -> str:
    """Address at which the others reach the member in a data folder; "" where that cannot be read."""
    try:
        return own_address(read_raft(LocalDisk(path)))
    except (DanubeError, OSError):
        return ""


class ServicePlace:
    """A root in etcd or ZooKeeper; brokers may run.

    All is done on one event loop: gRPC says what is left of a connection to the loop that it was made on.
    """

    path = None

    def __init__(self, settings: MetaStoreSettings, kind: MetaStoreType, runner: asyncio.Runner) -> None:
        self._settings = settings
        self.kind = kind
        self._runner = runner
        servers = settings.endpoints if kind is MetaStoreType.ETCD else settings.hosts
        self.name = f"{', '.join(server.rpartition('@')[2] for server in servers)}, below {settings.root}"

    def is_empty(self) -> bool:
        return self._read().origin.position == 0

    def read(self) -> Backup:
        found = self._read()
        if found.origin.position == 0:
            raise NotFoundError(f"nothing was ever kept in {self.kind}, {self.name}: check meta_store.root")
        return found

    def _read(self) -> Backup:
        async def read() -> LogState:
            return await read_log(self._backend(), SystemClock(), SystemRng())

        state = self._runner.run(read())
        return _backup(self, state.snapshot, position=state.position, agreed_position=state.position)

    def check(self, backup: Backup) -> None:
        """Every service takes every backup."""

    def plant(self, snapshot: StateSnapshot, quarantine: str) -> Planted:  # noqa: ARG002 - nothing was there
        async def plant() -> None:
            await begin_log(self._backend(), snapshot, SystemRng())

        self._runner.run(plant())
        return Planted(f"{self.kind}, {self.name}", "start the brokers with the same meta_store")

    def _backend(self) -> PlantableBackend:
        if self.kind is MetaStoreType.ETCD:
            from danube.metadata.shared_log.etcd.etcd_backend import EtcdBackend  # noqa: PLC0415 - the kind that is used alone

            return EtcdBackend(etcd_settings(self._settings), SystemRng())
        from danube.metadata.shared_log.zookeeper.zookeeper_backend import ZookeeperBackend  # noqa: PLC0415 - as above

        return ZookeeperBackend(zookeeper_settings(self._settings), SystemRng())


def _backup(place: Place, snapshot: StateSnapshot, **known: Any) -> Backup:  # noqa: ANN401 - fields of the origin
    origin = Origin(
        kind=place.kind,
        place=place.name,
        taken_ms=SystemClock().now_ms(),
        danube=__version__,
        cluster_id=cluster_id_of(snapshot.entries),
        **known,
    )
    return Backup(origin, snapshot)


@contextmanager
def opened(wanted: Wanted, *, to_fill: bool = False) -> Iterator[Place]:
    """The place that a command is about, locked where it is a folder; `to_fill` makes a folder that is missing.

    Raises DataFolderError, DataFolderInUseError, SettingsError.
    """
    kind = kind_of(wanted)
    if kind is MetaStoreType.MEMORY:
        raise SettingsError("metadata in memory is kept nowhere: name another kind with --store")
    if kind in {MetaStoreType.ETCD, MetaStoreType.ZOOKEEPER}:
        configure_logging("warning", "text")
        with asyncio.Runner() as runner:
            yield ServicePlace(wanted.meta_store, kind, runner)
        return
    with locked(wanted.data_dir, to_fill=to_fill):
        place = FolderPlace(wanted)
        if place.is_empty() and not to_fill:
            raise DataFolderError(_nothing_in(wanted.data_dir))
        yield place


def kind_of(wanted: Wanted) -> MetaStoreType:
    """The kind of store: as the command names it, or as it is set."""
    return wanted.store or wanted.meta_store.type


def _nothing_in(path: Path) -> str:
    return (
        f"there is no folder {FOLDER}/ in {path}: its metadata is kept elsewhere. Say so as for the broker"
        " (danube-broker --config-file or --meta-store-type, before the word metadata)"
    )


def _remove(staging: Path) -> None:
    """Remove what a restore that was cut off left, and what one that is done needs no more."""
    if staging.exists():
        shutil.rmtree(staging)
