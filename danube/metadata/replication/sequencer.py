"""Sequencer protocol: one sequence of requests, the same for every member.

`raft/` implements `Sequencer`, and `shared_log/` does for etcd and ZooKeeper. A `Follower` receives the sequence and
keeps the state that it makes. Positions start at 1 and grow; a snapshot of the state may replace all up to one.
"""

from collections.abc import Sequence
from typing import Protocol

from danube.metadata.state import StateSnapshot
from danube.model.errors import MetadataError


class NotOrderedError(MetadataError):
    """The request is in no sequence and will not be: it may be submitted again at once, or given up."""


class Follower(Protocol):
    """Takes the sequence in. All calls come on the event loop, positions ascending, none twice."""

    def apply(self, position: int, requests: Sequence[bytes]) -> None:
        """These requests stand next, all at one position. Raises UnsupportedError when they follow newer rules: the
        sequencer stops then, and `failed` has been told.
        """

    def reset(self, position: int, snapshot: StateSnapshot) -> None:
        """Forget everything: this is the state after `position`."""

    def snapshot(self) -> StateSnapshot:
        """The state after all that was applied; cheap, and never changed afterwards."""

    def led_anew(self) -> None:
        """Another leadership has begun: renewals of leases may have been lost with the one before."""

    def failed(self, error: Exception) -> None:
        """The sequence cannot be followed any more: every call of the store raises a MetadataError with these words."""


class Sequencer(Protocol):
    """Brings the requests of all members into one order, and hands each of them to each member's follower."""

    async def start(self, follower: Follower) -> None:
        """Take part. Returns when the follower has all that was in the sequence when this was called, as far as this
        member can know it; whoever needs more calls `barrier`.

        Raises MetadataError when that is not possible, with the next step in it.
        """

    @property
    def leadership(self) -> int:
        """Number of the present leadership, of which the follower has been told; 0 while there is none."""

    async def submit(self, request: bytes, leadership: int | None = None) -> None:
        """Try once to have a request put in the sequence; its place shows when the follower gets it.

        With `leadership`, only while that lasts.

        Returns when it was handed on and may be in the sequence, now or later. Requests of one member that are handed
        on one after the other keep their order. Raises NotOrderedError when it surely is not, MetadataError when
        closed.
        """

    async def barrier(self) -> None:
        """Return when the follower has everything that was in the sequence when this was called (a read after it is
        linearizable). Raises MetadataError when this member cannot know that: it is cut off from the others.
        """

    async def close(self) -> None:
        """Take part no more. Idempotent."""
