"""Times as people type them: `15m`, `2026-01-31T12:00:00Z`."""

import re
from datetime import UTC, datetime

from danube.model.errors import InvalidRequestError

_UNITS_S = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3_600.0, "d": 86_400.0}
_SPAN = re.compile(r"(?P<count>\d+(?:\.\d+)?)(?P<unit>ms|s|m|h|d)")


def time_text(at_ms: int) -> str:
    """A time in UTC, as people read it."""
    return datetime.fromtimestamp(at_ms / 1_000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def seconds_of(text: str) -> float:
    """A span such as `90s`, `15m`, `2h` or `1d`. Raises InvalidRequestError."""
    match = _SPAN.fullmatch(text.strip())
    if match is None:
        raise InvalidRequestError(f"{text[:40]!r} is not a span of time: write 90s, 15m, 2h or 1d")
    return float(match["count"]) * _UNITS_S[match["unit"]]


def moment_ms(text: str) -> int:
    """ISO 8601 (UTC where it names no zone), or milliseconds since 1970. Raises InvalidRequestError."""
    if text.strip().isdecimal():
        return int(text)
    try:
        moment = datetime.fromisoformat(text.strip())
    except ValueError:
        raise InvalidRequestError(
            f"{text[:40]!r} is not a time: write 2026-01-31T12:00:00Z, or milliseconds since 1970"
        ) from None
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return round(moment.timestamp() * 1_000)
