"""When a publish is acknowledged. Pure."""

from enum import StrEnum


class Durability(StrEnum):
    """When a publish is acknowledged, the strongest first."""

    FSYNC = "fsync"
    """After the sync: it survives a power cut."""
    INTERVAL = "interval"
    """After the write, synced a moment later: it survives the broker's death, not a power cut."""
    OS = "os"
    """After the write, synced when the operating system likes: the same, with a longer window."""

    @property
    def number(self) -> int:
        """Its place, from 0, in policies, records and on the wire: the higher, the more a power cut may take."""
        return _ORDER.index(self)


_ORDER = tuple(Durability)


def durability_of(number: int | None) -> Durability | None:
    """The durability with this number; None of None, and of a number that only a later version knows."""
    return _ORDER[number] if number is not None and 0 <= number < len(_ORDER) else None
