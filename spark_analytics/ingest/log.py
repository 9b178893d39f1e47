"""Commit log of a table of Parquet files: which files are in it, batch by batch. Each commit is one file, made whole.

A commit names the files that it adds and removes. Readers see committed files alone, so a job that is killed leaves
nothing behind but files that no commit names. Two writers never make the same commit: the name of the next one is
created exclusively.
"""

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from danube.model.errors import PreconditionFailedError, SettingsError, UnsupportedError
from danube.model.untrusted_json import decode_json

FORMAT = 1
_LOG = "_log"


@dataclass(frozen=True, slots=True, kw_only=True)
class DataFile:
    """One Parquet file of a table."""

    path: str
    """Relative to the table."""
    day: str
    """Day of its records, UTC: `2026-01-31`."""
    rows: int
    bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """One change of a table."""

    version: int
    reason: str
    """`batch`, `compact` or `retain`."""
    batch: int | None = None
    """Id of the micro-batch, where it is one."""
    added: Sequence[DataFile] = ()
    removed: Sequence[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """Files of a table after all its commits."""

    version: int = -1
    last_batch: int = -1
    files: Mapping[str, DataFile] = field(default_factory=dict)

    def after(self, commit: Commit) -> "Snapshot":
        """The state after one commit more."""
        files = {name: file for name, file in self.files.items() if name not in set(commit.removed)}
        files |= {file.path: file for file in commit.added}
        last = self.last_batch if commit.batch is None else max(self.last_batch, commit.batch)
        return Snapshot(version=commit.version, last_batch=last, files=files)


def read_log(table: Path) -> Snapshot:
    """The table as it is. Raises UnsupportedError for one of a newer version, SettingsError for a damaged one."""
    state = Snapshot()
    for number, file in enumerate(sorted((table / _LOG).glob("*.json"))):
        commit = _commit(file)
        if commit.version != number:
            raise SettingsError(f"commit {number} of the table {table} is missing: restore its folder {_LOG}")
        state = state.after(commit)
    return state


def add_commit(table: Path, commit: Commit) -> None:
    """Make a change, durably. Raises PreconditionFailedError where another writer was first."""
    folder = table / _LOG
    folder.mkdir(parents=True, exist_ok=True)
    target = folder / f"{commit.version:020d}.json"
    made = folder / f".{commit.version:020d}.{os.getpid()}"
    text = json.dumps({"format": FORMAT, **asdict(commit)}, separators=(",", ":"))
    with made.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    try:
        os.link(made, target)
    except FileExistsError:
        raise PreconditionFailedError(
            f"another job wrote to the table {table} at the same time: run this one again"
        ) from None
    finally:
        made.unlink()
    _sync(folder)


def _commit(file: Path) -> Commit:
    try:
        fields = decode_json(file.read_text(encoding="utf-8"))
        if fields.pop("format") > FORMAT:
            raise UnsupportedError(f"{file.parent.parent} was written by a newer version: update danube-messaging")
        added = [DataFile(**each) for each in fields.pop("added")]
        return Commit(**fields, added=added)
    except (ValueError, KeyError, TypeError) as error:
        raise SettingsError(f"{file} is no commit of a table ({error}): restore it from a copy") from None


def _sync(folder: Path) -> None:
    number = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)
