"""What is restored of a backup, and the file that holds one."""

from dataclasses import replace

import msgspec
import pytest

from danube.metadata.backup.backup import Restored, cluster_id_of, restored
from danube.metadata.backup.format import Backup, check_size, decode_backup, encode_backup
from danube.metadata.memory import MemoryStore
from danube.metadata.records import keys
from danube.metadata.records.families import families, fault_of, value_of
from danube.metadata.records.record_format import decode_counter
from danube.metadata.records.restore_mark import RestoreMark, mark_of, skip_topic_ids
from danube.metadata.state import State, StateSnapshot
from danube.metadata.store import Entry
from danube.model.errors import (
    DamagedDataError,
    DataFolderError,
    InvalidRequestError,
    NewerDataFolderError,
    PreconditionFailedError,
)
from danube.model.limits.metadata import (
    METADATA_BACKUP_BYTES_MAX,
    METADATA_BACKUP_ORIGIN_BYTES_MAX,
    METADATA_TOPIC_IDS_SKIPPED,
)
from danube.runtime.checksum import with_crc
from danube.runtime.rng import SystemRng
from danube.runtime.sealed import framed, unframed
from danube.testing.simulated.clock import SimClock
from tests.unit.metadata.backups import BROKER, CLUSTER, RESTORE, backup, snapshot


def packed(taken: Backup) -> bytes:
    return b"".join(encode_backup(taken))


def entry_of(found: Restored, key: str) -> Entry:
    return {entry.key: entry for entry in found.snapshot.entries}[key]


def test_a_backup_is_read_as_it_was_written() -> None:
    taken = backup(kind="raft")
    taken = Backup(replace(taken.origin, position=40, agreed_position=30, members=("1@h:7650",)), taken.snapshot)
    assert decode_backup(packed(taken), "a backup") == taken


def test_writing_tells_how_far_it_is() -> None:
    told: list[int] = []
    many = tuple(Entry(f"/k/{number:06}", b"", 1, 1) for number in range(1_000))
    encode_backup(backup(StateSnapshot(1, 0, many)), told.append)
    assert sum(told) >= 1_000


@pytest.mark.parametrize("kept", [0, 3, 20, 60, 200, -1])
def test_a_backup_that_is_cut_off_is_refused(kept: int) -> None:
    with pytest.raises((DamagedDataError, DataFolderError), match=r"cut off|no backup|not what was written"):
        decode_backup(packed(backup())[:kept], "half")


def test_no_changed_byte_of_a_backup_goes_unnoticed() -> None:
    content = packed(backup())
    for at in range(len(content)):
        changed = content[:at] + bytes([content[at] ^ 0x41]) + content[at + 1 :]
        with pytest.raises((DamagedDataError, DataFolderError)):
            decode_backup(changed, "damaged")


def test_what_follows_a_backup_is_noticed() -> None:
    with pytest.raises(DamagedDataError, match="use another backup"):
        decode_backup(packed(backup()) + b"x", "longer")


@pytest.mark.parametrize("version", [0, 2])
def test_a_backup_of_another_format_says_so(version: int) -> None:
    content = packed(backup())
    sealed, end = unframed(content)
    content = framed(with_crc(sealed[:4] + bytes([version]) + sealed[5:-4])) + content[end:]
    with pytest.raises(
        NewerDataFolderError, match=rf"another version \(format {version}; this one reads 1\): use that"
    ):
        decode_backup(content, "other")


@pytest.mark.parametrize(
    "field", [{"position": "x"}, {"members": [7]}, {"kind": None}, {"members": 5}, {"broker_id": True}]
)
def test_an_origin_that_says_something_else_than_it_may_is_refused(field: dict[str, object]) -> None:
    with pytest.raises(DamagedDataError, match="says of itself"):
        decode_backup(forged(field), "forged")


def forged(field: dict[str, object]) -> bytes:
    """A backup whose checksums are right."""
    content = packed(backup())
    sealed, end = unframed(content)
    origin = msgspec.msgpack.encode({**msgspec.msgpack.decode(sealed[6:-4]), **field})
    return framed(with_crc(sealed[:6] + origin)) + content[end:]


def test_an_origin_without_bound_is_not_written() -> None:
    taken = backup()
    long = replace(taken.origin, place="x" * METADATA_BACKUP_ORIGIN_BYTES_MAX)
    with pytest.raises(InvalidRequestError):
        encode_backup(Backup(long, taken.snapshot))


def test_a_file_that_is_larger_than_any_backup_is_not_read() -> None:
    check_size(METADATA_BACKUP_BYTES_MAX, "largest")
    with pytest.raises(DataFolderError, match="name another file"):
        check_size(METADATA_BACKUP_BYTES_MAX + 1, "larger")


def test_leases_their_keys_and_outcomes_are_left_out() -> None:
    found = restored(backup(), to_cluster=False, restore_id=RESTORE)
    assert (found.leases, found.leased_keys, found.outcomes) == (1, 1, 1)
    assert (found.snapshot.leases, found.snapshot.outcomes) == ((), ())
    assert not [entry for entry in found.snapshot.entries if entry.lease_id]
    State.of(found.snapshot).validate()


def test_no_number_that_was_given_out_is_given_out_again() -> None:
    found = restored(backup(), to_cluster=False, restore_id=RESTORE)
    counter = decode_counter(entry_of(found, keys.TOPIC_ID_COUNTER))
    assert (counter, found.next_topic_id) == (5 + METADATA_TOPIC_IDS_SKIPPED, counter + 1)
    assert found.snapshot.last_lease_id == 3
    assert found.snapshot.revision == 10


@pytest.mark.parametrize(("kind", "members"), [("etcd", ()), ("raft", ("7@alone:1", "8@10.0.0.8:7650"))])
def test_a_broker_that_stands_alone_does_not_take_the_metadata_of_a_cluster(
    kind: str, members: tuple[str, ...]
) -> None:
    taken = backup(kind=kind)
    taken = replace(taken, origin=replace(taken.origin, members=members))
    with pytest.raises(PreconditionFailedError, match="--store raft"):
        restored(taken, to_cluster=False, restore_id=RESTORE)
    assert restored(taken, to_cluster=True, restore_id=RESTORE).snapshot.entries


@pytest.mark.parametrize("to_cluster", [False, True])
def test_all_else_is_kept_as_it_was(to_cluster: bool) -> None:
    taken = backup()
    found = set(restored(taken, to_cluster=to_cluster, restore_id=RESTORE).snapshot.entries)
    changed = {entry.key for entry in set(taken.snapshot.entries) - found}
    assert changed == {keys.TOPIC_ID_COUNTER, keys.registered_broker(BROKER)}


def test_an_empty_store_is_restored_empty_but_for_the_mark() -> None:
    found = restored(backup(StateSnapshot()), to_cluster=True, restore_id=RESTORE).snapshot
    assert [entry.key for entry in found.entries] == [keys.RESTORED]
    assert replace(found, entries=()) == StateSnapshot(revision=1)


def test_a_restore_leaves_a_mark_that_says_what_the_backup_knew() -> None:
    found = restored(backup(), to_cluster=False, restore_id=RESTORE)
    expected = RestoreMark(restore_id=RESTORE, revision=9, taken_ms=1_000, last_topic_id=5)
    assert mark_of(found.snapshot.entries) == expected
    assert list(found.snapshot.entries) == sorted(found.snapshot.entries, key=lambda entry: entry.key)
    assert fault_of(entry_of(found, keys.RESTORED)) is None


def test_the_mark_of_the_restore_before_is_replaced_and_named() -> None:
    first = restored(backup(), to_cluster=False, restore_id="first").snapshot
    second = mark_of(restored(backup(first), to_cluster=False, restore_id="second").snapshot.entries)
    assert (second.restore_id, second.before) == ("second", "first")
    assert second.last_topic_id == 5 + METADATA_TOPIC_IDS_SKIPPED


@pytest.mark.parametrize(("folder_has", "known_to"), [("first", 7), ("", 0), ("other", 0)])
def test_only_a_folder_of_the_backup_s_own_past_trusts_its_topic_ids(folder_has: str, known_to: int) -> None:
    mark = RestoreMark(restore_id="second", before="first", revision=1, taken_ms=1, last_topic_id=7)
    assert mark.known_to(folder_has) == known_to


async def test_ids_under_which_something_is_stored_are_not_given_out() -> None:
    store = MemoryStore(SimClock())
    for last, expected in ((7, 7), (3, 7), (9, 9)):
        await skip_topic_ids(store, SystemRng(), last)
        assert decode_counter(await store.get(keys.TOPIC_ID_COUNTER)) == expected
    await store.close()


def test_the_cluster_id_is_found() -> None:
    assert cluster_id_of(snapshot().entries) == CLUSTER
    assert cluster_id_of(()) == ""


def test_keys_are_counted_by_family() -> None:
    counts = families([*snapshot().entries, Entry("/strange/a/b", b"", 1, 1), Entry("/topics", b"", 1, 1)])
    assert counts == {
        "/cluster/id": 1,
        "/cluster/register": 1,
        "/counters": 1,
        "/namespaces": 1,
        "/storage/deleted": 1,
        "/strange": 1,
        "/topics": 3,
    }


def test_a_record_that_cannot_be_read_is_told_and_a_strange_one_is_shown() -> None:
    assert [fault_of(entry) for entry in snapshot().entries if entry.lease_id == 0] == [None] * 6
    assert "does not hold what it should" in str(fault_of(Entry(keys.namespace("x"), b"\xff", 1, 1)))
    assert fault_of(Entry("/strange", b"\xff", 1, 1)) is None
    assert value_of(Entry("/strange", b"\xff", 1, 1)) == {"base64": "/w=="}
