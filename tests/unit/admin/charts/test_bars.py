"""Bars of characters."""

import pytest

from danube.admin.bars import FULL, TRACK, UNKNOWN_CELL, drawn_bar


@pytest.mark.parametrize("share", [None, -1.0, 0.0, 0.001, 0.333, 0.5, 0.999, 1.0, 7.0, float("nan"), float("inf")])
def test_a_bar_has_exactly_its_width_whatever_its_share(share: float | None) -> None:
    for width in (1, 2, 7, 40):
        filled, track = drawn_bar(share, width)
        assert len(filled) + len(track) == width


def test_a_bar_says_nothing_little_half_and_all_apart() -> None:
    assert drawn_bar(0.0, 4) == ("", TRACK * 4)
    assert drawn_bar(0.0001, 4) == ("▏", TRACK * 3)
    assert drawn_bar(0.5, 4) == (FULL * 2, TRACK * 2)
    assert drawn_bar(1.0, 4) == (FULL * 4, "")
    assert drawn_bar(None, 4) == ("", UNKNOWN_CELL * 4)
