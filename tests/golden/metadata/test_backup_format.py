"""Backups of every released format must open for ever, and be as they are described."""

from dataclasses import asdict, astuple

from danube.metadata.backup.format import decode_backup, encode_backup
from tests.golden.metadata.make import BACKUP, ENTRIES, FILE, LEASES, OUTCOMES
from tests.golden.metadata.reader import read_backup


def test_a_backup_that_was_written_then_holds_what_it_did() -> None:
    assert decode_backup(FILE.read_bytes(), FILE.name) == BACKUP


def test_a_backup_that_is_written_now_is_read_as_the_page_says() -> None:
    origin, first, rows = read_backup(b"".join(encode_backup(BACKUP)))
    assert origin == asdict(BACKUP.origin) | {"members": list(BACKUP.origin.members)}
    assert first == [BACKUP.snapshot.revision, 5, len(ENTRIES), len(LEASES), len(OUTCOMES)]
    assert rows[: len(ENTRIES)] == [list(astuple(entry)) for entry in ENTRIES]
    assert rows[len(ENTRIES) : -len(OUTCOMES)] == [list(astuple(lease)) for lease in LEASES]
    assert [row[0] for row in rows[-len(OUTCOMES) :]] == [name for name, _ in OUTCOMES]


def test_what_was_written_then_is_as_the_page_says_too() -> None:
    assert read_backup(FILE.read_bytes()) == read_backup(b"".join(encode_backup(BACKUP)))
