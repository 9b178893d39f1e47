"""Copies of the metadata in the bucket, so that a bucket alone says what its topics are called. All of it blocks.

A copy is the object `metadata/<revision>`, a backup as `danube-broker metadata backup` writes it. A revision has one
content, so that a copy is stored once, and the newest revision counts. The messages of a topic are in no copy.
"""

import contextlib
import re
from collections.abc import Iterable

from danube.metadata.backup.format import Backup, check_size, decode_backup, encode_backup
from danube.metadata.records import keys
from danube.metadata.store import Entry
from danube.model.limits.objects import METADATA_COPIES_KEPT
from danube.objects.store import ObjectStore

COPIES = "metadata"

_NAME = re.compile(r"[0-9]{20}")
COPIED_SOON = (
    keys.NAMESPACES,
    keys.TOPICS,
    keys.PARTITIONED,
    keys.SUBSCRIPTIONS,
    keys.SCHEMA_SUBJECTS,
    keys.SCHEMA_VERSIONS,
    keys.SCHEMA_SETTINGS,
    keys.SCHEDULES,
    keys.BALANCE_RULES,
    keys.SECURITY,
)
"""A change below one of these is to be in a copy soon; what a bucket says itself is not."""


def lasting(entries: Iterable[Entry]) -> tuple[Entry, ...]:
    """Entries that a copy holds of these: all but what lives by leases of running brokers."""
    return tuple(sorted((one for one in entries if not one.lease_id), key=lambda one: one.key))


def put_copy(store: ObjectStore, backup: Backup) -> None:
    """Store a copy, and delete those that are older than the last few. Raises OSError."""
    name = _name(backup.snapshot.revision)
    if name in (there := _names(store)):
        return
    with contextlib.suppress(FileExistsError):  # another broker was faster
        store.put_if_absent(name, encode_backup(backup))
    older = sorted({*there, name})[:-METADATA_COPIES_KEPT]
    if older:
        store.delete(older)


def newest_copy(store: ObjectStore, url: str) -> Backup | None:
    """The newest copy; None where there is none. Raises OSError, DamagedDataError, DataFolderError."""
    names = _names(store)
    if not names:
        return None
    name = f"{url}{names[-1]}"
    check_size(store.size(names[-1]), name)
    return decode_backup(store.get(names[-1]), name)


def _names(store: ObjectStore) -> list[str]:
    found = (one.name for one in store.listing(f"{COPIES}/"))
    return sorted(name for name in found if _NAME.fullmatch(name.removeprefix(f"{COPIES}/")))


def _name(revision: int) -> str:
    return f"{COPIES}/{revision:020d}"
