"""Everything dispatch can ask for, as values."""

from dataclasses import dataclass

from danube.model.subscription import Cursor


@dataclass(frozen=True, slots=True)
class Send:
    """Send offsets `[start, end)` to this consumer; `attempt` counts from 1."""

    consumer_id: int
    start: int
    end: int
    attempt: int = 1


@dataclass(frozen=True, slots=True)
class SaveCursor:
    """The subscription stands here now; the driver may skip all but the last of these."""

    cursor: Cursor


@dataclass(frozen=True, slots=True)
class SetTimer:
    """Wake me at this monotonic time; replaces the timer asked for before. None calls it off."""

    at_s: float | None


Instruction = Send | SaveCursor | SetTimer
