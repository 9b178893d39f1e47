"""What goes over the lines between a member and its judge comes out as it went in."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from danube.metadata.store import (
    Changed,
    Condition,
    Delete,
    DeletePrefix,
    Entry,
    Put,
    Removed,
    Resync,
    SnapshotEnd,
    Transaction,
    WatchEvent,
)
from lab.metadata.wire import (
    encode,
    pack_entry,
    pack_event,
    pack_transaction,
    unpack_entry,
    unpack_event,
    unpack_transaction,
)

keys, numbers = st.text(max_size=5), st.integers(0, 2**60)
entries = st.builds(Entry, keys, st.binary(max_size=5), numbers, numbers, numbers)
writes = st.one_of(
    st.builds(Put, keys, st.binary(max_size=5), numbers), st.builds(Delete, keys), st.builds(DeletePrefix, keys)
)
transactions = st.builds(
    Transaction,
    keys,
    st.lists(st.builds(Condition, keys, numbers), max_size=2).map(tuple),
    st.lists(writes, max_size=3).map(tuple),
)


def over_the_line(packed: Any) -> Any:
    return json.loads(encode([packed]))[0]


@given(entries)
def test_an_entry_comes_out_as_it_went_in(entry: Entry) -> None:
    assert unpack_entry(over_the_line(pack_entry(entry))) == entry


def test_no_entry_is_none() -> None:
    assert unpack_entry(over_the_line(pack_entry(None))) is None


@given(transactions)
def test_a_transaction_comes_out_as_it_went_in(transaction: Transaction) -> None:
    assert unpack_transaction(over_the_line(pack_transaction(transaction))) == transaction


@pytest.mark.parametrize(
    "event", [Changed(Entry("/a", b"\xff\n", 1, 2, 3)), Removed("/a", 4), SnapshotEnd(5), Resync()], ids=repr
)
def test_an_event_comes_out_as_it_went_in(event: WatchEvent) -> None:
    assert unpack_event(over_the_line(pack_event(event))) == event
