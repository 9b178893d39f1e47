"""Contents that a restore keeps of a backup: all but what belonged to processes that ended. Pure.

Leases and the keys that lived by them are left out, and so are remembered outcomes. The revision grows by one. Some
topic ids are skipped, for topics that were made after the backup was taken. A mark tells brokers whose data folders are
newer than the backup to check them (`restore_mark`). Values stay as they are.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from danube.metadata.backup.format import Backup
from danube.metadata.records import keys
from danube.metadata.records.cluster import decode_cluster_id
from danube.metadata.records.record_format import decode_counter, encode_counter
from danube.metadata.records.restore_mark import RestoreMark, encode_mark, mark_of
from danube.metadata.state import StateSnapshot
from danube.metadata.store import Entry
from danube.model.errors import PreconditionFailedError
from danube.model.limits.metadata import METADATA_TOPIC_IDS_SKIPPED


@dataclass(frozen=True, slots=True)
class Restored:
    """Contents to restore, and how they differ from the backup."""

    snapshot: StateSnapshot
    leases: int
    """Number of leases left out."""
    leased_keys: int
    outcomes: int
    next_topic_id: int | None
    """None where none was ever given out."""


def restored(backup: Backup, *, to_cluster: bool, restore_id: str) -> Restored:
    """Work out what to restore of a backup; `to_cluster` when several brokers will share it.

    `restore_id` is chosen at random, for this restore.

    Raises PreconditionFailedError for metadata that no broker would start with there, MetadataError for records that
    cannot be read.
    """
    _check(backup, to_cluster=to_cluster)
    snapshot, revision = backup.snapshot, backup.snapshot.revision + 1
    lasting = [entry for entry in snapshot.entries if not entry.lease_id]
    entries, next_topic_id = _skipped(lasting, revision)
    marked = _marked(entries, _mark(backup, restore_id), revision)
    return Restored(
        StateSnapshot(revision, snapshot.last_lease_id, tuple(marked)),
        leases=len(snapshot.leases),
        leased_keys=len(snapshot.entries) - len(lasting),
        outcomes=len(snapshot.outcomes),
        next_topic_id=next_topic_id,
    )


def cluster_id_of(entries: Iterable[Entry]) -> str:
    """Cluster id of this metadata; "" when it has none yet. Raises MetadataError."""
    found = next((entry for entry in entries if entry.key == keys.CLUSTER_ID), None)
    return "" if found is None else decode_cluster_id(found)


def last_topic_id(entries: Iterable[Entry]) -> int:
    """The last one given out; 0 for none. Raises MetadataError."""
    return decode_counter(_counter(entries))


def _check(backup: Backup, *, to_cluster: bool) -> None:
    if not to_cluster and backup.origin.is_of_cluster:
        raise PreconditionFailedError(
            "the backup is of a cluster, and this is for a broker that stands alone: restore with --store raft, which"
            " is a cluster of one broker at first"
        )


def _mark(backup: Backup, restore_id: str) -> RestoreMark:
    entries = backup.snapshot.entries
    return RestoreMark(
        restore_id=restore_id,
        before=mark_of(entries).restore_id,
        revision=backup.snapshot.revision,
        taken_ms=backup.origin.taken_ms,
        last_topic_id=last_topic_id(entries),
    )


def _marked(entries: Iterable[Entry], mark: RestoreMark, revision: int) -> list[Entry]:
    others = (entry for entry in entries if entry.key != keys.RESTORED)
    return sorted((*others, Entry(keys.RESTORED, encode_mark(mark), revision, revision)), key=lambda entry: entry.key)


def _counter(entries: Iterable[Entry]) -> Entry | None:
    return next((entry for entry in entries if entry.key == keys.TOPIC_ID_COUNTER), None)


def _skipped(entries: Sequence[Entry], revision: int) -> tuple[Sequence[Entry], int | None]:
    """With the counter of topic ids put ahead; and the id that is given out next, if any was."""
    counter = _counter(entries)
    if counter is None:
        return entries, None
    last = decode_counter(counter) + METADATA_TOPIC_IDS_SKIPPED
    ahead = replace(counter, value=encode_counter(last), revision=revision)
    return [ahead if entry is counter else entry for entry in entries], last + 1
