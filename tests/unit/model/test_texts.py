"""Numbers, durations, sizes and times as every face writes and reads them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from danube.model.errors import InvalidRequestError
from danube.model.text import (
    age_text,
    amount_text,
    count_text,
    moment_ms,
    percent_text,
    seconds_of,
    size_bytes,
    size_text,
    span_ms,
    span_s,
    span_text,
    time_of,
)

KIB = 1_024


@pytest.mark.parametrize(
    ("count", "text"), [(0, "0 messages"), (1, "1 message"), (2, "2 messages"), (12_345, "12,345 messages")]
)
def test_only_one_of_a_thing_has_no_s(count: int, text: str) -> None:
    assert count_text(count, "message") == text


@pytest.mark.parametrize(
    ("share", "text"),
    [(0, "0 %"), (0.0001, "<0.1 %"), (0.0321, "3.2 %"), (0.0999, "10 %"), (0.71, "71 %"), (1.2, "120 %")],
)
def test_shares_for_people(share: float, text: str) -> None:
    assert percent_text(share) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (999.4, "999"),
        (0.25, "0.25"),
        (999.6, "1k"),
        (12_400, "12.4k"),
        (3.1e6, "3.1M"),
        (5e9, "5G"),
        (7e15, "7,000T"),
    ],
)
def test_amounts_for_people(value: float, text: str) -> None:
    assert amount_text(value) == text


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 B"), (1023, "1,023 B"), (1536, "1.5 KiB"), (5 * KIB**2, "5.0 MiB"), (3 * KIB**4, "3.0 TiB")],
)
def test_sizes_for_people(count: int, text: str) -> None:
    assert size_text(count) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"),
        (0.25, "0.2 s"),
        (2.0, "2 s"),
        (45.4, "45 s"),
        (59.9, "1 m"),
        (61, "1 m 01 s"),
        (180, "3 m"),
        (3_599, "59 m 59 s"),
        (3_599.8, "1 h"),
        (3_660, "1 h 01 m"),
        (7_200, "2 h"),
        (864_000, "10 d"),
        (-90, "-1 m 30 s"),
    ],
)
def test_durations_for_people(seconds: float, text: str) -> None:
    assert span_text(seconds) == text


def test_an_age_has_whole_seconds_and_is_never_negative() -> None:
    assert [age_text(ms) for ms in (-5, 999, 2_400, 200_000)] == ["0 s", "0 s", "2 s", "3 m 20 s"]


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90", 90), ("90s", 90), ("1h30m", 5_400), ("7d", 604_800), ("2 w", 1_209_600), ("1.5h", 5_400), ("4.1m", 246)],
)
def test_durations_are_read_with_their_units(text: str, seconds: int) -> None:
    assert span_s(text) == seconds
    assert seconds_of(text) == seconds


def test_parts_of_a_second_are_read_where_they_count() -> None:
    assert [seconds_of(text) for text in ("0.5", "500ms", "1s 500ms")] == [0.5, 0.5, 1.5]
    assert [span_ms(text) for text in ("250", "0.5s", "1m", "20 ms")] == [250, 500, 60_000, 20]
    with pytest.raises(InvalidRequestError, match="no whole number of seconds"):
        span_s("500ms")


@given(seconds=st.integers(0, 10**7))
def test_a_duration_that_was_written_is_read_again_within_its_last_digit(seconds: int) -> None:
    assert abs(seconds_of(span_text(seconds)) - seconds) <= (
        0 if seconds < 3_600 else 59 if seconds < 172_800 else 8_640
    )


@pytest.mark.parametrize(
    ("text", "count"),
    [("512", 512), ("512KiB", 524_288), ("10GiB", 10 * 2**30), ("500MB", 500_000_000), ("1.5k", 1_536), ("3 b", 3)],
)
def test_sizes_are_read_with_their_units(text: str, count: int) -> None:
    assert size_bytes(text) == count


@pytest.mark.parametrize("text", ["", "7x", "-1d", "1e9", "d7", "9" * 50, "\u0661", "5 weeks", "nan s", "m"])
def test_what_is_no_measure_is_refused(text: str) -> None:
    for read in (span_s, seconds_of, span_ms, size_bytes):
        with pytest.raises(InvalidRequestError):
            read(text)


@pytest.mark.parametrize(
    "text", ["2025-06-15T15:06:40Z", "2025-06-15T15:06:40", "2025-06-15T17:06:40+02:00", "1750000000000"]
)
def test_times_are_read_as_they_are_written(text: str) -> None:
    assert moment_ms(text) == 1_750_000_000_000
    assert moment_ms(time_of(moment_ms(text))) == 1_750_000_000_000


def test_a_time_that_is_none_is_refused() -> None:
    with pytest.raises(InvalidRequestError, match="not a time"):
        moment_ms("yesterday")
