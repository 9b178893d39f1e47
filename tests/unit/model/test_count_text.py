"""Counts as people read them."""

import pytest

from danube.model.text import count_text


@pytest.mark.parametrize(
    ("count", "text"), [(0, "0 messages"), (1, "1 message"), (2, "2 messages"), (12_345, "12,345 messages")]
)
def test_only_one_of_a_thing_has_no_s(count: int, text: str) -> None:
    assert count_text(count, "message") == text
