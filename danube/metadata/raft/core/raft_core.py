"""pysyncobj's core with the rules that it lacks: a subclass that overrides the core's own methods.

These methods are private to the core (`_SyncObj__...`); a test holds that each is still there, and `overrides` asserts
pysyncobj's version. `docs/raft.md` says for each what goes wrong without it.
"""

from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, Protocol

from pysyncobj.node import Node

from danube.metadata.raft.core.message_filter import Message, MessageFilter
from danube.metadata.raft.core.overrides import FOLLOWER, LEADER, Entry, SyncObj, SyncObjConf, core, now_s
from danube.metadata.raft.core.snapshot_keeper import SnapshotKeeper
from danube.metadata.raft.settings import RaftTiming
from danube.metadata.raft.values.entries import MEMBERSHIP, REGULAR
from danube.metadata.raft.values.node import RaftNode
from danube.model.errors import MetadataError
from danube.model.limits.metadata import (
    RAFT_COMMANDS_MAX,
    RAFT_ENTRIES_A_MESSAGE_MAX,
    RAFT_ENTRY_BYTES_MAX,
    RAFT_SNAPSHOT_PIECE_BYTES,
)

_NEVER = 10**9


class Listener(Protocol):
    """Receives what the core finds out, and says what it may do now."""

    def ordered(self, index: int, command: bytes) -> None:
        """This command of ours stands next in the sequence; it may have been told before."""

    def installed(self) -> None:
        """The snapshot that came replaces all that was told."""

    def own_vote_changed(self) -> None: ...
    def removed(self) -> None: ...
    def holds_proposals(self) -> bool: ...
    def may_order(self) -> bool: ...
    def may_keep(self) -> bool:
        """True if the log may be kept beyond what the snapshot covers."""


def configuration(timing: RaftTiming, log: object, poller: object, keeper: SnapshotKeeper) -> Any:  # noqa: ANN401 - pysyncobj's
    """The core's settings, with our parts in place of its own."""
    return SyncObjConf(
        autoTick=False,
        dynamicMembershipChange=True,
        commandsWaitLeader=False,
        commandsQueueSize=RAFT_COMMANDS_MAX,
        appendEntriesUseBatch=False,
        appendEntriesPeriod=timing.heartbeat_s,
        appendEntriesBatchSizeBytes=RAFT_ENTRY_BYTES_MAX + 1,  # an entry of this size would be sent in parts, and lost
        raftMinTimeout=timing.election_min_s,
        raftMaxTimeout=timing.election_max_s,
        leaderFallbackTimeout=timing.fallback_s,
        connectionTimeout=2 * timing.election_max_s,
        logCompactionMinEntries=_NEVER,  # the member says when
        logCompactionMinTime=_NEVER,
        logCompactionBatchSize=RAFT_SNAPSHOT_PIECE_BYTES,
        useFork=False,
        journalFile=log,
        pollerType=poller,
        serializeChecker=keeper,
    )


class RaftCore(SyncObj):  # type: ignore[misc]  # pysyncobj has no types
    """The core of one member. A learner is one without a node of its own (pysyncobj: a read-only node)."""

    # No properties here: the core's constructor looks at every attribute before there are any.

    _SyncObj__selfNode: Node | None  # None for a learner
    _SyncObj__raftLeader: Node | None
    _SyncObj__numOneSecondDumps: int

    def __init__(
        self,
        own: RaftNode,
        others: Sequence[Node],
        conf: Any,  # noqa: ANN401 - pysyncobj's
        *,
        votes: bool,
        message_filter: MessageFilter,
        keeper: SnapshotKeeper,
        listener: Listener,
    ) -> None:
        self._own = own
        self._message_filter = message_filter
        self._keeper = keeper
        self._listener = listener
        self._change_index = 0
        self.applied_voters: set[str] = set()
        """Ids of those who vote after the last applied entry."""
        self._paused: dict[Node, int] = {}
        keeper.on_pause = self._pause
        super().__init__(own if votes else None, others, conf=conf, nodeClass=RaftNode, transport=message_filter)
        message_filter.attach(self)

    def load(self) -> None:
        """Stand on the newest snapshot, to which the log is aligned."""
        self._SyncObj__loadDumpFile(clearJournal=False)

    def resume(self, index: int, voters: AbstractSet[str]) -> None:
        """Go on from an entry that a core before this one has told; `voters` are those after it."""
        self._SyncObj__raftLastApplied = index
        self._SyncObj__raftCommitIndex = max(self.commit_index(), index)
        self.applied_voters = set(voters)

    # For the message filter

    def current_term(self) -> int:
        return int(self._SyncObj__raftCurrentTerm)

    def commit_index(self) -> int:
        return int(self._SyncObj__raftCommitIndex)

    def leader(self) -> Node | None:
        """The core goes on naming the last one when it is connected with nobody any more."""
        leader = self._SyncObj__raftLeader
        return leader if leader is None or leader == self._own or self._message_filter.hears(leader) else None

    def voters(self) -> AbstractSet[Node]:
        others: set[Node] = self._SyncObj__otherNodes
        return others

    def learners(self) -> AbstractSet[Node]:
        readonly: set[Node] = self._SyncObj__readonlyNodes
        return readonly

    # For the member

    def applied_index(self) -> int:
        """Index of the last entry given to the listener."""
        return int(self._SyncObj__raftLastApplied)

    def last_index(self) -> int:
        return int(self._SyncObj__raftLog[-1][1])

    def match_index(self, node: Node) -> int | None:
        """Last entry that a member has, as the leader knows; 0 until it has heard of it."""
        index: int | None = self._SyncObj__raftMatchIndex.get(node)
        return index if self._isLeader() else None

    def connected(self) -> AbstractSet[Node]:
        nodes: set[Node] = self._SyncObj__connectedNodes
        return nodes

    def stand_at_once(self) -> None:
        """Stand for election at the next tick: there is nobody to hear from."""
        self._SyncObj__raftElectionDeadline = 0

    def send_at_once(self) -> None:
        """Send to followers at the next tick, not with the next heartbeat."""
        self._SyncObj__newAppendEntriesTime = 0

    def skip_missed_seconds(self) -> None:
        """Count the seconds of a rest as over: the core's timer would ring with every tick until it has caught up."""
        passed = int(now_s() - self._SyncObj__startTime)
        self._SyncObj__numOneSecondDumps = max(self._SyncObj__numOneSecondDumps, passed)

    def put_change(self, what: str, node: RaftNode) -> int | None:
        """Put an `add` or a `rem` in the log now, leading; its index, or None when this must not be: then it is not
        made later.

        The core's own way leads through its queue, where it would lie until the core gets to it.
        """
        request = [what, node.id, node]
        if not self.is_leading() or not self._SyncObj__changeCluster(request):
            return None
        self._SyncObj__raftLog.add(MEMBERSHIP + core.pickle.dumps(request), self._change_index, self.current_term())
        self.send_at_once()
        return self._change_index

    def changing(self) -> bool:
        """True if a change of membership is in the log and not yet agreed on."""
        return self.applied_index() < self._change_index

    # Overrides of the core's own

    def _SyncObj__onMessageReceived(self, node: Node, message: Message) -> None:  # noqa: N802 - the core's name
        """Terms and votes of learners count: they may have a vote that they have not heard of."""
        kind, term, own = message["type"], message.get("term", 0), self._SyncObj__selfNode
        if kind == "next_node_idx" and term > self.current_term():
            self._follow_term(term)
            return
        if kind == "append_entries" and term < self.current_term() and own is None:
            self._tell_term(node)
        if kind == "request_vote" and own is None and not self._hears_leader():
            self._SyncObj__selfNode = self._own  # the core asks only if there is one
        try:
            super()._SyncObj__onMessageReceived(node, message)
        finally:
            self._SyncObj__selfNode = own

    def _hears_leader(self) -> bool:
        return self.leader() is not None and now_s() < self._SyncObj__raftElectionDeadline

    def _tell_term(self, leader: Node) -> None:
        """A voter that is ahead of the leader's term stands for election, and so tells it; a learner never stands."""
        answer = {"type": "next_node_idx", "next_node_idx": self.last_index() + 1, "reset": False, "success": False}
        self._message_filter.send(leader, answer)

    def _follow_term(self, term: int) -> None:
        if self.is_leading():
            self._SyncObj__setCurrentTerm(term, None)
            self._SyncObj__setState(FOLLOWER)
            self._SyncObj__raftLeader = None

    def _SyncObj__doApplyCommand(self, command: bytes) -> None:  # noqa: N802 - the core's name
        if command[:1] == REGULAR:
            self._listener.ordered(self.applied_index() + 1, command)
        elif command[:1] == MEMBERSHIP:  # it was carried out when it came into the log; from now on it is for good
            what, node_id, *_ = core.pickle.loads(command[1:])
            (self.applied_voters.add if what == "add" else self.applied_voters.discard)(node_id)
            if what == "rem" and node_id == self._own.id:
                self._listener.removed()

    def _checkCommandsToApply(self) -> None:  # noqa: N802 - the core's name
        if not self._listener.holds_proposals():
            super()._checkCommandsToApply()

    def _SyncObj__sendAppendEntries(self) -> None:  # noqa: N802 - the core's name
        super()._SyncObj__sendAppendEntries()
        self._SyncObj__raftNextIndex.update(self._paused)
        self._paused.clear()

    def _pause(self, node: Node) -> None:
        """Have the core leave its loop over this member: it would go round in it for a heartbeat's time."""
        next_index = self._SyncObj__raftNextIndex
        self._paused[node] = next_index[node]
        next_index[node] = self.last_index() + 1

    def _SyncObj__applyLogEntries(self) -> bool:  # noqa: N802 - the core's name
        return bool(super()._SyncObj__applyLogEntries()) if self._listener.may_order() else False

    def _SyncObj__changeCluster(self, request: Sequence[Any]) -> bool:  # noqa: N802 - the core's name
        """One at a time: the core means to see to that, and never sets the mark that it asks for."""
        if self.changing() or not super()._SyncObj__changeCluster(request):
            return False
        self._change_index = self.last_index() + 1
        return True

    def _SyncObj__onBecomeLeader(self) -> None:  # noqa: N802 - the core's name
        """Nothing of an earlier leadership counts: a change may have been cut off, a snapshot been dropped."""
        self._change_index = 0
        self._keeper.restart_sending()
        super()._SyncObj__onBecomeLeader()

    def _SyncObj__doChangeCluster(self, request: Sequence[Any], reverse: bool = False) -> bool:  # noqa: N802, FBT001, FBT002 - the core's
        if request[1] == self._own.id:
            self._listener.own_vote_changed()
            return False
        return bool(super()._SyncObj__doChangeCluster(request, reverse))

    def _SyncObj__updateClusterConfiguration(self, newNodes: Sequence[Node]) -> None:  # noqa: N802, N803 - the core's
        """A learner does not know itself as one that votes; a snapshot may say that it does, or does no more."""
        super()._SyncObj__updateClusterConfiguration([node for node in newNodes if node != self._own])
        self._listener.own_vote_changed()

    def _SyncObj__onNodeDisconnected(self, node: Node) -> None:  # noqa: N802 - the core's name
        self._keeper.cancelTransmisstion(node)
        super()._SyncObj__onNodeDisconnected(node)

    def _SyncObj__onReadonlyNodeDisconnected(self, node: Node) -> None:  # noqa: N802 - the core's name
        """The core would forget how far a learner is that was given a vote meanwhile, and stumble over it."""
        self._keeper.cancelTransmisstion(node)
        if node not in self.voters():
            super()._SyncObj__onReadonlyNodeDisconnected(node)
            return
        self._SyncObj__readonlyNodes.discard(node)
        self._SyncObj__connectedNodes.discard(node)

    def _SyncObj__onReadonlyNodeConnected(self, node: Node) -> None:  # noqa: N802 - the core's name
        if node not in self.voters():
            super()._SyncObj__onReadonlyNodeConnected(node)
            return
        self._SyncObj__readonlyNodes.add(node)
        self._SyncObj__connectedNodes.add(node)

    def _SyncObj__deleteEntriesFrom(self, fromIDx: int) -> None:  # noqa: N802, N803 - the core's name
        if fromIDx <= max(self.applied_index(), self.commit_index()):
            raise MetadataError(
                f"a leader would have entry {fromIDx} of the metadata's log cut, which was agreed on: stopped, since"
                " two members hold different histories; compare their folders before anything else"
            )
        super()._SyncObj__deleteEntriesFrom(fromIDx)

    def _SyncObj__deleteEntriesTo(self, toIDx: int) -> None:  # noqa: N802, N803 - the core's name
        """Keep what those who follow still need: else each snapshot that is taken makes them need the next one."""
        cut_to = min(toIDx, self.applied_index() - 1)
        super()._SyncObj__deleteEntriesTo(min([cut_to, *self._needed()] if self._listener.may_keep() else [cut_to]))

    def _needed(self) -> Iterator[int]:
        """First indexes that connected followers still need of the log."""
        first = self._SyncObj__raftLog[0][1]
        for node in self.connected() if self.is_leading() else ():
            index = max(self._SyncObj__raftMatchIndex.get(node, 0), self._keeper.sent_index.get(node, 0))
            if index > first:
                yield index

    def _SyncObj__getEntries(  # noqa: N802 - the core's name
        self,
        fromIDx: int | None,  # noqa: N803 - the core's name
        count: int | None = None,
        maxSizeBytes: int | None = None,  # noqa: N803 - the core's name
    ) -> Sequence[Entry]:
        if count is None and maxSizeBytes is not None:
            count = RAFT_ENTRIES_A_MESSAGE_MAX
        entries: Sequence[Entry] = super()._SyncObj__getEntries(fromIDx, count, maxSizeBytes)
        return entries

    def _SyncObj__loadDumpFile(self, clearJournal: bool) -> None:  # noqa: N802, N803, FBT001 - the core's name
        """The core logs whatever goes wrong here, and goes on with half of it."""
        snapshot = self._keeper.newest
        super()._SyncObj__loadDumpFile(clearJournal)
        log = self._SyncObj__raftLog
        if (
            snapshot is None
            or self.applied_index() != snapshot.last[1]
            or (log[0], log[1]) != (snapshot.prev, snapshot.last)
        ):
            raise MetadataError("a snapshot of the metadata could not be taken over: see the lines before this one")
        self._SyncObj__raftCommitIndex = max(self.commit_index(), snapshot.last[1])
        self.applied_voters = set(snapshot.members)
        self._SyncObj__raftElectionDeadline = now_s() + self._SyncObj__generateRaftTimeout()
        self._listener.installed()

    def is_leading(self) -> bool:
        """True while this member believes to lead."""
        return bool(self._SyncObj__raftState == LEADER)
