"""Members of the group that agrees on metadata, as values, and the changes an administrator can make."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Protocol


class MemberRole(Enum):
    """Role of a member."""

    VOTER = "voter"
    """Holds the log and votes."""
    LEARNER = "learner"
    """Holds the log and does not vote."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """One member, as another one sees it."""

    node_id: int
    address: str
    """`host:port` of its Raft port."""
    role: MemberRole
    connected: bool
    """True if the member that sees it is connected with it (or is it)."""
    lag: int | None = None
    """Entries that it does not have yet, as far as the leader has heard; None is not known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MembershipStatus:
    """The agreement, as one member sees it."""

    kind: str
    """`raft`, `etcd`, `zookeeper` or `memory`."""
    node_id: int
    """Node id of the member that reports."""
    address: str = ""
    leader_id: int = 0
    """0 while there is none."""
    term: int = 0
    position: int = 0
    """Position applied last here."""
    has_quorum: bool = True
    """True if a majority of the voters is reached, as far as this member can tell."""
    members: Sequence[Member] = ()
    """Sorted by node id; empty where a service outside keeps the agreement."""


class Membership(Protocol):
    """Membership and its changes, one at a time; any member can be asked, the leader carries them out.

    A change raises PreconditionFailedError when it must not be made now (the sentence says what to do first),
    NotFoundError for an unknown member, and UnavailableError without a leader or a majority.
    """

    def status(self) -> MembershipStatus:
        """Status as this member knows it: at once, and only where it leads with everyone's lag."""

    async def leader_status(self) -> MembershipStatus:
        """Status with the members as the leader sees them: its connections, and everyone's lag.

        Where nobody leads, or the leader does not answer within RAFT_LOOK_TIMEOUT_S, as this member knows. Never an
        error.
        """

    async def add(self, address: str, node_id: int | None = None) -> Member:
        """Have the broker that waits at `address` (started with `--join`) take part, without a vote.

        Answers once it has the log. With `node_id`, only if it is that one. Adding a member again answers it.
        """

    async def promote(self, node_id: int) -> Member:
        """Give a learner that has the log a vote. Promoting a voter answers it."""

    async def remove(self, node_id: int) -> None:
        """Have a member take part no more. Refused for the last voter, for the leader (transfer first), and where the
        remaining voters would have no majority connected.
        """

    async def transfer(self, node_id: int | None = None) -> int:
        """Have another voter lead (any, without `node_id`); answers who leads once it does."""
