"""Keys by the family that they belong to, and values as a person reads them. Pure."""

import base64
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from danube.metadata.connectors.records import decode_report, decode_wish
from danube.metadata.records import keys
from danube.metadata.records.cluster import (
    decode_automatic,
    decode_cluster_id,
    decode_drain,
    decode_leader,
    decode_load,
    decode_rebalance,
    decode_registration,
    decode_rule,
    decode_running,
    decode_storage_mode,
)
from danube.metadata.records.journals import decode_journal
from danube.metadata.records.record_format import (
    decode_consumer,
    decode_counter,
    decode_lost_log,
    decode_namespace,
    decode_partitioned,
    decode_plan,
    decode_producer_epoch,
    decode_subscription,
    decode_tombstone,
    decode_topic,
    decode_topic_storage,
)
from danube.metadata.records.record_values import shown
from danube.metadata.records.restore_mark import decode_mark
from danube.metadata.schedules.records import decode_runner, decode_schedule
from danube.metadata.schemas import record_format as schemas
from danube.metadata.store import Entry
from danube.model.errors import MetadataError
from danube.runtime.sealed import UnsealError

_DECODERS: Mapping[str, Callable[[Entry], object]] = {
    keys.NAMESPACES: decode_namespace,
    keys.TOPICS: decode_topic,
    keys.PARTITIONED: decode_partitioned,
    keys.SUBSCRIPTIONS: decode_subscription,
    keys.CONSUMERS: decode_consumer,
    keys.COUNTERS: decode_counter,
    keys.PLANS: decode_plan,
    keys.PRODUCERS: decode_producer_epoch,
    keys.STORED_TOPICS: decode_topic_storage,
    keys.DELETED_TOPICS: decode_tombstone,
    keys.DEPARTED_TOPICS: decode_tombstone,
    keys.LOST_LOGS: decode_lost_log,
    keys.STORED_JOURNALS: decode_journal,
    keys.REGISTERED: decode_registration,
    keys.CLUSTER_ID: decode_cluster_id,
    keys.RESTORED: decode_mark,
    keys.LEADER: decode_leader,
    keys.STORAGE_MODE: decode_storage_mode,
    keys.DRAINED_BROKERS: decode_drain,
    keys.LOADS: decode_load,
    keys.BALANCE_RULES: decode_rule,
    keys.AUTOMATIC_BALANCE: decode_automatic,
    keys.REBALANCES: decode_rebalance,
    keys.RUNNING_REBALANCE: decode_running,
    keys.SCHEMA_SUBJECTS: schemas.decode_subject,
    keys.SCHEMA_VERSIONS: schemas.decode_version,
    keys.SCHEMA_IDS: schemas.decode_id,
    keys.SCHEMA_NUMBERS: schemas.decode_number,
    keys.SCHEMA_USES: schemas.decode_use,
    keys.SCHEMA_SETTINGS: schemas.decode_settings,
    keys.SCHEDULES: decode_schedule,
    keys.SCHEDULE_RUNNER: decode_runner,
    keys.CONNECT_RUNNERS: decode_report,
    keys.CONNECT_WISHES: decode_wish,
}
"""Decoders of each family's values. A key of no family here is shown and not judged."""


def family_of(key: str) -> str:
    """The family that a key belongs to, by its root (see `keys`); of an unknown one the first part of the key."""
    parts = key.split("/", 3)
    roots = ("/".join(parts[:count]) for count in (3, 2))
    return next((root for root in roots if root in _DECODERS), "/".join(parts[:2]))


def families(entries: Iterable[Entry]) -> Mapping[str, int]:
    """Number of keys of each family, by its root, sorted."""
    counts = Counter(family_of(entry.key) for entry in entries)
    return dict(sorted(counts.items()))


def fault_of(entry: Entry) -> str | None:
    """Fault of a value, as a sentence; None when its family decodes it, or is unknown."""
    decode = _DECODERS.get(family_of(entry.key))
    if decode is None:
        return None
    try:
        decode(entry)
    except MetadataError as error:
        return str(error)
    return None


def value_of(entry: Entry) -> Any:  # noqa: ANN401 - JSON
    """The fields of the value as JSON has them; of one that is no record its bytes, in base64."""
    try:
        return shown(entry.value)
    except UnsealError:
        return {"base64": base64.b64encode(entry.value).decode()}
