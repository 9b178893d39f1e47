"""Where in a service a shared log lives (see `backend`)."""

from dataclasses import dataclass

from danube.model.errors import SettingsError

ROOT = "/danube/danube"
"""When nothing is set."""
NUMBER_DIGITS = 20
"""Of a number in a key, so that keys sort as their numbers do."""


@dataclass(frozen=True, slots=True)
class LogKeys:
    """The keys of one log."""

    root: str

    @classmethod
    def below(cls, root: str) -> "LogKeys":
        """Those below a root. Raises SettingsError for one that is no path."""
        parts = root.split("/")
        if len(parts) < 2 or parts[0] or not all(parts[1:]) or not root.isascii() or not root.isprintable():
            raise SettingsError(f"{root[:80]!r} cannot hold the metadata: give a path such as /danube/production")
        return cls(root)

    @property
    def head(self) -> str:
        """The number of the newest entry."""
        return f"{self.root}/head"

    @property
    def log(self) -> str:
        """Above the entries."""
        return f"{self.root}/log"

    @property
    def snapshots(self) -> str:
        """Above the snapshots."""
        return f"{self.root}/snapshot"

    @property
    def current(self) -> str:
        """The number of the newest whole snapshot."""
        return f"{self.root}/snapshot/current"

    def entry(self, number: int) -> str:
        """One entry."""
        return f"{self.root}/log/{padded(number)}"

    def snapshot(self, number: int) -> str:
        """Above the pieces of one snapshot."""
        return f"{self.root}/snapshot/{padded(number)}"

    def piece(self, number: int, piece: int) -> str:
        """One piece."""
        return f"{self.root}/snapshot/{padded(number)}/{piece:06}"


def padded(number: int) -> str:
    """The number as it stands in keys, and in the value of `current`."""
    return f"{number:0{NUMBER_DIGITS}}"


def number_in(key: str) -> int:
    """The number that a key ends with."""
    return int(key.rpartition("/")[2])
