"""State of the metadata in one SQLite file: tables, the rules' view of them, and commits.

All calls block and come from one thread. A commit is durable when `apply` returns: the write-ahead log is synced with
every one (`synchronous=FULL`), so it survives `kill -9` and a power cut. The file is held exclusively.
"""

import json
import os
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import astuple
from pathlib import Path

from danube.metadata.commands import (
    Command,
    Effects,
    Lease,
    LeaseGiven,
    Outcome,
    decide,
    outcome_fields,
    outcome_of,
    prefix_bounds,
)
from danube.metadata.high_water import Reached
from danube.metadata.records import keys
from danube.metadata.records.record_format import decode_counter
from danube.metadata.sqlite.checks import Tally, damage_in, entry_crc, outcome_crc, seal
from danube.metadata.state import StateSnapshot
from danube.metadata.store import Changed, Entry
from danube.model.errors import (
    DamagedDataError,
    DanubeError,
    DataFolderAccessError,
    DataFolderError,
    DataFolderInUseError,
    MetadataError,
    PreconditionFailedError,
    SettingsError,
    UnknownOutcomeError,
)
from danube.model.limits.metadata import METADATA_OUTCOMES_MAX
from danube.model.untrusted_json import decode_json
from danube.runtime.checksum import other_version
from danube.runtime.disk import LocalDisk, is_environment, next_step_of

SCHEMA_VERSION = 1
"""Version of the tables and their contents."""

_APPLICATION_ID = 0x44_4E_42_4D  # "DNBM": tells our file from any other SQLite file

_PATH_BYTES_MAX = 500  # SQLite refuses a path of 512 bytes or more, `-journal` included

_TABLES = """
    BEGIN;
    CREATE TABLE schema_version (version INTEGER NOT NULL);
    CREATE TABLE counters (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
    CREATE TABLE entries (
        key TEXT PRIMARY KEY,
        value BLOB NOT NULL,
        created_revision INTEGER NOT NULL,
        revision INTEGER NOT NULL,
        lease_id INTEGER NOT NULL,
        crc INTEGER NOT NULL
    ) WITHOUT ROWID;
    CREATE INDEX leased_entries ON entries (lease_id) WHERE lease_id != 0;
    CREATE TABLE outcomes (
        number INTEGER PRIMARY KEY, command_id TEXT NOT NULL UNIQUE, outcome TEXT NOT NULL, crc INTEGER NOT NULL
    );
    INSERT INTO counters VALUES ('revision', 0), ('lease_id', 0), ('rows', 0), ('sum', 0), ('seal', 0);
    INSERT INTO schema_version VALUES (1);
    COMMIT;
"""

_SESSION = """
    PRAGMA synchronous = FULL;
    PRAGMA temp_store = MEMORY;
    CREATE TEMP TABLE leases (lease_id INTEGER PRIMARY KEY, ttl_s REAL NOT NULL, renewals INTEGER NOT NULL);
"""

_ENTRY = "SELECT key, value, created_revision, revision, lease_id FROM entries"


class SqliteFile:
    """The open file: a `View` for the rules, and the place where their effects are written."""

    def __init__(self, path: Path, connection: sqlite3.Connection, *, outcomes_max: int) -> None:
        self._path = path
        self._connection = connection
        self._outcomes_max = outcomes_max
        self._stopped = False
        self._tally = Tally()
        """Tally of the transaction that is under way."""
        self.found = Reached()
        """Progress of the metadata when the file was opened."""

    @classmethod
    def open(cls, path: Path, *, outcomes_max: int = METADATA_OUTCOMES_MAX) -> "SqliteFile":
        """Open the file, or make it. Raises DamagedDataError, DataFolderError, DataFolderInUseError."""
        with _opening(path):
            if not path.exists():
                _create(path)
            LocalDisk(path.parent).sync_folder("")  # a crash may have come between the making of the file and this
            connection = _connect(path)
        file = cls(path, connection, outcomes_max=outcomes_max)
        file.found = file.reached()
        file._drop_leased()
        return file

    @property
    def revision(self) -> int:
        return self._counter("revision")

    @property
    def last_lease_id(self) -> int:
        return self._counter("lease_id")

    @property
    def lease_count(self) -> int:
        return int(self._row("SELECT count(*) FROM leases")[0])

    def entry(self, key: str) -> Entry | None:
        row = self._connection.execute(f"{_ENTRY} WHERE key = ?", (key,)).fetchone()
        return Entry(*row) if row else None

    def below(self, prefix: str) -> list[Entry]:
        rows = self._connection.execute(f"{_ENTRY} WHERE key >= ? AND key < ? ORDER BY key", prefix_bounds(prefix))
        return [Entry(*row) for row in rows]

    def lease(self, lease_id: int) -> Lease | None:
        rows = self._connection.execute("SELECT lease_id, ttl_s, renewals FROM leases WHERE lease_id = ?", (lease_id,))
        row = rows.fetchone()
        return Lease(*row) if row else None

    def leased_keys(self, lease_id: int) -> list[str]:
        rows = self._connection.execute("SELECT key FROM entries WHERE lease_id = ? AND lease_id != 0", (lease_id,))
        return [key for (key,) in rows]

    def outcome(self, command_id: str) -> Outcome | None:
        rows = self._connection.execute("SELECT outcome FROM outcomes WHERE command_id = ?", (command_id,))
        row = rows.fetchone()
        return outcome_of(decode_json(row[0])) if row else None

    def reached(self) -> Reached:
        """Progress of the metadata. Raises MetadataError when the file fails."""
        with self._using():
            return Reached(self.revision, decode_counter(self.entry(keys.TOPIC_ID_COUNTER)))

    def read_entry(self, key: str) -> Entry | None:
        """The key, for the store's readers. Raises MetadataError when the file fails."""
        with self._using():
            return self.entry(key)

    def read_below(self, prefix: str) -> tuple[list[Entry], int]:
        """Entries below a prefix, and their revision of the store. Raises MetadataError when the file fails."""
        with self._using():
            return self.below(prefix), self.revision

    def apply(self, command: Command) -> Effects:
        """Decide and carry out a command; it is on the disk, whole, when this returns.

        Raises MetadataError when nothing was done, and UnknownOutcomeError when the commit itself failed: what is on
        the disk is not known then, and the store stops.
        """
        with self._using():
            self._begin()
            try:
                effects = decide(self, command)
                self._carry_out(effects)
            except BaseException:
                self._connection.rollback()
                raise
            self._commit()
        return effects

    def snapshot(self) -> StateSnapshot:
        """All of it. Leases are none: they end with the process. Raises MetadataError when the file fails."""
        with self._using():
            entries = [Entry(*row) for row in self._connection.execute(f"{_ENTRY} ORDER BY key")]
            outcomes = self._connection.execute("SELECT command_id, outcome FROM outcomes ORDER BY number")
            remembered = tuple((command_id, outcome_of(decode_json(text))) for command_id, text in outcomes)
            return StateSnapshot(self.revision, self.last_lease_id, tuple(entries), (), remembered)

    def fill(self, snapshot: StateSnapshot) -> None:
        """Have an empty file hold what a snapshot does, without leases and outcomes; all of it or nothing.

        Raises PreconditionFailedError when the file is not empty, MetadataError when it fails.
        """
        with self._using():
            if self.revision:
                raise PreconditionFailedError(f"{self._path} is not empty: fill a new one")
            self._begin()
            rows = ((*astuple(one), self._tally.add(entry_crc(one))) for one in snapshot.entries if not one.lease_id)
            self._connection.executemany("INSERT INTO entries VALUES (?, ?, ?, ?, ?, ?)", rows)
            self._set_counter("revision", snapshot.revision)
            self._set_counter("lease_id", snapshot.last_lease_id)
            self._commit()

    def close(self) -> None:
        """Close the file; what was committed is in it."""
        self._connection.close()

    def _carry_out(self, effects: Effects) -> None:
        for change in effects.changes:
            key = change.entry.key if isinstance(change, Changed) else change.key
            self._delete("DELETE FROM entries WHERE key = ? RETURNING crc", key)
            if isinstance(change, Changed):
                row = (*astuple(change.entry), self._tally.add(entry_crc(change.entry)))
                self._connection.execute("INSERT INTO entries VALUES (?, ?, ?, ?, ?, ?)", row)
        if effects.changes:
            self._set_counter("revision", effects.revision)
        self._carry_out_lease(effects)
        if effects.command_id:
            self._remember(effects.command_id, effects.outcome)

    def _carry_out_lease(self, effects: Effects) -> None:
        lease = effects.lease_set
        if lease:
            self._connection.execute("INSERT OR REPLACE INTO leases VALUES (?, ?, ?)", astuple(lease))
            if lease.renewals == 0:
                self._set_counter("lease_id", lease.lease_id)
        if effects.lease_ended:
            self._connection.execute("DELETE FROM leases WHERE lease_id = ?", (effects.lease_ended,))

    def _remember(self, command_id: str, outcome: Outcome) -> None:
        if isinstance(outcome, LeaseGiven):
            return  # leases end with the process, and so does the need to remember them
        encoded = json.dumps(outcome_fields(outcome))
        row = (command_id, encoded, self._tally.add(outcome_crc(command_id, encoded)))
        cursor = self._connection.execute("INSERT INTO outcomes (command_id, outcome, crc) VALUES (?, ?, ?)", row)
        forgotten = (cursor.lastrowid or 0) - self._outcomes_max
        self._delete("DELETE FROM outcomes WHERE number <= ? RETURNING crc", forgotten)

    def _delete(self, statement: str, *arguments: object) -> int:
        """Remove rows with a statement that answers their checksums; answers how many."""
        gone = self._connection.execute(statement, arguments).fetchall()
        self._tally.remove(gone)
        return len(gone)

    def _begin(self) -> None:
        self._connection.execute("BEGIN IMMEDIATE")
        self._tally = Tally()

    def _commit(self) -> None:
        seal(self._connection, self._tally)
        try:
            self._connection.execute("COMMIT")
        except sqlite3.Error as error:
            self._connection.rollback()
            if error.sqlite_errorcode == sqlite3.SQLITE_FULL:  # the commit mark itself did not fit: nothing was done
                raise
            self._stopped = True  # a failed sync says nothing about what a later one brings to the disk
            raise UnknownOutcomeError(
                f"{self._path}: the commit failed ({error}) and the store stops: mend the disk and restart the broker"
            ) from error

    def _drop_leased(self) -> None:
        """Remove the keys of leases: whoever held one died with the process that opened the file before."""
        with self._using():
            self._begin()
            if self._delete("DELETE FROM entries WHERE lease_id != 0 RETURNING crc"):
                self._set_counter("revision", self.revision + 1)
            self._commit()

    def _counter(self, name: str) -> int:
        return int(self._row("SELECT value FROM counters WHERE name = ?", name)[0])

    def _set_counter(self, name: str, value: int) -> None:
        self._connection.execute("UPDATE counters SET value = ? WHERE name = ?", (value, name))

    def _row(self, query: str, *arguments: object) -> tuple[int, ...]:
        row: tuple[int, ...] = self._connection.execute(query, arguments).fetchone()
        return row

    @contextmanager
    def _using(self) -> Iterator[None]:
        if self._stopped:
            raise MetadataError(f"{self._path}: a commit failed before; mend the disk and restart the broker")
        try:
            yield
        except sqlite3.Error as error:
            step = _step_about(error, self._path) or "check the disk's space and health"
            raise MetadataError(f"{self._path}: {error}; {step}") from error


@contextmanager
def _opening(path: Path) -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as error:
        if _code_of(error) == sqlite3.SQLITE_BUSY:
            raise DataFolderInUseError(f"{path} is in use: stop the other broker on this data folder first") from error
        if (step := _step_about(error, path)) is None:
            raise _damaged(path, str(error)) from error
        raise DataFolderAccessError(f"{path} cannot be opened ({error}): {step}") from error
    except OSError as error:
        step = next_step_of(error) if is_environment(error) else "check that the folder can be written to"
        raise DataFolderAccessError(f"{path} cannot be opened ({error.strerror or error}): {step}") from error
    except (TypeError, ValueError, KeyError) as error:  # a damaged row has values of any type, or is not there
        raise _damaged(path, str(error)) from error


def _code_of(error: sqlite3.Error) -> int:
    code: int = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT)  # none: text that is no UTF-8
    return code & 0xFF


def _step_about(error: sqlite3.Error, path: Path) -> str | None:
    """Next step where the path, a permission or the disk is in the way; None where the file is wrong."""
    path_bytes = len(os.fsencode(path.absolute()))
    match _code_of(error):
        case sqlite3.SQLITE_CANTOPEN if path_bytes > _PATH_BYTES_MAX:
            return f"the path has {path_bytes} bytes, and SQLite opens up to {_PATH_BYTES_MAX}; choose a shorter one"
        case sqlite3.SQLITE_CANTOPEN | sqlite3.SQLITE_READONLY | sqlite3.SQLITE_PERM:
            return "check owner and permissions of the file and its folder, and that their disk can be written to"
        case sqlite3.SQLITE_FULL | sqlite3.SQLITE_IOERR | sqlite3.SQLITE_NOMEM:
            return "check the disk's space and health"
        case _:
            return None


def _create(path: Path) -> None:
    """Make the file under another name first: under its own it is whole or not there, whatever happens."""
    unfinished = path.with_name(f"{path.name}.new")
    folder = LocalDisk(path.parent)
    for leftover in (unfinished, path.with_name(f"{unfinished.name}-journal")):
        leftover.unlink(missing_ok=True)
    folder.create(unfinished.name).close()
    connection = sqlite3.connect(unfinished, isolation_level=None)
    try:
        connection.executescript(f"PRAGMA synchronous = EXTRA; PRAGMA application_id = {_APPLICATION_ID}; {_TABLES}")
        seal(connection, Tally())
    finally:
        connection.close()
    unfinished.replace(path)


def _connect(path: Path) -> sqlite3.Connection:
    with path.open("r+b"):  # for the operating system's own words about why it cannot be
        pass
    connection = sqlite3.connect(path, isolation_level=None, timeout=0)
    try:
        _prepare(connection, path)
    except BaseException:
        connection.close()
        raise
    return connection


def _prepare(connection: sqlite3.Connection, path: Path) -> None:
    # Exclusive before the first read: keeps other processes out, and needs no shared memory beside the file.
    connection.execute("PRAGMA locking_mode = EXCLUSIVE")
    _check(connection, path)
    (mode,) = connection.execute("PRAGMA journal_mode = WAL").fetchone()
    if mode != "wal":
        raise DataFolderError(f"{path} cannot keep a write-ahead log ({mode}): put the data folder on a local disk")
    _make_durable(path)
    connection.executescript(_SESSION)


def _make_durable(path: Path) -> None:
    """Make durable what a process left that died in a commit: it is visible, and may not be on the disk.

    It is written once more, since the sync of it may have failed.
    """
    folder, log = LocalDisk(path.parent), f"{path.name}-wal"
    if folder.exists(log):
        folder.rewrite(log, 0)


def _check(connection: sqlite3.Connection, path: Path) -> None:
    """Have every record checked."""
    (application_id,) = connection.execute("PRAGMA application_id").fetchone()
    if application_id != _APPLICATION_ID:
        raise _damaged(path, "it is not a metadata file of Danube")
    (version,) = connection.execute("SELECT version FROM schema_version").fetchone()
    if version != SCHEMA_VERSION:
        raise other_version(str(path), version, SCHEMA_VERSION)
    (finding,) = connection.execute("PRAGMA integrity_check(1)").fetchone()
    trouble = finding if finding != "ok" else None
    if trouble is None:
        trouble = damage_in(connection)
    if trouble is not None:
        raise _damaged(path, trouble)


def _damaged(path: Path, what: str) -> DamagedDataError:
    return DamagedDataError(f"{path} is damaged ({what}): restore it from a backup")


def read_sqlite(path: Path) -> StateSnapshot:
    """State in a file that no process may have open. Blocks.

    Raises DataFolderError when it cannot be read, is damaged or of a newer format, MetadataError, OSError, and
    SettingsError when there is no place for the copy.
    """
    with copied(path) as copy:
        try:
            file = SqliteFile.open(copy)
        except DanubeError as error:
            raise type(error)(str(error).replace(str(copy), str(path))) from error
        with closing(file):
            return file.snapshot()


def write_sqlite(path: Path, snapshot: StateSnapshot) -> None:
    """Make a file, which is not there yet; all of it is on the disk on return. Raises DataFolderError, OSError."""
    with closing(SqliteFile.open(path)) as file:
        file.fill(snapshot)


_COMPANIONS = ("", "-wal")
_PIECE_BYTES = 1024 * 1024


@contextmanager
def copied(path: Path) -> Iterator[Path]:
    """A copy of the file with what belongs to it, gone at the end.

    Raises OSError when the file cannot be read. That there is no place for a copy says nothing of the file: then it
    raises SettingsError.
    """
    with ExitStack() as scratch:
        try:
            folder = Path(scratch.enter_context(tempfile.TemporaryDirectory(prefix="danube-metadata-")))
        except OSError as error:
            raise _no_place(path, error) from error
        for companion in _COMPANIONS:
            source = path.with_name(path.name + companion)
            if not companion or source.exists():
                _copy(source, folder / source.name)
        yield folder / path.name


def _copy(source: Path, target: Path) -> None:
    with source.open("rb") as file:
        target.touch()  # an empty one is no missing one
        while piece := file.read(_PIECE_BYTES):
            try:
                with target.open("ab") as copy:
                    copy.write(piece)
            except OSError as error:
                raise _no_place(source, error) from error


def _no_place(path: Path, error: OSError) -> SettingsError:
    return SettingsError(
        f"{path.name} is looked into as a copy, and none can be made: {error.strerror or error}. Make room in the"
        " folder for temporary files, or name another one with TMPDIR"
    )
