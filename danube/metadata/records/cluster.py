"""Records of the cluster: brokers that run and their load, the leading broker, rebalances, and the cluster id."""

from contextlib import suppress
from dataclasses import dataclass

from danube.loadmgr.load import BrokerLoad
from danube.metadata.records import keys
from danube.metadata.records.record_values import record_values
from danube.metadata.store import MetadataStore
from danube.model.calls.balance import BalanceRule, Rebalance
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


encode_registration, decode_registration = record_values(
    BrokerRegistration, lambda broker: keys.registered_broker(broker.broker_id)
)
encode_drain, decode_drain = record_values(BrokerDrain, lambda drain: keys.drained_broker(drain.broker_id))
encode_load, decode_load = record_values(BrokerLoad, lambda load: keys.load(load.broker_id))
encode_rebalance, decode_rebalance = record_values(Rebalance, lambda one: keys.rebalance(one.rebalance_id))
encode_rule, decode_rule = record_values(BalanceRule, lambda rule: keys.balance_rule(rule.kind, rule.name))
encode_automatic, decode_automatic = record_values(AutomaticMode)
encode_running, decode_running = record_values(str)
"""The id of the rebalance that runs."""
encode_storage_mode, decode_storage_mode = record_values(StorageMode)
"""The mode in which the brokers keep messages."""
encode_leader, decode_leader = record_values(int)
"""The id of the leading broker."""
encode_cluster_id, decode_cluster_id = record_values(str)
"""The id that tells this metadata from any other."""


async def agree_on_storage_mode(store: MetadataStore, mode: StorageMode) -> StorageMode:
    """The mode of the cluster: that of its first broker. Raises MetadataError."""
    entry = await store.get(keys.STORAGE_MODE, linearizable=True)
    if entry is None:
        with suppress(VersionConflictError):  # another broker was faster
            await store.compare_and_set(keys.STORAGE_MODE, encode_storage_mode(mode), revision=0)
        entry = await store.get(keys.STORAGE_MODE, linearizable=True)
    return decode_storage_mode(entry) if entry is not None else mode


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
