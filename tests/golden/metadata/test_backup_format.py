"""Backups of every released format must open for ever, and be as they are described."""

from dataclasses import asdict, astuple

from danube.metadata.backup.format import decode_backup, encode_backup
from tests.golden.metadata.make import BACKUP, ENTRIES, FILE, LEASES, OUTCOMES
from tests.golden.metadata.reader import read_backup


def test_a_backup_that_was_written_then_holds_what_it_did() -> None:
    assert decode_backup(FILE.read_bytes(), FILE.name) == BACKUP


def test_a_backup_that_is_written_now_is_read_as_the_page_says() -> None:
    origin, head, parts = read_backup(b"".join(encode_backup(BACKUP)))
    assert origin == asdict(BACKUP.origin) | {"members": list(BACKUP.origin.members)}
    counts = {"entries": len(ENTRIES), "leases": len(LEASES), "outcomes": len(OUTCOMES)}
    assert head == {"revision": BACKUP.snapshot.revision, "last_lease_id": 5, **counts}
    rows = {name: [row for part in parts for row in part.get(name, ())] for name in counts}
    assert rows["entries"] == [list(astuple(entry)) for entry in ENTRIES]
    assert rows["leases"] == [list(astuple(lease)) for lease in LEASES]
    assert [row[0] for row in rows["outcomes"]] == [name for name, _ in OUTCOMES]


def test_what_was_written_then_is_as_the_page_says_too() -> None:
    assert read_backup(FILE.read_bytes()) == read_backup(b"".join(encode_backup(BACKUP)))
