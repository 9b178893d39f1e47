"""Pages of every listing: put together they are the whole, whatever bounds them."""

import random
from dataclasses import replace
from enum import Enum
from typing import Any, get_args, get_origin

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel

from danube.admin.access import Guard
from danube.admin.mcp import answers
from danube.admin.mcp.tool_catalogue import ToolCatalogue
from danube.admin.operations import REGISTRY
from danube.admin.operations.fields import PageParams, PageResult, Result, row_type
from danube.admin.operations.operation import AnyOperation, Call, Listing
from danube.admin.operations.paging import Key, cursor_after, key_of, page_of
from danube.model.errors import InvalidRequestError
from danube.model.lag.verdict import LagCause, LagStatus
from danube.model.limits.faces import CURSOR_CHARS_MAX
from danube.model.plans.plan import Caller, Face
from danube.runtime.clock import SystemClock
from tests.faces.memory_gateway import MemoryGateway

PAGED = {operation.name: operation for operation in REGISTRY if operation.pages is not None}
CATALOGUE = ToolCatalogue(guard=Guard())
LETTERS = 'aaaaabcdefghij0123456789/-_.:üß漢😀\n"'
keys = st.tuples(st.integers(-9, 9), st.text(max_size=20))
rows = st.lists(keys, unique=True, max_size=40)
OF_LAG: dict[str, list[str]] = {"status": [*map(str, LagStatus)], "cause": [*map(str, LagCause)]}


def itself(key: Key) -> Key:
    return key


class Maker:
    """Values of any type that rows have, by a seed."""

    def __init__(self, seed: int) -> None:
        self._seeded = random.Random(seed)

    def rows(self, operation: AnyOperation, listing: Listing) -> list[Result]:
        """All rows there are, in any order."""
        made = [self.value(row_type(operation.result, listing.rows)) for _ in range(self._seeded.randrange(20))]
        return [*{listing.key(row): row for row in made}.values()]

    def number(self, least: int, most: int) -> int:
        return self._seeded.randint(least, most)

    def value(self, kind: Any, name: str = "") -> Any:
        arguments = get_args(kind)
        if name in OF_LAG and kind in {str, str | None}:
            return self._seeded.choice(OF_LAG[name])
        if get_origin(kind) is list:
            return [self.value(arguments[0]) for _ in range(self.number(0, 2))]
        if arguments and get_origin(kind) is not dict:
            return self.value(arguments[0])
        if isinstance(kind, type) and issubclass(kind, Enum):
            return self._seeded.choice([*kind])
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            return kind(**{name: self.value(info.annotation, name) for name, info in kind.model_fields.items()})
        if kind is str:
            return "".join(self._seeded.choices(LETTERS, k=self.number(0, 60)))
        return {int: self.number(0, 10**6), float: self._seeded.random(), bool: True}.get(kind, {})


@pytest.mark.parametrize("name", sorted(PAGED))
@settings(max_examples=4, deadline=None)
@given(seed=st.integers(0, 2**32))
async def test_pages_put_together_are_the_whole_over_any_bound_of_rows_and_bytes(name: str, seed: int) -> None:
    operation, listing, maker = PAGED[name], PAGED[name].pages, Maker(seed)
    assert listing is not None
    every = maker.rows(operation, listing)
    others = {name: info for name, info in operation.result.model_fields.items() if name not in PageResult.model_fields}
    made = {name: maker.value(info.annotation) for name, info in others.items() if name != listing.rows}
    whole = operation.result(**made, **{listing.rows: every}, **({"total": 0} if listing.is_report else {}))
    call = Call(gateway=MemoryGateway(), clock=SystemClock(), caller=Caller(who="ada", face=Face.MCP))
    seen, cursor, bytes_max = 0, None, maker.number(12_000, 30_000)
    for _ in range(len(every) + 1):
        params = PageParams(limit=maker.number(1, 15), cursor=cursor)
        page = await replace(listing, fill=None).page(call, params, whole)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(answers, "_BYTES_MAX", bytes_max)
            answer = answers.answer_of(operation, page, CATALOGUE)
        told = answer.structured_content
        assert told is not None, answer.content
        assert told["total"] == len(every)
        seen, cursor = seen + len(told[listing.rows]), told["next_cursor"]
        if cursor is None:
            break
        assert cursor == cursor_after(listing.key(sorted(every, key=listing.key)[seen - 1]))
    assert seen == len(every)


@given(rows=rows, limits=st.lists(st.integers(1, 9), min_size=1, max_size=5))
def test_pages_joined_are_all_rows_whatever_the_limits(rows: list[Key], limits: list[int]) -> None:
    joined: list[Key] = []
    cursor: str | None = None
    for turn in range(len(rows) + 1):
        limit = limits[turn % len(limits)]
        page, cursor = page_of(rows, itself, limit, cursor)
        assert len(page) <= limit
        joined += page
        if cursor is None:
            break
    assert joined == sorted(rows)


@given(rows=rows, gone=st.integers(0, 39))
def test_a_row_that_went_between_two_pages_takes_no_other_with_it(rows: list[Key], gone: int) -> None:
    first, cursor = page_of(rows, itself, 1, None)
    left = [row for row in sorted(rows) if row not in {*first, *sorted(rows)[gone : gone + 1]}]
    if cursor is not None:
        assert page_of(left, itself, None, cursor)[0] == left


@given(key=keys)
def test_a_cursor_leads_back_to_its_key_and_needs_no_quoting(key: Key) -> None:
    cursor = cursor_after(key)
    assert key_of(cursor) == key
    assert cursor.replace("-", "").replace("_", "").isalnum()


def test_a_cursor_holds_the_longest_series() -> None:
    series = f'danube_subscription_lag_messages{{subscription="{"ß" * 300}", topic="/{"ü" * 300}/{"ö" * 300}"}}'
    assert len(cursor_after((series,))) <= CURSOR_CHARS_MAX


@pytest.mark.parametrize("cursor", ["a", "ä", "/w==", "gA", "W10", "Wzt9", cursor_after(("a",)), "W1tbW1tb" * 900])
def test_a_cursor_that_this_listing_did_not_give_out_is_refused(cursor: str) -> None:
    with pytest.raises(InvalidRequestError, match="start again without one"):
        page_of([(1, "a")], itself, None, cursor)


def test_without_a_limit_everything_is_one_page_in_order() -> None:
    assert page_of([(2, "b"), (10, "a")], itself, None, None) == ([(2, "b"), (10, "a")], None)
