"""Whether messages get on, as the lease of a broker is renewed by it."""

from dataclasses import dataclass, replace
from typing import cast

import pytest

from danube.broker.cluster.member import DataPath
from danube.storage.settings import JournalStats, StorageStats
from danube.storage.store import Storage

IDLE = JournalStats(
    rounds=5,
    failed_rounds=0,
    bytes_written=0,
    syncs=5,
    files=1,
    size_bytes=0,
    backlog_bytes=0,
    cache_bytes=0,
    last_round_ms=1.0,
)


@dataclass
class Stats:
    journal: JournalStats


class Journal:
    """The part of a storage that is asked."""

    def __init__(self) -> None:
        self.journal = IDLE
        self.stopped: str | None = None

    @property
    def stats(self) -> StorageStats:
        return cast("StorageStats", Stats(self.journal))


@pytest.fixture
def journal() -> Journal:
    return Journal()


@pytest.fixture
def path(journal: Journal) -> DataPath:
    made = DataPath(cast("Storage", journal))
    assert made.progresses()
    return made


def test_a_broker_with_nothing_to_write_is_alive(path: DataPath) -> None:
    assert path.progresses()


def test_one_that_writes_round_after_round_is_alive(path: DataPath, journal: Journal) -> None:
    journal.journal = replace(IDLE, rounds=6, backlog_bytes=1)
    assert path.progresses()


def test_one_whose_disk_hangs_while_messages_wait_is_not(path: DataPath, journal: Journal) -> None:
    journal.journal = replace(IDLE, backlog_bytes=1)
    assert not path.progresses()
    journal.journal = replace(IDLE, rounds=6, backlog_bytes=1)
    assert path.progresses()


def test_one_whose_journal_stopped_is_since_what_it_has_can_be_read(path: DataPath, journal: Journal) -> None:
    journal.journal = replace(IDLE, backlog_bytes=1)
    journal.stopped = "the disk is full"
    assert path.progresses()
