"""What is found wrong, or worth a word, in a data folder. Pure."""

from dataclasses import dataclass
from enum import StrEnum


class Level(StrEnum):
    """How bad it is."""

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
        """Whether it is more than a note."""
        return self.level is Level.DAMAGE
