"""Pages of a listing."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from danube.admin.operations.fields import PageParams
from danube.admin.operations.paging import cursor_after, key_of, page_of
from danube.model.errors import InvalidRequestError

names = st.lists(st.text(min_size=1, max_size=20), unique=True, max_size=40).map(sorted)


@given(rows=names, limits=st.lists(st.integers(1, 9), min_size=1, max_size=5))
def test_pages_joined_are_all_rows_whatever_the_limits(rows: list[str], limits: list[int]) -> None:
    joined: list[str] = []
    cursor: str | None = None
    for turn in range(len(rows) + 1):
        limit = limits[turn % len(limits)]
        page, cursor = page_of(rows, str, PageParams(limit=limit, cursor=cursor))
        assert len(page) <= limit
        joined += page
        if cursor is None:
            break
    assert joined == rows


@given(rows=names, gone=st.integers(0, 39))
def test_a_row_that_went_between_two_pages_takes_no_other_with_it(rows: list[str], gone: int) -> None:
    first, cursor = page_of(rows, str, PageParams(limit=1))
    left = [row for row in rows if row not in {*first, *rows[gone : gone + 1]}]
    if cursor is not None:
        assert page_of(left, str, PageParams(cursor=cursor))[0] == left


@given(key=st.text(min_size=1, max_size=60))
def test_a_cursor_leads_back_to_its_key_and_needs_no_quoting(key: str) -> None:
    cursor = cursor_after(key)
    assert key_of(cursor) == key
    assert cursor.replace("-", "").replace("_", "").isalnum()


@pytest.mark.parametrize("cursor", ["a", "ä", "/w==", "gA"])
def test_a_cursor_that_no_listing_gave_out_is_refused(cursor: str) -> None:
    with pytest.raises(InvalidRequestError, match="start again without one"):
        page_of(["a"], str, PageParams(cursor=cursor))


def test_without_a_limit_everything_is_one_page() -> None:
    assert page_of(["a", "b"], str, PageParams()) == (["a", "b"], None)
