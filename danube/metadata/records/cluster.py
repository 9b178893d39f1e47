"""Records of the cluster: brokers that run and their load, the leading broker, rebalances, and the cluster id."""

from contextlib import suppress
from dataclasses import dataclass

from danube.loadmgr.load import BrokerLoad
from danube.metadata.records import keys
from danube.metadata.records.codec import record_codec
from danube.metadata.store import Entry, MetadataStore
from danube.model.calls.balance import BalanceRule, Rebalance, RuleKind
from danube.model.errors import MetadataError, VersionConflictError
from danube.model.ownership import StorageMode
from danube.runtime.rng import Rng


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerRegistration:
    """A broker that runs."""

    broker_id: int
    start_id: int
    """Random number of this start of the broker."""
    broker_url: str
    connect_url: str
    """URL that clients dial; another than `broker_url` behind a proxy."""
    admin_url: str
    metrics_url: str = ""
    """Empty without a metrics port."""
    version: str = ""
    node_id: int = 0
    """Node id of its Raft member; 0 where there is none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerDrain:
    """A broker that topics leave, and that gets no new ones."""

    broker_id: int
    parallel_moves: int = 1
    """Topics that leave at a time."""
    include: tuple[str, ...] = ()
    """Namespaces whose topics leave; empty for all."""
    exclude: tuple[str, ...] = ()
    """Namespaces whose topics stay."""
    carries_logs: bool = True
    """False: topics stay whose logs would have to be carried to another disk."""
    reason: str = ""

    def covers(self, namespace: str) -> bool:
        """True if topics of a namespace are to leave."""
        return namespace not in self.exclude and (not self.include or namespace in self.include)


@dataclass(frozen=True, slots=True, kw_only=True)
class AutomaticMode:
    """The automatic mode of rebalances, set at run time."""

    mode: str
    set_by: str = ""
    set_ms: int = 0


@dataclass(frozen=True, slots=True)
class _RunningRebalance:
    rebalance_id: str


@dataclass(frozen=True, slots=True)
class _StorageMode:
    mode: StorageMode


@dataclass(frozen=True, slots=True)
class _Leader:
    broker_id: int


@dataclass(frozen=True, slots=True)
class _ClusterId:
    cluster_id: str


encode_registration, decode_registration = record_codec(
    BrokerRegistration,
    ("broker_id",),
    lambda entry: (keys.parse_registered_broker(entry.key),),
    complete=(BrokerRegistration,),
    optional=("node_id",),
    names={"version": "danube"},
)
encode_drain, decode_drain = record_codec(
    BrokerDrain, ("broker_id",), lambda entry: (keys.parse_drained_broker(entry.key),)
)
encode_load, decode_load = record_codec(
    BrokerLoad,
    ("broker_id",),
    lambda entry: (keys.parse_load(entry.key),),
    names={
        "topic": "t",
        "messages_per_s": "m",
        "bytes_per_s": "b",
        "producers": "p",
        "consumers": "c",
        "backlog_messages": "l",
        "stored_bytes": "s",
    },
)
encode_rebalance, decode_rebalance = record_codec(
    Rebalance, ("rebalance_id",), lambda entry: (keys.parse_rebalance(entry.key),)
)
encode_rule, decode_rule = record_codec(
    BalanceRule, ("kind", "name"), lambda entry: _rule_in_key(keys.parse_balance_rule(entry.key))
)
encode_automatic, decode_automatic = record_codec(AutomaticMode)
_encode_running, _decode_running = record_codec(_RunningRebalance)
_encode_mode, _decode_mode = record_codec(_StorageMode)
_encode_leader, _decode_leader = record_codec(_Leader)
_encode_cluster_id, _decode_cluster_id = record_codec(_ClusterId)


def _rule_in_key(parts: tuple[str, str]) -> tuple[RuleKind, str]:
    if parts[0] not in set(RuleKind):
        raise MetadataError(f"metadata key {keys.BALANCE_RULES}/{parts[0][:40]} is of no kind of rule: remove it")
    return RuleKind(parts[0]), parts[1]


def encode_running(rebalance_id: str) -> bytes:
    """The value that names the rebalance that runs."""
    return _encode_running(_RunningRebalance(rebalance_id))


def decode_running(entry: Entry) -> str:
    """The rebalance that runs. Raises MetadataError."""
    return _decode_running(entry).rebalance_id


def decode_storage_mode(entry: Entry) -> StorageMode:
    """The mode in which the brokers keep messages. Raises MetadataError."""
    return _decode_mode(entry).mode


async def agree_on_storage_mode(store: MetadataStore, mode: StorageMode) -> StorageMode:
    """The mode of the cluster: that of its first broker. Raises MetadataError."""
    entry = await store.get(keys.STORAGE_MODE, linearizable=True)
    if entry is None:
        with suppress(VersionConflictError):  # another broker was faster
            await store.compare_and_set(keys.STORAGE_MODE, _encode_mode(_StorageMode(mode)), revision=0)
        entry = await store.get(keys.STORAGE_MODE, linearizable=True)
    return decode_storage_mode(entry) if entry is not None else mode


def encode_leader(broker_id: int) -> bytes:
    """The value that names the leading broker."""
    return _encode_leader(_Leader(broker_id))


def decode_leader(entry: Entry) -> int:
    """The leading broker. Raises MetadataError."""
    return _decode_leader(entry).broker_id


def encode_cluster_id(cluster_id: str) -> bytes:
    """The value that tells this metadata from any other."""
    return _encode_cluster_id(_ClusterId(cluster_id))


def decode_cluster_id(entry: Entry) -> str:
    """The id that tells this metadata from any other. Raises MetadataError."""
    return _decode_cluster_id(entry).cluster_id


async def own_cluster_id(store: MetadataStore, rng: Rng) -> str:
    """The id that tells this metadata from any other, given to it by the first broker. Raises MetadataError."""
    entry = await store.get(keys.CLUSTER_ID, linearizable=True)
    if entry is None:
        made = encode_cluster_id(f"{rng.new_id():016x}")
        with suppress(VersionConflictError):  # another broker of the same cluster was faster
            await store.compare_and_set(keys.CLUSTER_ID, made, revision=0)
        entry = await store.get(keys.CLUSTER_ID, linearizable=True)
    if entry is None:
        raise MetadataError(f"metadata key {keys.CLUSTER_ID} was removed: restore the metadata from a backup")
    return decode_cluster_id(entry)
