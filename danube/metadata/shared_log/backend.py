"""What a service must do to hold a shared log: few operations on few keys, each of them linearizable.

Below the root (`/danube/{cluster}` unless told otherwise) a backend keeps

    head                      the number of the newest entry; 0 at first, and it never goes back
    log/{number:020}          one entry; those up to some number are gone once a snapshot holds them
    snapshot/{number:020}/{piece:06}   pieces of an image of the state after that entry
    snapshot/current          the number of the newest whole snapshot; it never goes back

An entry is added together with the move of `head` from the number before it, in one transaction of the service: so of
two that add the same number one is refused, and no entry is added to a log that went on without its author.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Snapshot:
    """An image of the state after an entry, as it is kept."""

    number: int
    pieces: Sequence[bytes]


class LogBackend(Protocol):
    """The service. Every method raises MetadataError when it does not answer in time, and when it is closed."""

    @property
    def entry_bytes_max(self) -> int:
        """Of one entry, and of one piece of a snapshot."""

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
        """Of the newest whole snapshot; 0 while there is none."""

    async def snapshot(self) -> Snapshot | None:
        """The newest whole one. One that is removed while it is read is read anew."""

    async def close(self) -> None:
        """Let go of the service. Idempotent."""
