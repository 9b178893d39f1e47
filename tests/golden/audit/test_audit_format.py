"""The audit log of every released version stays readable, and the document is enough to verify it."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from danube.model.limits.broker import AUDIT_TEXT_CHARS_MAX
from danube.model.records.audit import GENESIS, decode_record, verify
from tests.golden.audit.make import FILE, ORIGINS_FILE, lines, records

DOCUMENT = (Path(__file__).parents[3] / "docs/formats/audit.md").read_text()
GOLDEN = FILE.read_bytes().splitlines(keepends=True)
WITH_ORIGIN = ORIGINS_FILE.read_bytes().splitlines(keepends=True)
(PROGRAM,) = re.findall(r"```python\n(.*?)```", DOCUMENT, flags=re.DOTALL)


def run_program(stored: list[bytes]) -> tuple[int, str]:
    """How the document's program ends on these records, and what it says."""
    ended = subprocess.run(
        [sys.executable, "-I", "-c", PROGRAM], input=b"".join(stored), capture_output=True, check=False
    )
    return ended.returncode, (ended.stdout + ended.stderr).decode().strip()


def test_what_is_written_today_is_what_was_written_then() -> None:
    assert lines() == FILE.read_bytes()
    assert lines(with_origin=True) == ORIGINS_FILE.read_bytes()


def test_records_of_version_1_are_read_and_intact() -> None:
    for stored, has_origin in ((GOLDEN, False), (WITH_ORIGIN, True)):
        found = [decode_record(line.rstrip()) for line in stored]
        assert found == records(with_origin=has_origin)
        assert verify(found, previous=GENESIS).is_intact


def test_program_in_the_document_verifies_them() -> None:
    assert len(PROGRAM.splitlines()) <= 15
    assert run_program(GOLDEN) == (0, f"3 records, the last with hash {records()[-1].hash}")
    last = records(with_origin=True)[-1]
    assert run_program(WITH_ORIGIN) == (0, f"3 records, the last with hash {last.hash}")


@pytest.mark.parametrize(
    ("stored", "broken_at"),
    [
        ([GOLDEN[0], GOLDEN[1].replace(b"Rechnung", b"Mahnung"), GOLDEN[2]], 1),
        ([GOLDEN[1], GOLDEN[2]], 1),
        ([GOLDEN[0], GOLDEN[2], GOLDEN[1]], 2),
        ([GOLDEN[0], GOLDEN[0], GOLDEN[1]], 0),
    ],
)
def test_program_in_the_document_names_the_record_that_does_not_fit(stored: list[bytes], broken_at: int) -> None:
    assert run_program(stored) == (1, f"broken at record {broken_at}")


def test_document_describes_every_field_in_its_order_and_no_other() -> None:
    assert re.findall(r"^\| `(\w+)` \|", DOCUMENT, re.MULTILINE) == list(json.loads(WITH_ORIGIN[0]))


def test_document_shows_a_record_that_exists() -> None:
    (shown,) = re.findall(r"```json\n(.*?)```", DOCUMENT, flags=re.DOTALL)
    assert json.loads(shown) == json.loads(WITH_ORIGIN[1])


def test_document_names_the_bound_of_texts() -> None:
    assert DOCUMENT.count(f"{AUDIT_TEXT_CHARS_MAX:,} characters") == 2
