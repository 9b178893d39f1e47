"""Findings in a data folder: damage, and notes. Pure."""

from dataclasses import dataclass
from enum import StrEnum


class Level(StrEnum):
    """Severity of a finding."""

    DAMAGE = "damage"
    """Bytes that were known to be synced are not what was written."""
    NOTE = "note"
    """Harmless: the broker puts it in order at its next start, or later."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One place."""

    level: Level = Level.DAMAGE
    file: str
    """Within the data folder."""
    at: int
    """The first byte of the file that is concerned."""
    end: int
    """The byte after the last one."""
    what: str
    topic_id: int | None = None
    """None when that cannot be said: then it may be any topic."""
    first_offset: int | None = None
    end_offset: int | None = None
    """After the last record that is concerned."""

    @property
    def is_damage(self) -> bool:
        """True unless it is a note."""
        return self.level is Level.DAMAGE


def damage(
    file: str, what: str, where: range = range(0), *, topic_id: int | None = None, offsets: range | None = None
) -> Finding:
    """Damage in a file: in the bytes `where`, or in all of it."""
    first, end = (None, None) if offsets is None else (offsets.start, offsets.stop)
    return Finding(
        file=file, at=where.start, end=where.stop, what=what, topic_id=topic_id, first_offset=first, end_offset=end
    )


def note(file: str, what: str, where: range = range(0), *, topic_id: int | None = None) -> Finding:
    """A note on a file."""
    return Finding(level=Level.NOTE, file=file, at=where.start, end=where.stop, what=what, topic_id=topic_id)
