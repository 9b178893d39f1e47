"""Where to begin, as people write it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from danube.model.calls.stream import FetchFrom, FetchStart, FetchTime
from danube.model.errors import InvalidRequestError
from danube.model.text import parse_start, start_text

NOON = FetchTime(1_769_860_800_000)


@pytest.mark.parametrize(
    ("text", "start"),
    [
        ("earliest", FetchFrom.EARLIEST),
        (" Latest ", FetchFrom.LATEST),
        ("0", 0),
        ("20260131", 20_260_131),
        ("2026-01-31T12:00:00Z", NOON),
        ("2026-01-31T13:00:00+01:00", NOON),
        ("2026-01-31 12:00", NOON),
        ("2026-01-31", FetchTime(NOON.append_time_ms - 12 * 3_600_000)),
    ],
)
def test_a_text_means_one_start(text: str, start: FetchStart) -> None:
    assert parse_start(text) == start


@pytest.mark.parametrize(
    "text", ["", "soon", "-1", "1.5", "٣", "1969-12-31", "0001-01-01T00:00:00+05:00", "2026-13-01"]
)
def test_what_means_no_start_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(InvalidRequestError, match="earliest, latest, an offset, or a time such as"):
        parse_start(text)


def test_an_offset_above_all_offsets_is_refused() -> None:
    with pytest.raises(InvalidRequestError, match="above every offset"):
        parse_start("9" * 5_000)


@given(
    st.one_of(
        st.sampled_from(FetchFrom),
        st.integers(0, 2**63 - 1),
        st.integers(0, 253_370_764_800_000).map(FetchTime),
    )
)
def test_a_start_is_read_back_from_its_text(start: FetchStart) -> None:
    assert parse_start(start_text(start)) == start
