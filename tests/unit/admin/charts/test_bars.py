"""Bars of characters, and numbers in few of them."""

import pytest

from danube.admin.bars import FULL, TRACK, UNKNOWN_CELL, amount_text, bytes_text, drawn_bar, percent_text, seconds_text


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


def test_numbers_are_written_as_people_say_them() -> None:
    assert [percent_text(share) for share in (0, 0.0001, 0.0321, 0.0999, 0.71, 1.2)] == [
        "0 %",
        "<0.1 %",
        "3.2 %",
        "10 %",
        "71 %",
        "120 %",
    ]
    amounts = (0, 12, 999.4, 999.6, 12_400, 3.1e6, 5e9, 2e12, 7e15)
    assert [amount_text(each) for each in amounts] == [
        "0",
        "12",
        "999",
        "1.0k",
        "12.4k",
        "3.1M",
        "5.0G",
        "2.0T",
        "7,000.0T",
    ]
    assert [bytes_text(each) for each in (0, 1023, 1536, 5 * 2**20, 3 * 2**40)] == [
        "0 B",
        "1,023 B",
        "1.5 KiB",
        "5.0 MiB",
        "3.0 TiB",
    ]
    assert [seconds_text(each) for each in (0.2, 45, 180, 7_300)] == ["0.2 s", "45 s", "3 min", "2 h"]
