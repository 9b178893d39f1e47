"""Whatever is done to a chain of records anywhere but at its end is found, and named."""

from dataclasses import fields, replace
from typing import Any

from hypothesis import assume, given
from hypothesis import strategies as st

from danube.model.plans.plan import Caller, Effect, Face
from danube.model.records.audit import (
    GENESIS,
    AuditEntry,
    AuditRecord,
    Origin,
    Outcome,
    decode_record,
    encode_record,
    next_record,
    verify,
)

VALUES = st.none() | st.integers(-(2**63), 2**64 - 1) | st.text(max_size=5)
TEXTS = st.text(max_size=8)
CALLERS = st.builds(Caller, who=TEXTS, face=st.sampled_from(Face), client=TEXTS)
ENTRIES = st.builds(
    AuditEntry,
    caller=CALLERS,
    operation=TEXTS,
    arguments=st.dictionaries(TEXTS, VALUES, max_size=2),
    effect=st.sampled_from(Effect),
    outcome=st.sampled_from(Outcome),
    plan_id=st.none() | TEXTS,
    error=st.none() | TEXTS,
    detail=TEXTS,
)
OTHERS: dict[str, st.SearchStrategy[Any]] = {
    "sequence": st.integers(0, 20),
    "at_ms": st.integers(0, 20),
    "keeper": TEXTS,
    "entry": ENTRIES,
    "origin": st.none() | st.sampled_from(Origin),
    "previous": st.text("0123456789abcdef", min_size=64, max_size=64),
    "hash": st.text("0123456789abcdef", min_size=64, max_size=64),
}


@st.composite
def chains(draw: st.DrawFn) -> list[AuditRecord]:
    records: list[AuditRecord] = []
    for sequence, entry in enumerate(draw(st.lists(ENTRIES, min_size=2, max_size=6))):
        previous = records[-1].hash if records else GENESIS
        at_ms = draw(st.integers(0, 2**48))
        origin = draw(st.none() | st.sampled_from(Origin))
        records.append(next_record(entry, sequence=sequence, at_ms=at_ms, keeper="7", previous=previous, origin=origin))
    return records


@given(chains())
def test_what_was_written_is_intact_and_reads_back(records: list[AuditRecord]) -> None:
    assert verify(records, previous=GENESIS).is_intact
    assert [decode_record(encode_record(record)) for record in records] == records


@given(chains(), st.data())
def test_a_record_with_any_field_changed_is_named(records: list[AuditRecord], data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(records) - 1))
    name = data.draw(st.sampled_from([field.name for field in fields(AuditRecord)]))
    forged = replace(records[at], **{name: data.draw(OTHERS[name])})
    assume(encode_record(forged) != encode_record(records[at]))
    verdict = verify([*records[:at], forged, *records[at + 1 :]], previous=GENESIS)
    assert (verdict.is_intact, verdict.checked, verdict.broken_at) == (False, at, forged.sequence)


@given(chains(), ENTRIES, st.data())
def test_a_record_forged_with_a_hash_of_its_own_breaks_the_next_one(
    records: list[AuditRecord], entry: AuditEntry, data: st.DataObject
) -> None:
    at = data.draw(st.integers(0, len(records) - 2))
    old = records[at]
    forged = next_record(entry, sequence=at, at_ms=old.at_ms, keeper=old.keeper, previous=old.previous)
    assume(forged != old)
    verdict = verify([*records[:at], forged, *records[at + 1 :]], previous=GENESIS)
    assert (verdict.checked, verdict.broken_at) == (at + 1, at + 1)


@given(chains(), st.data())
def test_a_record_that_is_missing_is_named_by_the_next_one(records: list[AuditRecord], data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(records) - 2))
    verdict = verify([*records[:at], *records[at + 1 :]], previous=GENESIS)
    assert (verdict.is_intact, verdict.checked, verdict.broken_at) == (False, at, at + 1)


@given(chains(), ENTRIES, st.data())
def test_a_record_put_in_between_is_named_or_the_one_behind_it(
    records: list[AuditRecord], entry: AuditEntry, data: st.DataObject
) -> None:
    at = data.draw(st.integers(0, len(records) - 1))
    sequence = data.draw(st.integers(0, len(records)))
    extra = next_record(entry, sequence=sequence, at_ms=1, keeper="7", previous=records[at].previous)
    verdict = verify([*records[:at], extra, *records[at:]], previous=GENESIS)
    assert not verdict.is_intact
    assert verdict.checked in {at, at + 1}
    assert verdict.broken_at in {sequence, at}


@given(chains(), st.data())
def test_records_that_changed_places_are_named(records: list[AuditRecord], data: st.DataObject) -> None:
    first, second = sorted(data.draw(st.sets(st.integers(0, len(records) - 1), min_size=2, max_size=2)))
    swapped = [*records]
    swapped[first], swapped[second] = records[second], records[first]
    verdict = verify(swapped, previous=GENESIS)
    assert (verdict.is_intact, verdict.checked, verdict.broken_at) == (False, first, second)
