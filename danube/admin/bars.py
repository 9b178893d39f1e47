"""Bars of characters, and numbers in a few of them; they read the same without colours. Pure."""

import math

FULL, TRACK, UNKNOWN_CELL = "█", "░", "·"
_EIGHTHS = " ▏▎▍▌▋▊▉"


def drawn_bar(share: float | None, width: int) -> tuple[str, str]:
    """The filled part, and the track behind it, together `width` cells; a small share is never drawn as nothing."""
    if share is None:
        return "", UNKNOWN_CELL * width
    eighths = round(clamped(share) * width * 8)
    eighths = max(eighths, 1) if share > 0 else eighths
    full, rest = divmod(eighths, 8)
    filled = FULL * full + (_EIGHTHS[rest] if rest else "")
    return filled, TRACK * (width - len(filled))


def clamped(share: float) -> float:
    """The share within 0 and 1; what is no number is 0."""
    return min(max(share, 0.0), 1.0) if math.isfinite(share) else 0.0


def percent_text(share: float) -> str:
    """A share in percent: small ones with a decimal."""
    percent = 100 * share
    if 0 < percent < 0.05:
        return "<0.1 %"
    return f"{percent:.1f} %" if 0 < percent < 9.95 else f"{percent:.0f} %"


def amount_text(value: float) -> str:
    """A number in a few characters: `950`, `12.4k`, `3.1M`."""
    for unit in ("", "k", "M", "G"):
        if abs(value) < 999.5:
            return f"{value:.1f}{unit}" if unit and abs(value) < 99.95 else f"{value:.0f}{unit}"
        value /= 1_000
    return f"{value:,.1f}T"


def bytes_text(size: float) -> str:
    """Bytes in a unit that keeps the number small: `0 B`, `1.5 MiB`."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1_024:
            return f"{size:,.0f} B" if unit == "B" else f"{size:,.1f} {unit}"
        size /= 1_024
    return f"{size:,.1f} TiB"


def seconds_text(seconds: float) -> str:
    """A duration in its largest unit: `0.2 s`, `45 s`, `3 min`, `2 h`."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7_200 else f"{seconds / 3_600:.0f} h"
