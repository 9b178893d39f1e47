import asyncio
import errno
import os
import re
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from danube.metadata.commands import Applied, GrantLease, Transact
from danube.metadata.records import keys
from danube.metadata.records.record_format import TopicRecord, encode_counter, encode_topic
from danube.metadata.sqlite.file import SCHEMA_VERSION, SqliteFile, copied
from danube.metadata.sqlite.store import SqliteStore
from danube.metadata.store import Condition, DeletePrefix, Put, Transaction
from danube.model.errors import (
    DamagedDataError,
    DataFolderAccessError,
    DataFolderError,
    DataFolderInUseError,
    MetadataError,
    UnknownOutcomeError,
    VersionConflictError,
)
from danube.model.topic import DispatchStrategy, TopicName
from danube.runtime.disk import next_step_of
from danube.testing.patience import PATIENCE_S
from danube.testing.simulated.clock import SimClock


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "metadata.sqlite"


def change_file(path: Path, statement: str) -> None:
    SqliteFile.open(path).close()
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute(statement)


def put(key: str, value: bytes = b"", *, transaction_id: str = "") -> Transact:
    return Transact(Transaction(transaction_id, (), (Put(key, value),)))


class FailingConnection:
    """A connection on which one statement fails."""

    def __init__(self, connection: sqlite3.Connection, statement: str, error_code: int) -> None:
        self._connection = connection
        self._statement = statement
        self._error_code = error_code
        self.armed = True

    def execute(self, statement: str, *arguments: Any) -> sqlite3.Cursor:
        if self.armed and statement.startswith(self._statement):
            self.armed = False
            raise failed_with(self._error_code)
        return self._connection.execute(statement, *arguments)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)


def failed_with(code: int) -> sqlite3.OperationalError:
    error = sqlite3.OperationalError("disk I/O error")
    error.sqlite_errorcode = code
    return error


@pytest.fixture
def failing_file(path: Path) -> Callable[[str, int], SqliteFile]:
    def failing(statement: str, error_code: int) -> SqliteFile:
        file = SqliteFile.open(path)
        file._connection = FailingConnection(file._connection, statement, error_code)  # type: ignore[assignment]
        return file

    return failing


# Durability


async def test_everything_is_there_after_closing_and_opening_again(path: Path) -> None:
    store = await SqliteStore.open(path, SimClock())
    await store.put("/a", b"1")
    await store.put("/a", b"2")
    await store.put("/é/😀", bytes(range(256)))
    before = await store.list("/")
    await store.close()
    again = await SqliteStore.open(path, SimClock())
    assert await again.list("/") == before
    assert await again.put("/b", b"") == 4
    await again.close()


async def test_outcomes_are_remembered_over_a_restart(path: Path) -> None:
    create = Transaction("create", (Condition("/a", 0),), (Put("/a", b""),))
    clash = Transaction("clash", (Condition("/a", 0),), (Put("/a", b"other"),))
    store = await SqliteStore.open(path, SimClock())
    await store.transact(create)
    with pytest.raises(VersionConflictError):
        await store.transact(clash)
    await store.close()
    again = await SqliteStore.open(path, SimClock())
    await again.delete("/a")
    assert await again.transact(create) == 1
    with pytest.raises(VersionConflictError):
        await again.transact(clash)
    assert await again.get("/a") is None
    await again.close()


def test_every_commit_is_synced(path: Path) -> None:
    with closing(SqliteFile.open(path)) as file:
        settings = [
            file._connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("synchronous", "journal_mode")
        ]
    assert settings == [2, "wal"]  # 2 is FULL: the write-ahead log is synced with each commit


def test_only_the_latest_outcomes_are_kept(path: Path) -> None:
    with closing(SqliteFile.open(path, outcomes_max=2)) as file:
        for name in ("1", "2", "3"):
            file.apply(put("/a", transaction_id=name))
        assert [file.outcome(name) for name in ("1", "2", "3")] == [None, Applied(2), Applied(3)]


async def test_leases_and_their_keys_end_with_the_process(path: Path) -> None:
    store = await SqliteStore.open(path, SimClock())
    lease_id = await store.grant_lease(60.0)
    await store.put("/leased", b"", lease_id=lease_id)
    await store.put("/kept", b"")
    await store.close()
    again = await SqliteStore.open(path, SimClock())
    assert [entry.key for entry in await again.list("/")] == ["/kept"]
    assert await again.grant_lease(60.0) == lease_id + 1
    assert await again.put("/kept", b"") == 4
    await again.close()


# Files that cannot be used


@pytest.mark.parametrize("content", [b"", b"not a database, whatever its name says" * 100, bytes(8192)])
def test_file_that_is_no_metadata_is_refused_with_its_path(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    with pytest.raises(DamagedDataError, match=re.escape(str(path))):
        SqliteFile.open(path)
    assert path.read_bytes() == content


def test_database_of_another_program_is_refused_untouched(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE theirs (x)")
    before = path.read_bytes()
    with pytest.raises(DamagedDataError, match="not a metadata file of Danube"):
        SqliteFile.open(path)
    assert path.read_bytes() == before


def test_file_of_a_newer_format_is_refused_with_the_next_step(path: Path) -> None:
    change_file(path, f"UPDATE schema_version SET version = {SCHEMA_VERSION + 1}")
    with pytest.raises(DataFolderError, match="format 2; this one reads 1"):
        SqliteFile.open(path)


def test_damaged_file_is_refused_with_the_next_step(path: Path) -> None:
    with closing(SqliteFile.open(path)) as file:
        for number in range(200):
            file.apply(put(f"/a/{number:04}", bytes(200)))
    content = bytearray(path.read_bytes())
    for page in range(3, len(content) // 4096):
        content[page * 4096 : page * 4096 + 64] = b"\xff" * 64
    path.write_bytes(content)
    with pytest.raises(DamagedDataError, match="restore it from a backup"):
        SqliteFile.open(path)


def test_a_path_that_is_too_long_for_sqlite_is_told_with_its_length(tmp_path: Path) -> None:
    folder = tmp_path / ("d" * 200) / ("d" * 200) / ("d" * 100)
    folder.mkdir(parents=True)
    with pytest.raises(
        DataFolderAccessError, match=r"the path has \d+ bytes, and SQLite opens up to 500; choose a short"
    ):
        SqliteFile.open(folder / "metadata.sqlite")


@pytest.mark.parametrize(
    ("code", "step"),
    [
        (sqlite3.SQLITE_READONLY, "check owner and permissions of the file and its folder"),
        (sqlite3.SQLITE_READONLY_DIRECTORY, "check owner and permissions of the file and its folder"),
        (sqlite3.SQLITE_CANTOPEN, "check owner and permissions of the file and its folder"),
        (sqlite3.SQLITE_IOERR_WRITE, "check the disk's space and health"),
        (sqlite3.SQLITE_FULL, "check the disk's space and health"),
    ],
)
def test_what_keeps_sqlite_from_a_sound_file_is_not_told_as_damage(
    path: Path, monkeypatch: pytest.MonkeyPatch, code: int, step: str
) -> None:
    SqliteFile.open(path).close()

    def refused(*_: Any, **__: Any) -> sqlite3.Connection:
        raise failed_with(code)

    monkeypatch.setattr(sqlite3, "connect", refused)
    with pytest.raises(DataFolderAccessError, match=step) as told:
        SqliteFile.open(path)
    assert "backup" not in str(told.value)


@pytest.mark.parametrize("code", [errno.EACCES, errno.EROFS])
def test_a_file_that_may_not_be_written_is_told_in_the_words_of_the_system(
    path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    SqliteFile.open(path).close()

    def refused(*_: Any, **__: Any) -> None:
        raise OSError(code, os.strerror(code), str(path))

    monkeypatch.setattr(Path, "open", refused)
    told = rf"cannot be opened \({os.strerror(code)}\): {next_step_of(OSError(code, ''))}"
    with pytest.raises(DataFolderAccessError, match=told):
        SqliteFile.open(path)


def filled(path: Path) -> None:
    """A file with some records and outcomes, closed."""
    with closing(SqliteFile.open(path)) as file:
        for number in range(1, 4):
            name = TopicName("default", f"t{number}")
            record = TopicRecord(name=name, topic_id=number, strategy=DispatchStrategy.RELIABLE, created_ms=1)
            writes = (Put(keys.topic(name), encode_topic(record)), Put(keys.TOPIC_ID_COUNTER, encode_counter(number)))
            file.apply(Transact(Transaction(f"id{number}", (), writes)))


def flip_in(path: Path, text: bytes) -> None:
    """Flip the lowest bit of the last character of the text."""
    content = bytearray(path.read_bytes())
    content[content.index(text) + len(text) - 1] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize("text", [b"\xa8topic_id\x02", b"DnMr\1\0\3", b"/topics/default/t1", b"id3"])
def test_one_flipped_bit_in_a_record_is_damage(path: Path, text: bytes) -> None:
    filled(path)
    flip_in(path, text)
    with pytest.raises(DamagedDataError, match=r"is not what was written|index"):
        SqliteFile.open(path)


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ("DELETE FROM entries WHERE key = '/topics/default/t2'", "its 6 records are not the 7"),
        ("UPDATE counters SET value = value + 1 WHERE name = 'revision'", "its counters are not"),
        ("DELETE FROM outcomes WHERE number = 1", "its 6 records are not the 7"),
    ],
)
def test_sound_records_that_are_not_those_of_the_last_change_are_damage(path: Path, change: str, what: str) -> None:
    filled(path)
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute(change)
    with pytest.raises(DamagedDataError, match=what):
        SqliteFile.open(path)


def test_every_state_that_a_commit_leaves_can_be_opened(path: Path) -> None:
    for number in range(12):
        with closing(SqliteFile.open(path, outcomes_max=3)) as file:
            file.apply(put(f"/a/{number % 3}", b"x" * number, transaction_id=f"id{number}"))
            if number % 4 == 3:
                file.apply(Transact(Transaction(f"gone{number}", (), (DeletePrefix("/a"),))))
            file.apply(GrantLease("", 5.0))
            file.apply(Transact(Transaction("", (), (Put("/leased", b"", file.last_lease_id),))))


def test_an_empty_file_is_copied_as_one(path: Path) -> None:
    path.touch()
    with copied(path) as copy:
        assert copy.exists()


def test_missing_folder_is_said_to_be_missing(tmp_path: Path) -> None:
    with pytest.raises(DataFolderError, match="check that the folder"):
        SqliteFile.open(tmp_path / "missing" / "metadata.sqlite")


def test_path_that_is_a_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataFolderError):
        SqliteFile.open(tmp_path)


def test_file_whose_making_was_interrupted_is_made_anew(path: Path) -> None:
    unfinished = path.with_name(f"{path.name}.new")
    unfinished.write_bytes(b"half")
    with closing(SqliteFile.open(path)) as file:
        assert file.revision == 0
    assert not unfinished.exists()


def test_file_that_another_process_has_is_refused(path: Path) -> None:
    opening = (
        f"import danube.metadata.sqlite.file as s; from pathlib import Path; s.SqliteFile.open(Path({str(path)!r}))"
    )
    with closing(SqliteFile.open(path)):
        second = subprocess.run(
            [sys.executable, "-c", opening], capture_output=True, text=True, check=False, timeout=PATIENCE_S
        )
    assert DataFolderInUseError.__name__ in second.stderr


async def test_opening_that_was_cancelled_leaves_the_file_free(path: Path) -> None:
    opening = asyncio.ensure_future(SqliteStore.open(path, SimClock()))
    await asyncio.sleep(0)
    opening.cancel()
    await asyncio.wait([opening])
    store = await SqliteStore.open(path, SimClock())
    await store.close()


# Failing disks


def test_what_a_killed_process_has_left_is_synced_before_anybody_goes_by_it(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may have died in the sync of a commit: what is seen of that a power cut would take back later."""
    left, synced, sync = path.with_name("left.sqlite"), list[int](), os.fdatasync
    with closing(SqliteFile.open(path)) as file:
        file.apply(put("/a"))
        for name in ("", "-wal"):
            shutil.copy(f"{path}{name}", f"{left}{name}")

    def noted(descriptor: int) -> None:
        synced.append(os.fstat(descriptor).st_ino)
        sync(descriptor)

    monkeypatch.setattr(os, "fdatasync", noted)
    with closing(SqliteFile.open(left)) as file:
        assert Path(f"{left}-wal").stat().st_ino in synced
        assert file.entry("/a") is not None


def test_write_that_fails_changes_nothing_and_the_store_goes_on(failing_file: Callable[[str, int], SqliteFile]) -> None:
    with closing(failing_file("UPDATE counters", sqlite3.SQLITE_FULL)) as file:
        with pytest.raises(MetadataError, match="check the disk"):
            file.apply(put("/a"))
        assert (file.entry("/a"), file.revision) == (None, 0)
        assert file.apply(put("/a")).outcome == Applied(1)


def test_commit_for_which_there_is_no_room_changes_nothing(failing_file: Callable[[str, int], SqliteFile]) -> None:
    with closing(failing_file("COMMIT", sqlite3.SQLITE_FULL)) as file:
        with pytest.raises(MetadataError, match="check the disk"):
            file.apply(put("/a"))
        assert (file.entry("/a"), file.revision) == (None, 0)
        assert file.apply(put("/a")).outcome == Applied(1)


def test_commit_whose_sync_failed_is_unknown_and_stops_the_store(
    failing_file: Callable[[str, int], SqliteFile],
) -> None:
    with closing(failing_file("COMMIT", sqlite3.SQLITE_IOERR_FSYNC)) as file:
        with pytest.raises(UnknownOutcomeError):
            file.apply(put("/a"))
        with pytest.raises(MetadataError, match="restart the broker"):
            file.apply(put("/b"))
        with pytest.raises(MetadataError, match="restart the broker"):
            file.read_entry("/a")


def test_lease_of_a_failed_grant_is_not_held(failing_file: Callable[[str, int], SqliteFile]) -> None:
    with closing(failing_file("COMMIT", sqlite3.SQLITE_FULL)) as file:
        with pytest.raises(MetadataError):
            file.apply(GrantLease("", 5.0))
        assert (file.lease_count, file.last_lease_id) == (0, 0)
