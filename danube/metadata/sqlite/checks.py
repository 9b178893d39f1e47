"""Checksums of the metadata file: one for every record, and one for the state as a whole.

Each row of `entries` and `outcomes` carries the CRC-32C of its fields. The counters hold how many rows there are and
what their checksums add up to, and `seal` is the checksum of the other counters. A commit changes them together with
its rows. So a flipped bit is found, and also a page that is older than the others and a row that is gone. An older copy
of the file as a whole passes: the high-water mark of the data folder is for that (`high_water`).
"""

import sqlite3
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from danube.metadata.store import Entry
from danube.runtime.checksum import crc_of

COUNTERS = ("lease_id", "revision", "rows", "sum")
"""Covered by the seal, in this order."""

_SUM = 1 << 62  # SQLite's numbers have 63 bits and a sign
_ENTRIES = "SELECT key, value, created_revision, revision, lease_id, crc FROM entries ORDER BY key"
_OUTCOMES = "SELECT number, command_id, outcome, crc FROM outcomes"


@dataclass(slots=True)
class Tally:
    """Changes of a transaction to the number of rows and to the sum of their checksums."""

    rows: int = 0
    sum: int = 0

    def add(self, crc: int) -> int:
        """A row comes; answers its checksum."""
        self.rows, self.sum = self.rows + 1, self.sum + crc
        return crc

    def remove(self, crcs: Iterable[tuple[int]]) -> None:
        """Rows go, which had these checksums."""
        for (crc,) in crcs:
            self.rows, self.sum = self.rows - 1, self.sum - crc


def entry_crc(entry: Entry) -> int:
    """The checksum of a row of `entries`."""
    fixed = f"{entry.key}\0{entry.created_revision}\0{entry.revision}\0{entry.lease_id}\0"
    return crc_of(fixed.encode() + entry.value)


def outcome_crc(command_id: str, outcome: str) -> int:
    """The checksum of a row of `outcomes`."""
    return crc_of(f"{command_id}\0{outcome}".encode())


def seal_of(counters: Mapping[str, int]) -> int:
    """The checksum of the counters."""
    return crc_of(" ".join(str(counters.get(name)) for name in COUNTERS).encode())


def seal(connection: sqlite3.Connection, tally: Tally) -> None:
    """Have the counters say what a transaction changed; part of that transaction."""
    counters = dict(connection.execute("SELECT name, value FROM counters"))
    counters["rows"] += tally.rows
    counters["sum"] = (counters["sum"] + tally.sum) % _SUM
    counters["seal"] = seal_of(counters)
    changed = [(counters[name], name) for name in ("rows", "sum", "seal")]
    connection.executemany("UPDATE counters SET value = ? WHERE name = ?", changed)


def damage_in(connection: sqlite3.Connection) -> str | None:
    """Damage in the file, in a few words; None without damage."""
    tally, before = Tally(), ""
    for key, value, *numbers, crc in connection.execute(_ENTRIES):
        is_entry = isinstance(key, str) and isinstance(value, bytes)
        if not is_entry or entry_crc(Entry(key, value, *numbers)) != crc:
            return f"the record {key!r} is not what was written"
        if key <= before:
            return f"the record {key!r} is not in its place"
        before = key
        tally.add(crc)
    for _, command_id, outcome, crc in connection.execute(_OUTCOMES):
        if outcome_crc(command_id, outcome) != crc:
            return f"the outcome of transaction {command_id!r} is not what was written"
        tally.add(crc)
    counters = dict(connection.execute("SELECT name, value FROM counters"))
    if counters.get("seal") != seal_of(counters):
        return "its counters are not what was written"
    if (counters["rows"], counters["sum"]) != (tally.rows, tally.sum % _SUM):
        return f"its {tally.rows} records are not the {counters['rows']} that its last change left"
    return None
