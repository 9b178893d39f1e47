"""Backend protocol of a shared log: few operations on few keys of a service, each of them linearizable.

Below the root (`/danube/{cluster}` unless told otherwise) a backend keeps

    head                      the number of the newest entry; 0 at first, and it never goes back
    log/{number:020}          one entry; those up to some number are gone once a snapshot holds them
    snapshot/{number:020}/{piece:06}   pieces of a snapshot of the state after that entry
    snapshot/current          the number of the newest whole snapshot; it never goes back

An entry is added together with the move of `head` from the number before it, in one transaction of the service: so of
two that add the same number one is refused, and no entry is added to a log that went on without its author.
"""

import asyncio
import importlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from danube.model.errors import MetadataError, SettingsError
from danube.model.limits.metadata import METADATA_LOG_RETRY_DELAY_MAX_S, METADATA_RETRY_DELAY_S
from danube.model.text import install_text
from danube.runtime.rng import Rng


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A snapshot of the state after an entry, as it is kept."""

    number: int
    pieces: Sequence[bytes]


class LogBackend(Protocol):
    """The service. Every method raises MetadataError when it does not answer in time, and when it is closed."""

    @property
    def entry_bytes_max(self) -> int:
        """Most bytes of one entry, and of one piece of a snapshot."""

    async def connect(self) -> None:
        """Reach the service and make the root. Raises MetadataError with the next step in it."""

    async def head(self) -> int:
        """The number of the newest entry, by a linearizable read: nothing that was added before is missed."""

    async def add(self, number: int, entry: bytes) -> bool:
        """Add the entry with this number; False when it is there already or `head` is elsewhere.

        Raises UnknownOutcomeError when the service does not say whether it did, MetadataError when it surely did not.
        """

    async def read(self, first: int, last: int) -> Sequence[bytes] | None:
        """The entries from `first` to at most `last`, both included, and at least one of them.

        None when `first` is gone (a snapshot holds it) or was never added.
        """

    async def moved(self, beyond: int) -> None:
        """Return when `head` may be greater than `beyond`: soon after it is so, or earlier for no reason.

        Survives lost connections; it raises MetadataError only when closed.
        """

    async def save_snapshot(self, snapshot: Snapshot) -> None:
        """Keep it as the current one, unless a newer one is; then remove older ones, and the entries it makes needless.

        METADATA_LOG_ENTRIES_KEPT of those stay for members that are a little behind. Safe to be cut off anywhere, and
        to be done by several at once.
        """

    async def snapshot_number(self) -> int:
        """Number of the newest whole snapshot; 0 while there is none."""

    async def snapshot(self) -> Snapshot | None:
        """The newest whole one. One that is removed while it is read is read anew."""

    async def close(self) -> None:
        """Let go of the service. Idempotent."""


ROOT = "/danube/danube"
"""Default root."""
NUMBER_DIGITS = 20
"""Digits of a number in a key, so that keys sort as their numbers do."""


class LogKeys:
    """The keys of one log, below its root."""

    def __init__(self, root: str) -> None:
        """Raises SettingsError for a root that is no path."""
        parts = root.split("/")
        if len(parts) < 2 or parts[0] or not all(parts[1:]) or not root.isascii() or not root.isprintable():
            raise SettingsError(f"{root[:80]!r} cannot hold the metadata: give a path such as /danube/production")
        self.head, self.log, self.snapshots = f"{root}/head", f"{root}/log", f"{root}/snapshot"
        self.current = f"{self.snapshots}/current"

    def entry(self, number: int) -> str:
        return f"{self.log}/{padded(number)}"

    def snapshot(self, number: int) -> str:
        return f"{self.snapshots}/{padded(number)}"

    def piece(self, number: int, piece: int) -> str:
        return f"{self.snapshot(number)}/{piece:06}"


def padded(number: int) -> str:
    """The number as it stands in keys, and in the value of `current`."""
    return f"{number:0{NUMBER_DIGITS}}"


def number_of(value: bytes, service: str) -> int:
    """The number in a value. Raises MetadataError for anything else."""
    if not value.isdigit():
        raise MetadataError(f"{service} holds no number at the head of the log: is the root another's?")
    return int(value)


def number_in(key: str) -> int:
    """The number that a key ends with."""
    return int(key.rpartition("/")[2])


def import_extra(module: str, extra: str) -> Any:  # noqa: ANN401 - a module without types
    """The module. Raises SettingsError that names the extra when it is not installed."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        raise SettingsError(
            f"metadata in {extra} needs a package that is not installed: {install_text(extra)}"
        ) from error


class Pause:
    """Waits longer each time, up to a bound, and never exactly as long as another member."""

    def __init__(self, rng: Rng) -> None:
        self._rng = rng
        self._delay_s = METADATA_RETRY_DELAY_S

    async def __call__(self) -> None:
        delay_s = self._delay_s
        self._delay_s = min(2 * delay_s, METADATA_LOG_RETRY_DELAY_MAX_S)
        await asyncio.sleep(self._rng.uniform(delay_s / 2, delay_s))

    def over(self) -> None:
        """Make the next wait a short one."""
        self._delay_s = METADATA_RETRY_DELAY_S
