"""Local node of the Raft group, in Raft's thread: first it joins a cluster, then it is a member of it.

It probes the other seeds and answers them, founds a cluster or accepts an invitation (`bootstrap` decides), and then
ticks its member. It invites known voters that have not begun, since the founder may have died before it did. It asks
missing voters if the cluster goes on without this member. On a full disk it takes no part until there is room again.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from danube.metadata.cluster.membership import MemberRole, MembershipStatus
from danube.metadata.raft.alone import LoneTransport
from danube.metadata.raft.bootstrap import (
    Accept,
    Decision,
    Findings,
    FoundCluster,
    Refuse,
    Wait,
    begin,
    decide,
    is_sound,
    takes_part,
)
from danube.metadata.raft.core.overrides import core
from danube.metadata.raft.core.poller import Poller
from danube.metadata.raft.folder.folder import RaftFolder
from danube.metadata.raft.folder.recovery import members_after
from danube.metadata.raft.member import Member, MemberParts
from danube.metadata.raft.port.inquiry import Invitation, PeerRefusedError, Probe
from danube.metadata.raft.port.refusals import Reason
from danube.metadata.raft.port.transport import RaftTransport
from danube.metadata.raft.settings import RaftSettings
from danube.metadata.raft.values.entries import MEMBERSHIP
from danube.metadata.raft.values.node import ALONE, RaftNode
from danube.model.errors import (
    DataFolderError,
    JournalStoppedError,
    MetadataError,
    PreconditionFailedError,
    UnavailableError,
)
from danube.model.limits.metadata import (
    RAFT_FULL_RETRY_S,
    RAFT_PROBE_S,
    RAFT_PROBE_TIMEOUT_S,
    RAFT_WAITING_LINE_S,
)
from danube.runtime.clock import Clock
from danube.runtime.disk import was_full
from danube.runtime.rng import Rng

_log = logging.getLogger(__name__)

_FULL = "the disk of its data folder is full, and it takes no part in the metadata cluster until there is room again"


class LocalNode:
    """Part of this process in the Raft group. All calls come from Raft's thread."""

    def __init__(
        self,
        settings: RaftSettings,
        own: RaftNode,
        folder: RaftFolder,
        *,
        transport: RaftTransport | LoneTransport,
        poller: Poller,
        clock: Clock,
        rng: Rng,
    ) -> None:
        self.own = own
        self.member: Member | None = None
        self.on_member: Callable[[Member], None] = lambda _member: None
        """Told when this process has become a member."""
        self.transport = transport
        self.waits = ""
        """Reason for waiting, while it belongs to no cluster."""
        self.make_room: Callable[[], bool] = lambda: True
        """Called on a full disk; answers whether there is room to go on."""
        self.full = ""
        """Reason for taking no part, while the disk is full."""
        self._stopped: Member | None = None
        self._retry_at_s = 0.0
        self._settings = settings
        self._folder = folder
        self._poller = poller
        self._clock = clock
        self._rng = rng
        self._answers: dict[str, Probe] = {}
        self._refusals: dict[str, str] = {}
        self._selves: set[str] = set()
        self._asked: set[str] = set()
        self._invitation: Invitation | None = None
        self._ask_at_s = 0.0
        self._waiting_line_s, self._full_line_s = clock.monotonic_s(), 0.0
        transport.on_probe = self._on_probe
        transport.on_invite = self._on_invite

    @property
    def cluster_id(self) -> str:
        """ "" while this process belongs to no cluster."""
        return self._folder.cluster_id if self._folder.snapshot is not None else ""

    @property
    def term(self) -> int:
        """0 while this process belongs to no cluster."""
        return self.member.core.current_term() if self.member is not None else 0

    def tick(self) -> None:
        """Do what is due, and wait for others a moment. Raises whatever ends this member."""
        self.transport.tick()
        try:
            self._take_part()
        except (MetadataError, DataFolderError, JournalStoppedError, OSError) as error:
            if not was_full(error):
                raise
            self._stop_on_full_disk(error)

    def _take_part(self) -> None:
        if self.full:
            self._go_on()
        if self.member is None and not self.full:
            self._begin()
        if self.member is None:
            self._poller.poll(self._settings.timing.tick_s)
        else:
            self.member.tick(self._settings.timing.tick_s)
            self._probe_missing(self.member)

    def _stop_on_full_disk(self, error: Exception) -> None:
        if self.member is not None:
            self.member.close()
            self._stopped, self.member = self.member, None
        self.full = f"this broker cannot write: {_FULL}"
        now_s = self._clock.monotonic_s()
        if now_s >= self._full_line_s:
            self._full_line_s = now_s + RAFT_WAITING_LINE_S
            _log.error("this broker cannot write: %s: %s", _FULL, error.__cause__ or error)

    def _go_on(self) -> None:
        """Open the folder again, once there is room."""
        now_s = self._clock.monotonic_s()
        if now_s < self._retry_at_s:
            return
        self._retry_at_s = now_s + RAFT_FULL_RETRY_S
        if not self.make_room():
            return
        if self._stopped is None:
            self._folder.reopen()
        else:
            self._stopped.reopen()
        self.member, self._stopped, self.full = self._stopped, None, ""
        _log.warning("the disk has room again: this broker takes part in the metadata cluster")

    def propose(self, command: bytes) -> bool:
        return self.member is not None and self.member.propose(command)

    def view(self) -> MembershipStatus:
        """Status of this member."""
        if self.member is not None:
            return self.member.view()
        own = self.own
        return MembershipStatus(kind="raft", node_id=own.node_id, address=own.address, has_quorum=False)

    def close(self) -> None:
        """Take part no more, and have the folder say that all of it is there."""
        if self.member is not None:
            self.member.close()
        self.transport.destroy()
        self._poller.close()
        self._folder.close()

    # Beginning

    def _begin(self) -> None:
        if self._folder.snapshot is not None:
            self._become_member()
            return
        now_s = self._clock.monotonic_s()
        if now_s >= self._ask_at_s and not self._settings.join:
            self._ask_at_s = now_s + RAFT_PROBE_S
            self._ask_seeds()
        findings = Findings(
            own=self.own,
            seeds=self._settings.seeds,
            join=self._settings.join,
            answers=self._answers,
            refusals=self._refusals,
            selves=frozenset(self._selves),
            invitation=self._invitation,
        )
        self._do(decide(findings), now_s)

    def _do(self, decision: Decision, now_s: float) -> None:
        match decision:
            case FoundCluster(members):
                self._belong(self._folder.cluster_id or f"{self._rng.new_id():016x}", members)
                level = logging.DEBUG if self._settings.is_alone else logging.INFO
                _log.log(level, "this broker founds the cluster %s of %d voters", self.cluster_id, len(members))
            case Accept(invitation):
                self._belong(invitation.cluster_id, invitation.members)
                _log.info("this broker takes part in the cluster %s", self._folder.cluster_id)
            case Wait(reason, is_fault):
                self.waits = reason
                if now_s >= self._waiting_line_s:
                    self._waiting_line_s = now_s + RAFT_WAITING_LINE_S
                    level = logging.WARNING if is_fault else logging.INFO
                    _log.log(level, "this broker belongs to no cluster yet and waits %s", reason)
            case Refuse(reason):
                raise MetadataError(reason)

    def _belong(self, cluster_id: str, members: tuple[str, ...]) -> None:
        begin(self._folder, cluster_id, members)
        self._become_member()

    def _become_member(self) -> None:
        self._settle_address()
        parts = MemberParts(
            own=self.own,
            log=self._folder.log,
            snapshots=self._folder,
            transport=self.transport,
            poller=self._poller,
            timing=self._settings.timing,
            bounds=self._settings.log,
            voters_after=members_after,
            is_alone=self._settings.is_alone,
        )
        self.member = Member(parts)
        self.on_member(self.member)

    def _settle_address(self) -> None:
        """Have the group know the address of this member. Raises PreconditionFailedError where it knows another one."""
        snapshot, before = self._folder.snapshot, RaftNode.of(self.own.node_id, ALONE)
        members = members_after(snapshot.members if snapshot else (), self._folder.log[:])
        if self.own != before and before.id in members:
            self._leave_loneliness(before, members)
            return
        for member in map(RaftNode, members):
            if member.node_id == self.own.node_id and member != self.own:
                raise PreconditionFailedError(
                    f"the cluster knows this broker at {member.address} and it was started with {self.own.address}:"
                    f" start it with the Raft address {member.address}, or move its folder `raft` away, remove the old"
                    " member and add this one"
                )

    def _leave_loneliness(self, before: RaftNode, members: Sequence[str]) -> None:
        """Enter the first address of a group of one. It has the only vote: what it writes is agreed on.

        The address comes before the old one goes: a crash in between leaves both, and the next start ends it.
        """
        log, changes = self._folder.log, [("rem", before)]
        if self.own.id not in members:
            changes.insert(0, ("add", self.own))
        for what, node in changes:
            command = MEMBERSHIP + core.pickle.dumps([what, node.id, node])
            log.add(command, log.last_index + 1, log.getCurrentTerm())
        log.sync()

    def _ask_seeds(self) -> None:
        for seed in self._settings.seeds:
            if seed != self.own.address and seed not in self._selves:
                self._ask(seed, partial(self._seed_answered, seed))

    def _seed_answered(self, seed: str, answer: Probe | Exception) -> None:
        if isinstance(answer, Probe):
            self._answers[seed] = answer
            self._refusals.pop(seed, None)
        elif isinstance(answer, PeerRefusedError) and answer.reason is Reason.SELF:
            self._selves.add(seed)
        else:
            self._answers.pop(seed, None)
            self._refusals[seed] = str(answer)

    def _ask(self, address: str, done: Callable[[Probe | Exception], None]) -> None:
        """Probe, one question to one address at a time."""
        if address not in self._asked:
            self._asked.add(address)
            self.transport.probe(address, RAFT_PROBE_TIMEOUT_S, partial(self._asked_one, address, done))

    def _asked_one(self, address: str, done: Callable[[Probe | Exception], None], answer: Probe | Exception) -> None:
        self._asked.discard(address)
        if isinstance(answer, Probe) and not is_sound(answer):
            answer = UnavailableError("it answers what cannot be read")
        done(answer)

    # Being asked

    def _on_probe(self) -> Mapping[str, Any]:
        if self.member is None:
            return {"has_leader": False, "members": [], "seeds": list(self._settings.seeds)}
        return {"has_leader": self.member.core.leader() is not None, "members": sorted(self.member.voters())}

    def _on_invite(self, invitation: Invitation) -> bool:
        wanted = MemberRole.LEARNER if self._settings.join else MemberRole.VOTER
        is_named = (str(self.own.id) in invitation.members) is (wanted is MemberRole.VOTER)
        fits = self._folder.cluster_id in ("", invitation.cluster_id)
        if self.member is not None or invitation.role is not wanted or not is_named or not fits:
            return False
        self._invitation = self._invitation or invitation
        return self._invitation == invitation

    # Looking after the others

    def _probe_missing(self, member: Member) -> None:
        now_s = self._clock.monotonic_s()
        if now_s < self._ask_at_s:
            return
        self._ask_at_s = now_s + 2 * RAFT_PROBE_S
        for node in member.missing():
            self._ask(node.address, partial(self._missing_answered, node))

    def _missing_answered(self, node: RaftNode, answer: Probe | Exception) -> None:
        snapshot, member = self._folder.snapshot, self.member
        if not isinstance(answer, Probe) or snapshot is None or member is None or answer.node_id != node.node_id:
            return
        if answer.cluster_id == "" and node.id in snapshot.members:
            invitation = Invitation(cluster_id=self.cluster_id, members=snapshot.members, role=MemberRole.VOTER)
            self.transport.invite(node.address, invitation, RAFT_PROBE_TIMEOUT_S, _ignore)
        elif answer.cluster_id == self.cluster_id and member.role is MemberRole.VOTER:
            is_member = takes_part(self.own.node_id, answer)
            if is_member is not None:
                member.removed_member() if not is_member else member.not_removed()


def _ignore(_answer: object) -> None:
    """True if it accepted shows when it connects."""
