"""Segments as files of a disk that fails, loses its power, and is written to by another at the same moment."""

import errno
from collections.abc import Sequence

import pytest

from danube.model.limits.broker import MIB, SEGMENT_OPEN_FILES_MAX, SEGMENT_READS_AHEAD
from danube.runtime.disk import PARTIAL_SUFFIX, Buffer
from danube.storage.tiers.directory import DirectoryTier
from danube.testing.simulated.disk import MachineOffError, Operation, SimDisk, SimFile

FOLDER = "segments/7"
NAME = f"{FOLDER}/a"
CHUNKS = [b"0123456789" * 50, b"abc"]
WHOLE = b"".join(CHUNKS)


def files(disk: SimDisk) -> dict[str, bytes]:
    return disk.contents()


def changes_of_a_put(seed: int) -> int:
    disk = SimDisk(seed)
    DirectoryTier(disk).put(NAME, CHUNKS)
    return disk.changes_done


@pytest.mark.parametrize("seed", range(8))
def test_a_power_cut_at_any_step_leaves_all_or_nothing(seed: int) -> None:
    for step in range(1, changes_of_a_put(seed) + 1):
        disk = SimDisk(seed)
        disk.stop_at(step)
        with pytest.raises(MachineOffError):
            DirectoryTier(disk).put(NAME, CHUNKS)
        tier = DirectoryTier(found := disk.power_cut())
        assert [tier.read(f"{FOLDER}/{name}", 0, 1_000) for name in tier.list(FOLDER)] in ([], [WHOLE])
        tier.put(NAME, CHUNKS)
        assert files(found) == {NAME: WHOLE}


@pytest.mark.parametrize("seed", range(8))
def test_what_was_put_survives_a_power_cut(seed: int) -> None:
    disk = SimDisk(seed)
    DirectoryTier(disk).put(NAME, CHUNKS)
    assert files(disk.power_cut()) == {NAME: WHOLE}


@pytest.mark.parametrize("seed", range(20))
def test_what_was_there_already_survives_a_power_cut_once_it_is_put_again(seed: int) -> None:
    disk = SimDisk(seed)
    tier = DirectoryTier(disk)
    disk.fail(Operation.SYNC_FOLDER, name=FOLDER)
    with pytest.raises(OSError):
        tier.put(NAME, CHUNKS)
    assert files(disk) == {NAME: WHOLE}
    tier.put(NAME, CHUNKS)
    assert files(disk.power_cut()) == {NAME: WHOLE}


@pytest.mark.parametrize(
    "operation", [Operation.CREATE, Operation.APPEND, Operation.SYNC, Operation.RENAME, Operation.SYNC_FOLDER]
)
@pytest.mark.parametrize("error", [errno.EIO, errno.ENOSPC])
def test_a_put_that_failed_is_found_by_nobody_and_can_be_tried_again(operation: Operation, error: int) -> None:
    disk = SimDisk()
    tier = DirectoryTier(disk)
    tier.put(f"{FOLDER}/b", [b"b"])
    disk.fail(operation, error=error)
    with pytest.raises(OSError) as caught:
        tier.put(NAME, CHUNKS)
    assert caught.value.errno == error
    assert files(disk).keys() <= {NAME, f"{FOLDER}/b"}
    assert files(disk).get(NAME, WHOLE) == WHOLE
    tier.put(NAME, CHUNKS)
    assert tier.read(NAME, 0, 1_000) == WHOLE


def test_a_full_disk_is_told_and_left_as_it_was() -> None:
    disk = SimDisk()
    disk.capacity_bytes = 100
    with pytest.raises(OSError) as caught:
        DirectoryTier(disk).put(NAME, CHUNKS)
    assert (caught.value.errno, files(disk)) == (errno.ENOSPC, {})


def test_what_an_interrupted_writer_left_is_not_listed_and_goes_with_the_next_put() -> None:
    disk = SimDisk()
    tier = DirectoryTier(disk)
    tier.put(NAME, CHUNKS)
    disk.create(f"{NAME}.1234{PARTIAL_SUFFIX}").append([b"half"])
    assert tier.list(FOLDER) == ["a"]
    DirectoryTier(disk).put(f"{FOLDER}/b", [b"b"])
    assert files(disk) == {NAME: WHOLE, f"{FOLDER}/b": b"b"}


def test_what_a_put_that_failed_could_not_remove_goes_with_the_next_one() -> None:
    tier = DirectoryTier(disk := SimDisk())
    disk.fail(Operation.SYNC)
    disk.fail(Operation.REMOVE)
    with pytest.raises(OSError, match="Input/output error"):
        tier.put(NAME, CHUNKS)
    assert any(name.endswith(PARTIAL_SUFFIX) for name in files(disk))
    tier.put(NAME, CHUNKS)
    assert files(disk) == {NAME: WHOLE}


def test_a_deleted_folder_takes_along_what_an_interrupted_writer_left() -> None:
    disk = SimDisk()
    disk.make_folder(FOLDER)
    disk.create(f"{NAME}.1234{PARTIAL_SUFFIX}").append([b"half"])
    DirectoryTier(disk).delete_folder(FOLDER)
    assert (files(disk), disk.exists(FOLDER), disk.exists("segments")) == ({}, False, True)


def test_a_folder_that_was_deleted_stays_so_after_a_power_cut() -> None:
    for seed in range(8):
        disk = SimDisk(seed)
        tier = DirectoryTier(disk)
        tier.put(NAME, CHUNKS)
        tier.put(f"{FOLDER}/b", CHUNKS)
        tier.delete_folder(FOLDER)
        found = disk.power_cut()
        assert (files(found), found.exists(FOLDER)) == ({}, False)


@pytest.mark.parametrize("content", [WHOLE, b"something else"])
def test_of_two_who_put_a_name_at_the_same_moment_one_comes_first(content: bytes) -> None:
    class Racing(SimDisk):
        def create_whole(self, name: str, chunks: Sequence[Buffer]) -> None:
            super().create_whole(name, [content])  # the other, right after this one saw that the name is free
            super().create_whole(name, chunks)

    disk = Racing()
    tier = DirectoryTier(disk)
    if content == WHOLE:
        tier.put(NAME, CHUNKS)
    else:
        with pytest.raises(FileExistsError, match="is there already, with other content"):
            tier.put(NAME, CHUNKS)
    assert files(disk) == {NAME: content}


def test_no_more_files_are_open_than_the_bound_says() -> None:
    tier = DirectoryTier(SimDisk())
    for number in range(SEGMENT_OPEN_FILES_MAX + 5):
        tier.put(f"segments/{number}/a", [b"x"])
        tier.read(f"segments/{number}/a", 0, 1)
    assert len(tier._open) == SEGMENT_OPEN_FILES_MAX
    tier.close_folder(f"segments/{SEGMENT_OPEN_FILES_MAX}")
    assert len(tier._open) == SEGMENT_OPEN_FILES_MAX - 1
    tier.close()
    assert not tier._open


@pytest.mark.parametrize(
    ("asked_bytes", "expected_bytes"),
    [(len(WHOLE), len(WHOLE)), (MIB, MIB + SEGMENT_READS_AHEAD * MIB)],
    ids=["one block", "a long run, and those after it"],
)
def test_a_run_is_said_to_the_disk_before_it_is_taken(
    monkeypatch: pytest.MonkeyPatch, asked_bytes: int, expected_bytes: int
) -> None:
    """Else the disk fetches what the system guesses, and the journal's syncs wait behind that."""
    expected: list[tuple[int, int]] = []
    monkeypatch.setattr(SimFile, "expect", lambda _, position, length: expected.append((position, length)))
    tier = DirectoryTier(SimDisk(1))
    tier.put(NAME, CHUNKS)
    take = tier.open_run(NAME, 3, asked_bytes)
    assert expected == [(3, expected_bytes)]
    assert take(4) == WHOLE[3:7]
    assert next(iter(tier.read_run(NAME, 5, [asked_bytes]))) == WHOLE[5:]
    assert expected[1:] == [(5, expected_bytes)]
