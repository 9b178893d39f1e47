"""Runs and their results: what is half there is not shown as whole."""

import json
from dataclasses import replace

import pytest

from danube.model.errors import InvalidRequestError
from danube.model.limits.broker import MESSAGE_BYTES_MAX, NAME_BYTES_MAX
from danube.model.limits.faces import ANALYTICS_PART_ROWS_MAX, ANALYTICS_RUN_GRACE_S
from danube.model.records.analytics import (
    LAG_JOB,
    RunRecord,
    RunState,
    RunWriter,
    check_run_id,
    decode_record,
    encode_record,
    newest_result,
    runs_of,
)
from tests.golden.analytics.make import records

ROWS = [{"number": number} for number in range(2 * ANALYTICS_PART_ROWS_MAX + 1)]


def writer(attempt: str = "a", run_id: str = "nightly") -> RunWriter:
    return RunWriter(run_id=run_id, attempt=attempt, job=LAG_JOB)


def started(attempt: str = "a", at_ms: int = 0, run_id: str = "nightly", as_of_ms: int = 0) -> RunRecord:
    return writer(attempt, run_id).started(at_ms, as_of_ms=as_of_ms, time_limit_s=10, window={})


def result(attempt: str = "a", at_ms: int = 5, run_id: str = "nightly") -> list[RunRecord]:
    return writer(attempt, run_id).result(at_ms, {"numbers": ROWS}, totals={"numbers": 9_999}, window={"records": 3})


def test_a_finished_run_has_all_its_rows_in_order() -> None:
    (run,) = runs_of([started(), *result()], 100)
    assert (run.state, run.tables, run.totals, run.window) == (
        RunState.FINISHED,
        {"numbers": ROWS},
        {"numbers": 9_999},
        {"records": 3},
    )
    assert (run.started_ms, run.ended_ms) == (0, 5)


def test_parts_are_bounded_and_may_come_twice() -> None:
    told = result()
    assert [len(part.fields["rows"]) for part in told[:-1]] == [200, 200, 1]
    assert runs_of([started(), *told[:2], *told], 100) == runs_of([started(), *told], 100)


@pytest.mark.parametrize("left_out", range(3))
def test_a_run_that_lacks_a_part_is_not_shown_as_a_result(left_out: int) -> None:
    told = result()
    del told[left_out]
    assert newest_result(runs_of([started(), *told], 100), LAG_JOB) is None


def test_a_run_without_its_last_record_is_running_and_then_lost() -> None:
    told = [started(), *result()[:-1]]
    late_ms = round((10 + ANALYTICS_RUN_GRACE_S) * 1_000)
    states = [runs_of(told, at_ms)[0].state for at_ms in (0, late_ms, late_ms + 1)]
    assert states == [RunState.RUNNING, RunState.RUNNING, RunState.LOST]
    assert runs_of(told, 0)[0].tables == {}


def test_a_killed_run_that_is_made_again_has_the_rows_of_the_second_attempt_alone() -> None:
    other = writer("b").result(20, {"numbers": [{"number": -1}]}, totals={}, window={})
    (run,) = runs_of([started("a", 0), *result("a")[:-1], started("b", 10), *other], 100)
    assert (run.attempt, run.tables) == ("b", {"numbers": [{"number": -1}]})


def test_a_finished_attempt_stays_the_result_when_a_later_one_fails() -> None:
    failed = writer("b").failed(20, error="INTERNAL", detail="it broke")
    (run,) = runs_of([started("a", 0), *result("a"), started("b", 10), failed], 100)
    assert (run.attempt, run.state) == ("a", RunState.FINISHED)


def test_a_failed_run_says_why() -> None:
    (run,) = runs_of([started(), writer().failed(3, error="INTERNAL", detail="it broke")], 1_000_000)
    assert (run.state, run.detail, run.ended_ms) == (RunState.FAILED, "it broke", 3)


def test_the_newest_result_is_the_one_that_judged_the_latest_time() -> None:
    told = [started(run_id="a", as_of_ms=50), *result(run_id="a"), started(run_id="b", at_ms=9, as_of_ms=40)]
    runs = runs_of([*told, *result(run_id="b")], 100)
    newest = newest_result(runs, LAG_JOB)
    assert newest is not None
    assert newest.run_id == "a"
    assert newest_result(runs, "balance") is None


def test_records_without_the_start_of_their_run_are_left_out() -> None:
    assert runs_of(result(), 100) == []


@pytest.mark.parametrize("number", range(len(records())))
def test_a_record_that_lacks_a_field_or_has_another_type_in_it_is_skipped(number: int) -> None:
    fields = json.loads(encode_record(records()[number]))
    for name in fields:
        for changed in (
            {**fields, name: None},
            {**fields, name: True},
            {each: fields[each] for each in fields if each != name},
        ):
            assert decode_record(json.dumps(changed).encode()) is None, name


@pytest.mark.parametrize(
    "other",
    [b"", b"{", b"[]", b"\xff", b'{"version":2}', b"[" * 100_000, b'{"version":1,"kind":[]}'],
    ids=["nothing", "cut", "list", "bytes", "version", "deep", "kind"],
)
def test_what_is_no_record_is_skipped(other: bytes) -> None:
    assert decode_record(other) is None


def test_fields_that_a_later_version_adds_are_left_out() -> None:
    for record in records():
        longer = json.dumps({**json.loads(encode_record(record)), "colour": "blue"}).encode()
        assert decode_record(longer) == record


@pytest.mark.parametrize("text", ["", "-x", "../etc", "a b", "a" * 65, "a\n"])
def test_a_run_id_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(InvalidRequestError, match="run id"):
        check_run_id(text)


def test_a_part_of_the_longest_rows_fits_a_message() -> None:
    name = '"' * NAME_BYTES_MAX
    row = {**records()[1].fields["rows"][0], "topic": f"/{name}/{name}", "subscription": name}
    row |= {"worst_partition": row["topic"], "eta_partition": row["topic"]}
    fields = {"part": 0, "table": "groups", "rows": [row] * ANALYTICS_PART_ROWS_MAX}
    assert len(encode_record(replace(records()[1], fields=fields))) < MESSAGE_BYTES_MAX


@pytest.mark.parametrize("limit", [1e308, -1, 2**63, 2**48, None, True, "10"])
def test_a_time_that_no_job_tells_makes_no_record(limit: object) -> None:
    fields = json.loads(encode_record(started()))
    assert decode_record(json.dumps(fields).encode()) == started()
    for name in ("time_limit_s", "as_of_ms", "at_ms"):
        assert decode_record(json.dumps({**fields, name: limit}).encode()) is None


def test_a_run_that_says_it_has_more_parts_than_memory_is_no_result() -> None:
    told = result()
    last = replace(told[-1], fields={**told[-1].fields, "parts": 2**62})
    assert newest_result(runs_of([started(), *told[:-1], last], 100), LAG_JOB) is None
