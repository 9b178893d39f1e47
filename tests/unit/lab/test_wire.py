"""What goes over the lines between a member and its judge comes out as it went in."""

from collections.abc import Sequence
from typing import Any

import pytest

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
)
from lab.metadata.wire import CalledStore, decode, encode

ENTRY = Entry("/a", b"\xff\n", 1, 2, 3)


@pytest.mark.parametrize(
    "value",
    [
        None,
        [ENTRY],
        Transaction("id", (Condition("/a", 2),), (Put("/a", b"\n", 3), Delete("/b"), DeletePrefix("/c"))),
        Changed(ENTRY),
        Removed("/a", 4),
        SnapshotEnd(5),
        Resync(),
    ],
    ids=repr,
)
def test_a_value_comes_out_as_it_went_in(value: object) -> None:
    line = encode((1, "ok", value))
    assert line.count(b"\n") == 1
    assert decode(line) == (1, "ok", value)


def test_a_line_that_a_death_tore_is_none() -> None:
    with pytest.raises(ValueError, match="torn"):
        decode(encode((1, "ok", ENTRY))[:-3])


class Called(CalledStore):
    """Notes its calls."""

    def __init__(self) -> None:
        self.calls: list[Sequence[Any]] = []

    async def call(self, method: str, *arguments: Any, **named: Any) -> Any:
        self.calls.append((method, *arguments, named))
        return 7


async def test_writes_are_transactions() -> None:
    store = Called()
    assert await store.put("/a", b"1", lease_id=3) == 7
    assert await store.compare_and_set("/a", b"2", revision=5) == 7
    await store.delete("/a")
    await store.get("/a", linearizable=True)
    assert store.calls == [
        ("transact", Transaction("", (), (Put("/a", b"1", 3),)), {}),
        ("transact", Transaction("", (Condition("/a", 5),), (Put("/a", b"2"),)), {}),
        ("transact", Transaction("", (), (Delete("/a"),)), {}),
        ("get", "/a", {"linearizable": True}),
    ]
