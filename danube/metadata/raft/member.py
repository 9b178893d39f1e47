"""Member of the Raft group, without threads and without a clock of its own: each tick does what is due.

Its caller takes the events of each tick, in order, for the follower: requests that stand next in the sequence, a
snapshot that replaces all before it, and the request for a snapshot of the state.

The newest entries of its log say if it votes. When that changes, its core is built anew on the same log. After any
error of a tick nothing of its core is to be believed any more: `close` ends it, and `reopen` goes on from the disk.
"""

from collections.abc import Callable, Iterable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any, Protocol

from pysyncobj.node import Node

from danube.metadata.cluster.membership import Member as MemberView
from danube.metadata.cluster.membership import MemberRole, MembershipStatus
from danube.metadata.raft.core.message_filter import Message, MessageFilter
from danube.metadata.raft.core.overrides import Entry, now_s
from danube.metadata.raft.core.raft_core import RaftCore, configuration
from danube.metadata.raft.core.snapshot_keeper import SnapshotKeeper, SnapshotRequest, Snapshots
from danube.metadata.raft.folder.durable_log import RaftLog
from danube.metadata.raft.folder.snapshot import HeldSnapshot
from danube.metadata.raft.settings import LogBounds, RaftTiming
from danube.metadata.raft.values.entries import REGULAR
from danube.metadata.raft.values.node import RaftNode
from danube.model.errors import MetadataError, PreconditionFailedError, UnavailableError
from danube.model.limits.metadata import RAFT_REMOVED_S, RAFT_TRANSFER_TIMEOUT_S, RAFT_UNAPPLIED_BYTES_MAX
from danube.runtime.sealed import Sealed, UnsealError

_LOGS_KEPT = 4
"""Times the bounds of a log: what is kept of it at most for those who follow and are behind."""

_MARKS_S = 1.0  # the core's timer of the log

REMOVED = (
    "this broker was removed from the cluster: to have it take part again, move its folder `raft` away, start it with"
    " --join and add it as a new one"
)


@dataclass(frozen=True, slots=True)
class Ordered:
    """A batch of requests that stands next in the sequence."""

    position: int
    origin: int
    """Number of the process that made the batch."""
    number: int
    """Which of its batches."""
    requests: Sequence[bytes]
    size: int
    """Bytes of the entry."""


@dataclass(frozen=True, slots=True)
class Removal:
    """First and last time that others said that this member takes no part."""

    first_s: float
    last_s: float


def removal_repeated(before: Removal | None, now_s: float) -> Removal:
    """Extend the record of a removal, unless the last report is long ago: its sender may know better by now."""
    is_fresh = before is not None and now_s - before.last_s <= RAFT_REMOVED_S
    return Removal(before.first_s if before is not None and is_fresh else now_s, now_s)


@dataclass(frozen=True, slots=True)
class Installed:
    """A snapshot that takes the place of all up to its index."""

    snapshot: HeldSnapshot


MemberEvent = Ordered | Installed | SnapshotRequest


class ReopenedSnapshots(Snapshots, Protocol):
    """Snapshots that can be opened anew."""

    def reopen(self) -> None:
        """As `RaftFolder.reopen`, with the log."""


class TickPoller(Protocol):
    """Waits for peers, at most `timeout` seconds (None: until it is woken), and calls back."""

    def poll(self, timeout: float | None) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberParts:
    """Parts of a member."""

    own: RaftNode
    log: RaftLog
    snapshots: ReopenedSnapshots
    """With the snapshot that the log stands on."""
    transport: Any
    """A `RaftTransport`, or a simulated one."""
    poller: TickPoller
    timing: RaftTiming
    bounds: LogBounds
    voters_after: Callable[[Sequence[str], Iterable[Entry]], Iterable[str]]
    """Voters after these entries, given those before."""
    is_alone: bool = False
    """True if no other member can come: it waits for its own process alone, without ticks."""


@dataclass(frozen=True, slots=True)
class _Batch:
    origin: int
    number: int
    requests: tuple[bytes, ...]


_BATCH = Sealed(b"DnRb", _Batch)


def pack_batch(origin: int, number: int, requests: Sequence[bytes]) -> bytes:
    """A batch as a command of the log; an empty one is a question how far the sequence is."""
    return REGULAR + _BATCH.seal(_Batch(origin, number, tuple(requests)))


def unpack_batch(command: bytes) -> tuple[int, int, Sequence[bytes]]:
    """Reverse of `pack_batch`. Raises MetadataError for anything else."""
    try:
        batch = _BATCH.unseal(command[1:])
    except UnsealError as error:
        raise MetadataError(f"an entry of the metadata's log cannot be read: {error}") from error
    return batch.origin, batch.number, batch.requests


class Member:
    """A voter or a learner. All calls come from one thread; `snapshot_made`, `snapshot_failed` and `applied` may come
    from others.
    """

    def __init__(self, parts: MemberParts) -> None:
        self._parts = parts
        self._found: list[MemberEvent] = []
        self._told = 0
        self._handed_bytes = 0
        self._applied_bytes = 0
        self._bytes_since_snapshot = 0
        self._vote_changed = False
        self._hold_until_s = 0.0
        self._removal: Removal | None = None
        self.on_own: Callable[[Node, Message], None] = lambda _node, _message: None
        """Takes what other members ask and answer."""
        self.before_wait: Callable[[], None] = lambda: None
        """Called in each tick before it waits for peers: what was found need not wait, too."""
        self.keeper = SnapshotKeeper(parts.snapshots, parts.log, on_wanted=self._found.append)
        self._poller = _SyncingPoller(parts.poller, parts.log, self)
        self._build()

    @property
    def core(self) -> RaftCore:
        """The core as it is now; another one after a change of this member's role."""
        return self._core

    @property
    def role(self) -> MemberRole:
        """Role by its log."""
        return MemberRole.VOTER if self._votes else MemberRole.LEARNER

    def snapshot_made(self, wanted: SnapshotRequest, payload: Sequence[bytes]) -> None:
        self.keeper.snapshot_made(wanted, payload)

    def snapshot_failed(self, error: Exception) -> None:
        self.keeper.snapshot_failed(error)

    # What whoever ticks it calls

    def tick(self, timeout_s: float) -> None:
        """Do what is due, and wait for peers at most `timeout_s`. Raises whatever ends the member."""
        if self._wants_snapshot():
            self._core.forceLogCompaction()
        if self._core.is_leading() and self.keeper.is_sending:
            self._core.send_at_once()
        self._core.skip_missed_seconds()
        self._core.doTick(timeout_s)
        if self._message_filter.failure is not None:
            raise self._message_filter.failure
        if self._vote_changed:
            self._vote_changed = False
            self._follow_own_vote()
        self._check_removal()

    def propose(self, command: bytes) -> bool:
        """Have a batch put in the sequence; False when it surely is not: nobody leads."""
        if self._core.leader() is None:
            return False
        self._core._applyCommand(command, None)  # noqa: SLF001 - the core's only way in
        return True

    def take_events(self) -> list[MemberEvent]:
        """Events since the last call, in order."""
        found, self._found[:] = list(self._found), []
        return found

    def newest_snapshot_index(self) -> int:
        """0 without a snapshot; from any thread."""
        snapshot = self._parts.snapshots.snapshot
        return 0 if snapshot is None else snapshot.index

    def applied(self, size: int) -> None:
        """Count bytes that have been applied."""
        self._applied_bytes += size

    def change(self, what: str, node: RaftNode) -> int:
        """Put an `add` or a `rem` in the log, leading; answers its index.

        Raises UnavailableError when this member does not lead, PreconditionFailedError while another change goes on
        or the lead is handed over: then the change is not made, not later either.
        """
        core = self._core
        if not core.is_leading():
            raise UnavailableError("this member does not lead any more: try again")
        index = None if self.holds_proposals() else core.put_change(what, node)
        if index is None:
            raise PreconditionFailedError(
                "another change of membership goes on, the lead is handed over, or the leader is new: try again"
            )
        return index

    def transfer_lead(self, node_id: int | None) -> None:
        """Try to have another voter lead; nothing new is put in the log until `hold_back(0)`, or for a while."""
        self.hold_proposals(RAFT_TRANSFER_TIMEOUT_S)
        nodes = [node for node in self._core.voters() if node_id in (None, node.node_id)]
        self._core.transferLeadership(nodes[0] if node_id is not None and nodes else None)

    def hold_proposals(self, seconds: float) -> None:
        """Put nothing new in the log for so long; 0 to go on."""
        self._hold_until_s = now_s() + seconds

    def removed_member(self) -> None:
        """Another voter, which has a leader, says that this member takes no part.

        It may be behind, or have what is never agreed on: believed if it is said again and again for RAFT_REMOVED_S,
        by nobody denied, and nobody leads this member meanwhile.
        """
        self._removal = removal_repeated(self._removal, now_s())

    def not_removed(self) -> None:
        """Another voter says that this member takes part."""
        self._removal = None

    def send(self, node: Node, message: Message) -> bool:
        """Send a message of OWN_KINDS to another member."""
        return bool(self._parts.transport.send(node, message))

    def missing(self) -> AbstractSet[Node]:
        """The other voters that are to be asked how things stand: who is not connected, and all while nobody leads.

        A member that was removed is connected, and hears nothing of it from those who know it no more.
        """
        core = self._core
        return set(core.voters()) if core.leader() is None else core.voters() - core.connected()

    def voters(self, index: int | None = None) -> frozenset[str]:
        """Voters after an entry of the log; after the newest without one."""
        snapshot = self._parts.snapshots.snapshot
        end = None if index is None else self._after(index)
        entries = [] if snapshot is None else self._parts.log[self._after(snapshot.index) : end]
        return frozenset(self._parts.voters_after(snapshot.members if snapshot else (), entries))

    def view(self) -> MembershipStatus:
        """Status as this member knows it."""
        core, own = self._core, self._parts.own
        leader = core.leader()
        return MembershipStatus(
            kind="raft",
            node_id=own.node_id,
            address=own.address,
            leader_id=leader.node_id if isinstance(leader, RaftNode) else 0,
            term=core.current_term(),
            position=core.applied_index(),
            has_quorum=bool(core.hasQuorum),
            members=self._members(),
        )

    def close(self) -> None:
        """Hear nobody any more. Idempotent."""
        self._message_filter.destroy()

    def reopen(self) -> None:
        """Go on after an error of the disk, with what is on it: all that was agreed on here was synced before.

        Raises as `RaftFolder.reopen`.
        """
        self._parts.snapshots.reopen()
        self._build()

    # What the core tells

    def ordered(self, index: int, command: bytes) -> None:
        if index > self._told:
            self._found.append(Ordered(index, *unpack_batch(command), len(command)))
            self._told = index
            self._handed_bytes += len(command)
            self._bytes_since_snapshot += len(command)

    def installed(self) -> None:
        snapshot = self._parts.snapshots.snapshot
        if snapshot is not None and snapshot.index > self._told:
            self._found.append(Installed(snapshot))
            self._told = snapshot.index

    def own_vote_changed(self) -> None:
        self._vote_changed = True

    def removed(self) -> None:
        if self._parts.own.id not in self.voters():  # else it was given a vote again, further on in the log
            raise MetadataError(REMOVED)

    def may_order(self) -> bool:
        return self._handed_bytes - self._applied_bytes < RAFT_UNAPPLIED_BYTES_MAX

    def may_keep(self) -> bool:
        log, bounds = self._parts.log, self._parts.bounds
        return len(log) <= _LOGS_KEPT * bounds.entries_max and log.size_bytes <= _LOGS_KEPT * bounds.bytes_max

    def holds_proposals(self) -> bool:
        return now_s() < self._hold_until_s

    # Inside

    def _build(self) -> None:
        parts, voters = self._parts, self.voters()
        self._votes = parts.own.id in voters
        parts.transport.become(self.role)
        self._message_filter = MessageFilter(parts.transport, parts.log, self.keeper)
        self._message_filter.on_own = self._receive_own
        others = [RaftNode(voter) for voter in sorted(voters - {parts.own.id})]
        self.keeper.members_now = self.voters
        self._align()
        conf = configuration(parts.timing, parts.log, self._poller, self.keeper)
        self._core = RaftCore(
            parts.own,
            others,
            conf,
            votes=self._votes,
            message_filter=self._message_filter,
            keeper=self.keeper,
            listener=self,
        )
        self.keeper.members_applied = lambda: self._core.applied_voters
        self._core.load()
        if self._told > self._core.applied_index():
            self._core.resume(self._told, self.voters(self._told))
        for other in others:
            parts.transport.addNode(other)
        if not others and self._votes:
            self._core.stand_at_once()

    def _align(self) -> None:
        """Have the log begin with the two entries of the snapshot, as the core asks for: else it would clear it.

        When the folder is opened it does; a core that is built anew finds what was kept for others.
        """
        snapshot, log = self._parts.snapshots.snapshot, self._parts.log
        if snapshot is not None and len(log) and log.term_of(snapshot.index) == snapshot.term:
            log.deleteEntriesTo(snapshot.prev[1] - int(log[0][1]))

    def _wants_snapshot(self) -> bool:
        """True if enough has been applied since the last snapshot, and nobody is being sent that."""
        snapshot, bounds = self._parts.snapshots.snapshot, self._parts.bounds
        if self.keeper.is_making or (self.keeper.delays_newer and self.may_keep()):
            return False
        if self._core.applied_index() < self._told:  # the state that is handed out would be of a later entry
            return False
        entries = self._core.applied_index() - (snapshot.index if snapshot is not None else 0)
        if entries <= bounds.entries_max and self._bytes_since_snapshot <= bounds.bytes_max:
            return False
        self._bytes_since_snapshot = 0
        return True

    def _receive_own(self, node: Node, message: Message) -> None:
        self.on_own(node, message)  # set after the first filter is made

    def _follow_own_vote(self) -> None:
        """Take part as the log says; the core itself knows no way from one role to the other."""
        if (self._parts.own.id in self.voters()) is not self._votes:
            self._message_filter.destroy()
            self._build()

    def _check_removal(self) -> None:
        if self._core.leader() is not None:
            self._removal = None
        removal = self._removal
        if removal is not None and removal.last_s - removal.first_s > RAFT_REMOVED_S:
            raise MetadataError(REMOVED)

    @property
    def rests(self) -> bool:
        """True if nothing happens here until its own process has something to do."""
        return self._is_settled() and self._parts.log.is_marked

    def wait_s(self, tick_s: float) -> float | None:
        """Longest wait for peers: none where there is something to do that nobody wakes this member for."""
        core = self._core
        if core.is_leading() and not core.voters() and core.commit_index() < core.last_index():
            return 0.0
        if not self._is_settled():
            return tick_s
        return None if self._parts.log.is_marked else _MARKS_S

    def _is_settled(self) -> bool:
        """True if this member is alone, and all that was handed in is agreed on, told and kept."""
        core = self._core
        return (
            self._parts.is_alone
            and core.is_leading()
            and core.applied_index() == core.last_index()
            and not self.keeper.is_making
        )

    def _after(self, index: int) -> int:
        """Position in the log of the first entry after an index."""
        return max(0, index + 1 - int(self._parts.log[0][1])) if len(self._parts.log) else 0

    def _members(self) -> tuple[MemberView, ...]:
        core, own = self._core, self._parts.own
        learners = core.learners() - core.voters()
        views = [self._member(node, MemberRole.VOTER) for node in core.voters()]
        views += [self._member(node, MemberRole.LEARNER) for node in learners if node != own]
        lag = 0 if core.is_leading() else None
        views.append(MemberView(node_id=own.node_id, address=own.address, role=self.role, connected=True, lag=lag))
        return tuple(sorted(views, key=lambda view: view.node_id))

    def _member(self, node: Any, role: MemberRole) -> MemberView:  # noqa: ANN401 - pysyncobj's Node
        match, connected = self._core.match_index(node), node in self._core.connected()
        lag = max(0, self._core.last_index() - match) if match else None
        return MemberView(node_id=node.node_id, address=node.address, role=role, connected=connected, lag=lag)


class _SyncingPoller:
    """Syncs the log before it waits: once a tick, while the followers do the same with what was just sent."""

    def __init__(self, inner: TickPoller, log: RaftLog, member: Member) -> None:
        self._inner = inner
        self._log = log
        self._member = member

    def poll(self, timeout: float) -> None:
        if self._log.unsynced:
            self._log.sync()
        self._member.before_wait()
        self._inner.poll(self._member.wait_s(timeout))
