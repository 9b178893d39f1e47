"""Texts for people, and back: counts, shares, durations, sizes, times, starts, and large numbers in JSON. Pure."""

import re
from datetime import UTC, datetime, timedelta

from danube.model.calls.stream import FetchFrom, FetchStart, FetchTime
from danube.model.errors import InvalidRequestError

START_CHARS_MAX = 40
_OFFSET_MAX = 2**63 - 1
_EXACT_MAX = 2**53 - 1
_EPOCH = datetime.fromtimestamp(0, UTC)
_SPANS_S = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3_600.0, "d": 86_400.0, "w": 7 * 86_400.0}
_SPAN_PART = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*(ms|[smhdw])\s*")
_SPAN = re.compile(f"(?:{_SPAN_PART.pattern})+")
_NUMBER = re.compile(r"[0-9]+(?:\.[0-9]+)?")
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([kmgt]i?b?|b)", re.IGNORECASE)
_POWER = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}
_DIGITS_MAX = 20
_TYPED_MAX = 2 * _DIGITS_MAX
SPAN_WORDS = "seconds, or a duration such as 90s, 1h30m, 7d, 2w"
SIZE_WORDS = "bytes, or a size such as 512KiB, 10GiB, 500MB"


def parse_start(text: str) -> FetchStart:
    """The start that a text means. Raises InvalidRequestError.

    Digits alone are an offset. A time is ISO 8601; one without a zone is UTC, and so a date is its midnight there.
    """
    word = text.strip().lower()
    if word in {each.value for each in FetchFrom}:
        return FetchFrom(word)
    if word.isascii() and word.isdigit():
        return _offset(word)
    return FetchTime(_milliseconds(text.strip()))


def start_text(start: FetchStart) -> str:
    """The start as a text that means it; two texts that mean the same become one."""
    match start:
        case FetchFrom():
            return start.value
        case FetchTime(append_time_ms):
            moment = _EPOCH + timedelta(milliseconds=append_time_ms)
            return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
        case int(offset):
            return str(offset)


def _offset(digits: str) -> int:
    if len(digits) > START_CHARS_MAX or int(digits) > _OFFSET_MAX:
        raise InvalidRequestError(f"{digits[:START_CHARS_MAX]} is above every offset: use one that the topic has")
    return int(digits)


def _milliseconds(text: str) -> int:
    found = _iso_ms(text)
    if found is None or found < 0:
        raise InvalidRequestError(
            f"{text[:START_CHARS_MAX]!r} is no start: use earliest, latest, an offset, or a time such as"
            " 2026-01-31T10:00:00Z"
        )
    return found


def _iso_ms(text: str) -> int | None:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return (moment - _EPOCH) // timedelta(milliseconds=1)


def install_text(extra: str) -> str:
    """The commands that install an extra: the one place that says how, as no index has the package."""
    return f"`pip install '.[{extra}]'` in a checkout, or `pip install 'FILE.whl[{extra}]'` with the file of the wheel"


def json_number(number: int) -> int | str:
    """A number that a client chose, in JSON: text past 2^53, where most readers of JSON would round it.

    Ids, which are 64-bit numbers, are always text; counts, offsets and our own times stay far below, and are numbers.
    """
    return number if abs(number) <= _EXACT_MAX else str(number)


def count_text(count: int, noun: str) -> str:
    """`1 message`, `12,345 messages`: of a noun whose plural takes an s."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def number_text(value: float) -> str:
    """A number for people, to four digits: `0.005116`, `12.35`, `1,235`; whole ones stay whole."""
    if abs(value) >= 1_000 or float(value).is_integer():
        return f"{value:,.0f}"
    return f"{value:.4g}"


def time_of(time_ms: float) -> str:
    """A time as people read it."""
    try:
        return datetime.fromtimestamp(time_ms / 1_000, UTC).strftime("%Y-%m-%d %H:%M:%SZ")
    except (OverflowError, ValueError, OSError):
        return f"{time_ms} ms"


def span_text(seconds: float) -> str:
    """A duration for people: `0.3 s`, `45 s`, `3 m`, `32 m 45 s`, `2 h 05 m`, `7 d`."""
    if seconds < 0:
        return f"-{span_text(-seconds)}"
    if seconds < 59.5:
        return f"{f'{seconds:.1f}'.removesuffix('.0') if seconds < 9.95 else f'{seconds:.0f}'} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} m {rest:02d} s".removesuffix(" 00 s")
    hours, minutes = divmod(minutes, 60)
    if hours < 48:
        return f"{hours} h {minutes:02d} m".removesuffix(" 00 m")
    return f"{hours / 24:.1f} d".replace(".0 d", " d")


def age_text(passed_ms: float) -> str:
    """The age of something, or the time that is left of it: whole seconds, never below none."""
    return span_text(max(0, passed_ms) // 1_000)


def size_text(count: float) -> str:
    """A number of bytes for people: `512 B`, `1.5 MiB`."""
    amount, unit = float(count), "B"
    for larger in ("KiB", "MiB", "GiB", "TiB"):
        if abs(amount) < 1024:
            break
        amount, unit = amount / 1024, larger
    return f"{count:,.0f} B" if unit == "B" else f"{amount:,.1f} {unit}"


def percent_text(share: float) -> str:
    """A share in percent: small ones with a decimal."""
    percent = 100 * share
    if 0 < percent < 0.05:
        return "<0.1 %"
    return f"{percent:.1f} %" if 0 < percent < 9.95 else f"{percent:.0f} %"


def amount_text(value: float) -> str:
    """A number in a few characters: `0.25`, `950`, `12.4k`, `3.1M`."""
    for unit in ("", "k", "M", "G"):
        if abs(value) < 999.5:
            return f"{value:.3g}{unit}"
        value /= 1_000
    return f"{value:,.0f}T"


def seconds_of(text: str) -> float:
    """Seconds of a duration; digits alone are seconds. Raises InvalidRequestError."""
    typed = text.strip().lower()
    if len(typed) <= _TYPED_MAX and _NUMBER.fullmatch(typed):
        return float(typed)
    if len(typed) > _TYPED_MAX or not _SPAN.fullmatch(typed):
        raise InvalidRequestError(f"{text[:40]!r} is no duration: give {SPAN_WORDS}")
    return round(sum(float(count) * _SPANS_S[unit] for count, unit in _SPAN_PART.findall(typed)), 6)


def span_s(text: str) -> int:
    """Whole seconds of a duration. Raises InvalidRequestError."""
    seconds = seconds_of(text)
    if seconds != int(seconds):
        raise InvalidRequestError(f"{text[:40]!r} is no whole number of seconds: give {SPAN_WORDS}")
    return int(seconds)


def span_ms(text: str) -> int:
    """Milliseconds of a duration; digits alone are milliseconds. Raises InvalidRequestError."""
    typed = text.strip()
    return round(1_000 * seconds_of(f"{typed}ms" if typed.isascii() and typed.isdigit() else typed))


def moment_ms(text: str) -> int:
    """Milliseconds of a time: ISO 8601 (UTC where it names no zone), or digits. Raises InvalidRequestError."""
    typed = text.strip()
    if typed.isascii() and typed.isdigit() and len(typed) <= _DIGITS_MAX:
        return int(typed)
    found = _iso_ms(typed)
    if found is None:
        raise InvalidRequestError(
            f"{text[:40]!r} is not a time: write 2026-01-31T12:00:00Z, or milliseconds since 1970"
        )
    return found


def size_bytes(text: str) -> int:
    """Bytes of a size; `KB` is a thousand of them and `KiB` or `K` 1,024. Raises InvalidRequestError."""
    typed = text.strip().lower()
    if typed.isascii() and typed.isdigit() and len(typed) <= _DIGITS_MAX:
        return int(typed)
    found = _SIZE.fullmatch(typed) if len(typed) <= _TYPED_MAX else None
    if found is None:
        raise InvalidRequestError(f"{text[:40]!r} is no size: give {SIZE_WORDS}")
    unit = found[2].removesuffix("b")
    base = 1_000 if found[2].endswith("b") and "i" not in found[2] else 1_024
    return round(float(found[1]) * float(base) ** _POWER[unit.removesuffix("i")])
