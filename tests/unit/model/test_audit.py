import json
from dataclasses import replace
from typing import Any

import pytest

from danube.model.errors import InvalidRequestError
from danube.model.limits.broker import AUDIT_TEXT_CHARS_MAX, CALLER_CHARS_MAX, CLIENT_RECEIVE_BYTES_MAX
from danube.model.plans.plan import Caller, Effect, Face, canonical
from danube.model.records.audit import (
    GENESIS,
    AuditEntry,
    AuditRecord,
    ChainCheck,
    Outcome,
    bounded,
    decode_record,
    encode_record,
    next_record,
    verify,
)

ENTRY = AuditEntry(
    caller=Caller(who="ada@desk", face=Face.MCP, client="host 1.0"),
    operation="delete_topic",
    arguments={"topic": "/default/orders"},
    effect=Effect.DESTROY,
    outcome=Outcome.REFUSED,
    plan_id="plan-0123456789ab",
    error="PLAN_WAITS",
    detail="Größe \x1b[31m \ud800",
)


def chain(length: int, *, entry: AuditEntry = ENTRY) -> list[AuditRecord]:
    records: list[AuditRecord] = []
    for sequence in range(length):
        previous = records[-1].hash if records else GENESIS
        records.append(next_record(entry, sequence=sequence, at_ms=5, keeper="7", previous=previous))
    return records


def changed(**fields: Any) -> bytes:
    """A record with some fields of another value, otherwise written as all are."""
    return canonical({**json.loads(encode_record(chain(1)[0])), **fields}).encode()


def test_a_record_reads_back_as_written() -> None:
    (record,) = chain(1)
    assert decode_record(encode_record(record)) == record


def test_a_record_is_one_line_of_ascii_without_control_characters() -> None:
    text = encode_record(chain(1)[0]).decode("ascii")
    assert text.isprintable()


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xff",
        b"[]",
        b"{}",
        b"null",
        b"[" * 100_000,
        changed(version=2),
        changed(face="phone"),
        changed(effect="explode"),
        changed(outcome="maybe"),
        changed(sequence="0"),
        changed(sequence=True),
        changed(at_ms=1.5),
        changed(who=None),
        changed(plan_id=7),
        changed(arguments=[]),
        changed(extra=1),
        encode_record(chain(1)[0]) + b"\n",
        encode_record(chain(1)[0]).replace(b",", b", ", 1),
    ],
)
def test_what_is_not_written_as_a_record_is_none(data: bytes) -> None:
    with pytest.raises(InvalidRequestError, match="not a record of the audit log, version 1"):
        decode_record(data)


def test_an_unbroken_chain_is_intact() -> None:
    verdict = verify(chain(4), previous=GENESIS)
    assert (verdict.is_intact, verdict.checked, verdict.broken_at) == (True, 4, None)


def test_nothing_is_intact() -> None:
    assert verify([]).is_intact


def test_a_part_of_a_chain_is_checked_from_the_hash_before_it() -> None:
    records = chain(4)
    assert verify(records[2:], previous=records[1].hash).is_intact
    assert verify(records[2:]).is_intact
    assert verify(records[2:], previous=records[0].hash).broken_at == 2


def test_a_chain_without_its_beginning_does_not_pass_for_a_whole_one() -> None:
    verdict = verify(chain(3)[1:], previous=GENESIS)
    assert (verdict.is_intact, verdict.broken_at, verdict.reason) == (
        False,
        1,
        "it does not follow the record before it",
    )


def test_a_chain_begins_at_its_genesis_and_only_there() -> None:
    for sequence, previous in ((0, "1" * 64), (3, GENESIS)):
        forged = next_record(ENTRY, sequence=sequence, at_ms=5, keeper="7", previous=previous)
        assert verify([forged]).broken_at == sequence


def test_a_number_left_out_is_named_though_the_hashes_fit() -> None:
    first = chain(1)[0]
    skipping = next_record(ENTRY, sequence=2, at_ms=5, keeper="7", previous=first.hash)
    verdict = verify([first, skipping])
    assert (verdict.broken_at, verdict.reason) == (2, "record 1 should stand in its place")


def test_records_that_are_lost_are_numbered_and_break_the_chain_behind_them() -> None:
    first = chain(1)[0]
    behind = next_record(ENTRY, sequence=5, at_ms=5, keeper="7", previous=first.hash)
    check = ChainCheck(start=0)
    for page in ([first], [], [behind]):
        check.add(page)
    check.end(9)
    verdict = check.verdict
    assert (verdict.checked, verdict.broken_at, verdict.reason) == (1, 5, "records 1 to 4 should stand before it")


def test_records_that_are_lost_at_the_end_break_the_chain_where_they_begin() -> None:
    check = ChainCheck(start=0)
    check.add(chain(2))
    assert check.verdict.is_intact
    check.end(2)
    assert check.verdict.is_intact
    check.end(3)
    assert (check.verdict.broken_at, check.verdict.reason) == (2, "record 2 cannot be read any more")


def test_texts_are_cut_to_their_bounds_and_still_make_a_record() -> None:
    long = "\U0001f600" * 100_000
    entry = bounded(
        AuditEntry(
            caller=Caller(who=long, face=Face.WEB, client=long),
            operation=long,
            arguments={"payload": long},
            effect=Effect.WRITE,
            outcome=Outcome.FAILED,
            plan_id=long,
            error=long,
            detail=long,
        )
    )
    record = next_record(entry, sequence=0, at_ms=5, keeper="7", previous=GENESIS)
    assert len(encode_record(record)) < CLIENT_RECEIVE_BYTES_MAX / 16
    assert (len(entry.caller.who), len(entry.caller.client)) == (CALLER_CHARS_MAX, CALLER_CHARS_MAX)
    assert len(str(entry.arguments["cut"])) == len(entry.detail) == AUDIT_TEXT_CHARS_MAX
    assert decode_record(encode_record(record)) == record


def test_an_entry_within_its_bounds_is_left_as_it_is() -> None:
    assert bounded(ENTRY) == ENTRY
    assert bounded(replace(ENTRY, plan_id=None, error=None)).error is None
