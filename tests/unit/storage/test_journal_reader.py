"""Reading batches of one topic from between those of others: as few reads as are worth it, each of them bounded."""

import pytest

from danube.model.errors import DamagedDataError
from danube.storage.batches.batch import encode_payloads
from danube.storage.batches.envelope import ENVELOPE_BYTES, encode_data
from danube.storage.journal.index import FileStart, FileTable, Located, TopicIndex
from danube.storage.journal.reader import JournalReader
from danube.testing.simulated.disk import SimDisk, SimFile

TOPIC = 5
FILE = "journal/0000000001.journal"


class WatchedDisk(SimDisk):
    """Notes the reads of its file."""

    def __init__(self, data: bytes) -> None:
        super().__init__()
        self.data = data
        self.reads: list[tuple[int, int]] = []

    def open_read(self, name: str) -> SimFile:
        assert name == FILE
        return WatchedFile(self)


class WatchedFile(SimFile):
    def __init__(self, disk: WatchedDisk) -> None:
        self._watched = disk

    def read(self, position: int, length: int) -> bytes:
        self._watched.reads.append((position, length))
        return self._watched.data[position : position + length]

    def close(self) -> None:
        """Nothing is open."""


def interleaved(sizes: list[int], gap: int) -> tuple[WatchedDisk, list[Located], list[bytes]]:
    """A file with a batch of each size, and so many bytes of others behind each."""
    data, batches, bodies = b"\0" * 52, [], []
    for number, size in enumerate(sizes):
        body = encode_payloads(b"", [bytes([number]) * size])
        batches.append(Located(number, number + 1, len(data), len(body), 1_000))
        data += encode_data(TOPIC, 1, range(number, number + 1), 1_000, body) + body + b"\xff" * gap
        bodies.append(body)
    return WatchedDisk(data), batches, bodies


def end_of(batch: Located) -> int:
    return batch.position + ENVELOPE_BYTES + batch.body_bytes


def indexed(batches: list[Located]) -> TopicIndex:
    index = TopicIndex(batches[0].base_offset)
    for batch in batches:
        index.append(batch)
    return index


def read(disk: WatchedDisk, batches: list[Located], *, needs_all: bool = True) -> list[bytes]:
    files = FileTable()
    files.add(FileStart(1, 0, 0))
    run = indexed(batches).run_at(batches[0].base_offset, 1 << 30)
    return [one.body for one in JournalReader(disk).read_run(TOPIC, run, files, needs_all=needs_all)]


@pytest.mark.parametrize(("gap", "reads"), [(0, 1), (4_096, 1), (4_097, 20)])
def test_a_gap_is_read_over_when_that_costs_less_than_another_read(gap: int, reads: int) -> None:
    disk, batches, bodies = interleaved([1_000] * 20, gap)
    assert read(disk, batches) == bodies
    assert len(disk.reads) == reads


def test_no_read_is_longer_than_its_bound_unless_one_batch_is() -> None:
    disk, batches, bodies = interleaved([30_000] * 10 + [600_000, 10, 10], gap=0)
    assert read(disk, batches) == bodies
    assert [length for _, length in disk.reads if length > 256 * 1_024] == [len(bodies[10])]
    assert len(disk.reads) == 5


def test_a_large_body_is_read_by_itself_so_that_it_is_not_copied() -> None:
    disk, batches, bodies = interleaved([10, 10, 40_000, 40_000, 10], gap=0)
    assert read(disk, batches) == bodies
    assert [length for _, length in disk.reads] == [
        2 * (ENVELOPE_BYTES + len(bodies[0])),
        *[ENVELOPE_BYTES, len(bodies[2])] * 2,
        ENVELOPE_BYTES + len(bodies[4]),
    ]


def test_every_flipped_byte_of_a_large_batch_is_seen() -> None:
    disk, batches, _ = interleaved([10, 33_000, 10], gap=0)
    whole, at = disk.data, batches[1].position
    for byte in (
        *range(at, at + 200),
        *range(at + 200, end_of(batches[1]) - 10, 997),
        *range(end_of(batches[1]) - 10, end_of(batches[1])),
    ):
        disk.data = whole[:byte] + bytes([whole[byte] ^ 4]) + whole[byte + 1 :]
        with pytest.raises(DamagedDataError, match=rf"{FILE} is damaged at byte {at}: .*"):
            read(disk, batches)
    for length in (at + 1, at + ENVELOPE_BYTES, at + 30_000, end_of(batches[1]) - 1):
        disk.data = whole[:length]
        with pytest.raises(DamagedDataError):
            read(disk, batches)


def test_a_run_of_an_index_is_read_as_its_batches_are_across_files() -> None:
    disk, batches, bodies = interleaved([10, 40_000, 10, 10], gap=5_000)
    index, files = indexed(batches), FileTable()
    files.add(FileStart(1, 0, 0))
    assert [one.body for one in JournalReader(disk).read_run(TOPIC, index.run_at(1, 1 << 20), files)] == bodies[1:]
    files.add(FileStart(2, batches[2].position, 3))
    assert files.split([one.position for one in batches]) == [
        (FileStart(1, 0, 0), range(2)),
        (FileStart(2, batches[2].position, 3), range(2, 4)),
    ]


def test_every_flipped_bit_of_a_batch_is_seen_and_none_beside_it_matters() -> None:
    disk, batches, bodies = interleaved([10, 10, 10], gap=30)
    whole, wanted = disk.data, range(batches[1].position, end_of(batches[1]))
    for byte in range(end_of(batches[0]), batches[2].position):
        disk.data = whole[:byte] + bytes([whole[byte] ^ 4]) + whole[byte + 1 :]
        if byte in wanted:
            with pytest.raises(DamagedDataError, match=rf"{FILE} is damaged at byte {batches[1].position}: .*"):
                read(disk, batches)
        else:
            assert read(disk, batches) == bodies


def test_a_file_that_ends_too_early_is_damaged() -> None:
    disk, batches, _ = interleaved([10, 10], gap=0)
    whole = disk.data
    for length in range(batches[1].position, end_of(batches[1])):
        disk.data = whole[:length]
        with pytest.raises(DamagedDataError):
            read(disk, batches)


@pytest.mark.parametrize("size", [1_000, 40_000], ids=["together", "alone"])
@pytest.mark.parametrize("damaged", [0, 1, 7])
def test_what_is_sound_before_a_fault_is_answered_where_that_is_enough(size: int, damaged: int) -> None:
    disk, batches, bodies = interleaved([size] * 10, gap=0)
    at = batches[damaged].position + ENVELOPE_BYTES + 90
    disk.data = disk.data[:at] + bytes([disk.data[at] ^ 1]) + disk.data[at + 1 :]
    with pytest.raises(DamagedDataError, match=FILE):
        read(disk, batches)
    if damaged:
        assert read(disk, batches, needs_all=False) == bodies[:damaged]
    with pytest.raises(DamagedDataError, match=FILE):
        read(disk, batches[damaged:], needs_all=False)
