"""Results of every released version stay readable, and the document is enough to read them."""

import json
import re
from dataclasses import fields, replace
from pathlib import Path

import pytest

from danube.model.lag.group import GroupLag, groups_of
from danube.model.lag.rows import GROUPS, PARTITIONS, group_of, group_row, partition_of, partition_row
from danube.model.lag.verdict import LagCause, LagPolicy, LagVerdict
from danube.model.records.analytics import RunState, decode_record, runs_of
from tests.golden.analytics.make import FILE, lines, partitions, records
from tests.golden.analytics.reader import results

DOCUMENT = Path(__file__).parents[3] / "docs/formats/analytics.md"
GOLDEN = FILE.read_bytes().splitlines()


def test_what_is_written_today_is_what_was_written_then() -> None:
    assert lines() == FILE.read_bytes()


def test_records_of_version_1_are_read() -> None:
    assert [decode_record(line) for line in GOLDEN] == records()


def test_their_rows_are_the_values_that_they_were_made_of() -> None:
    runs = runs_of(records(), records()[-1].at_ms)
    assert [(run.run_id, run.state) for run in runs] == [("lag-7", RunState.FAILED), ("nightly", RunState.FINISHED)]
    assert [partition_of(row) for row in runs[1].tables[PARTITIONS]] == partitions()
    assert [group_of(row).topic for row in runs[1].tables[GROUPS]] == ["/default/orders"]


def test_blocked_messages_are_told_and_older_rows_do_not_tell_them() -> None:
    (older, *_) = partitions()
    assert "blocked" not in partition_row(older)
    told = replace(older, verdict=replace(older.verdict, blocked=2, cause=LagCause.BLOCKED))
    assert partition_of(partition_row(told)) == told
    (group,) = groups_of([told], LagPolicy())
    assert (group.blocked, group_of(group_row(group))) == (2, group)


def test_reader_made_from_the_document_reads_them() -> None:
    found = results(GOLDEN)
    assert list(found) == ["nightly"]
    assert [row["status"] for row in found["nightly"]["partitions"]] == ["WARN", "STOP", "NOT_KEPT"]


@pytest.mark.parametrize(
    ("section", "names"),
    [
        ("Every record", ["version", "kind", "run_id", "attempt", "job", "at_ms"]),
        ("`started`", ["as_of_ms", "time_limit_s", "window"]),
        ("`part`", ["part", "table", "rows"]),
        ("`finished`", ["parts", "rows", "totals", "window"]),
        ("`failed`", ["error", "detail"]),
        ("Rows of `partitions`", ["topic", "subscription", *(field.name for field in fields(LagVerdict))]),
        ("Rows of `groups`", [field.name for field in fields(GroupLag)]),
    ],
)
def test_document_describes_every_field_in_its_order_and_no_other(section: str, names: list[str]) -> None:
    sections = re.split(r"^##+ ", DOCUMENT.read_text(), flags=re.MULTILINE)
    described = {text.splitlines()[0]: re.findall(r"^\| `(\w+)` \|", text, re.MULTILINE) for text in sections}
    assert described[section] == names


def test_document_shows_records_that_exist() -> None:
    (shown,) = re.findall(r"```json\n(.*?)```", DOCUMENT.read_text(), flags=re.DOTALL)
    assert json.loads(shown) == json.loads(GOLDEN[-1])
