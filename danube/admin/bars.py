"""Bars of characters, which read the same without colours. Pure."""

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
