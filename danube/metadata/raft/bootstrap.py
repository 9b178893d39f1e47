"""Bootstrap: how a cluster begins, and what a member without a cluster does.

Without seeds a broker is a cluster of its own. With seeds it asks all of them. When all have answered, with the same
seeds, and none belongs to a cluster, the one with the lowest node id founds it and invites the others. A broker that
finds a cluster which does not know it founds nothing: two clusters under one name would be worse than none. With
`--join` it waits for an invitation. A member of a cluster never begins anew, whatever its seeds say.

`decide` does no I/O.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from danube.metadata.raft.core.overrides import Entry
from danube.metadata.raft.folder.folder import RaftFolder
from danube.metadata.raft.folder.snapshot import HeldSnapshot, MemoryBytes
from danube.metadata.raft.port.inquiry import Invitation, Probe
from danube.metadata.raft.values.entries import NO_OP
from danube.metadata.raft.values.node import RaftNode
from danube.metadata.replication.snapshot_format import encode_state
from danube.metadata.state import StateSnapshot
from danube.model.errors import InvalidRequestError
from danube.model.limits.metadata import RAFT_VOTES_MAX

_LISTED_CHARS_MAX = 500  # of what a peer says, in one line of the log
FIRST_ENTRIES: tuple[Entry, Entry] = ((NO_OP, 1, 0), (NO_OP, 2, 0))
"""The log of each member of each cluster begins with these, so that all logs have them in common."""


@dataclass(frozen=True, slots=True)
class FoundCluster:
    """Begin a cluster with these voters."""

    members: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Accept:
    """Take part as the invitation says."""

    invitation: Invitation


@dataclass(frozen=True, slots=True)
class Wait:
    """Go on asking."""

    reason: str
    is_fault: bool = False
    """True if somebody has to correct something first."""


@dataclass(frozen=True, slots=True)
class Refuse:
    """Do not start."""

    reason: str


Decision = FoundCluster | Accept | Wait | Refuse


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """All that a member without a cluster knows of the others."""

    own: RaftNode
    seeds: Sequence[str]
    join: bool
    answers: Mapping[str, Probe]
    """Answers by seed; each sound."""
    refusals: Mapping[str, str]
    """Reasons by seed for no answer: nobody listens, it belongs to another cluster, or it has another secret."""
    selves: frozenset[str] = frozenset()
    """Seeds that are this very process under another name."""
    invitation: Invitation | None = None


def is_sound(probe: Probe) -> bool:
    """True if what a member says of itself, and of whom it knows, can be read."""
    members = probe.more.get("members")
    try:
        RaftNode.of(probe.node_id, probe.address)
        return isinstance(members, list) and all(RaftNode(member) for member in members)
    except (InvalidRequestError, AttributeError):
        return False


def takes_part(node_id: int, probe: Probe) -> bool | None:
    """True if this member votes in the cluster, as another voter says; None if that one cannot know."""
    if node_id in {RaftNode(voter).node_id for voter in probe.more.get("members", ())}:
        return True
    return False if probe.has_leader else None


def decide(findings: Findings) -> Decision:
    """Decide what to do next."""
    own = findings.own
    if findings.invitation is not None:
        return Accept(findings.invitation)
    if findings.join:
        return Wait(
            f"to be added: run `{add_command('HOST:7650', own.address)}`, where HOST is any broker of the cluster"
        )
    others = [seed for seed in findings.seeds if seed != own.address and seed not in findings.selves]
    if not others:
        return FoundCluster((str(own.id),))
    return _refusal(findings) or _disagreement(findings) or _among_seeds(findings, others)


def _refusal(findings: Findings) -> Refuse | None:
    own = findings.own
    if len(findings.seeds) > RAFT_VOTES_MAX:
        return Refuse(
            f"{len(findings.seeds)} seeds are too many: begin with three or five brokers, and add the others with"
            f" `{add_command(own.address, 'ADDRESS')}`, each by the address of its Raft port ({RAFT_VOTES_MAX} is the"
            " most)"
        )
    for seed, probe in sorted(findings.answers.items()):
        if probe.cluster_id:
            members = [RaftNode(member) for member in probe.more.get("members", ())]
            if any(member.node_id == own.node_id for member in members):
                continue
            adding = f"start this one with --join and run `{add_command(seed, own.address)}`"
            former = next((member.node_id for member in members if member.address == own.address), None)
            if former is not None:
                return Refuse(
                    f"the cluster of {seed} knows the broker at {own.address} as another one: its data folder was lost"
                    f" or exchanged. Remove the old one (`{remove_command(seed, former)}`),"
                    f" {adding}"
                )
            if probe.has_leader:
                return Refuse(
                    f"{seed} belongs to a cluster already ({probe.cluster_id}), which does not know this broker:"
                    f" {adding}, or correct its seeds"
                )
    return None


def _disagreement(findings: Findings) -> Wait | None:
    """Brokers with different seeds found nothing: some of them would be left out, or form a cluster of their own."""
    for seed, probe in sorted(findings.answers.items()):
        theirs = probe.more.get("seeds")
        if probe.cluster_id == "" and isinstance(theirs, list) and set(map(str, theirs)) != set(findings.seeds):
            return Wait(
                f"until all brokers have the same seeds: this one has {_listed(findings.seeds)}, and {seed} has"
                f" {_listed(theirs)}. Correct meta_store.seed_nodes (--seed-nodes) of the wrong one, and restart it",
                is_fault=True,
            )
    return None


def _listed(seeds: Sequence[object]) -> str:
    return ", ".join(sorted(map(str, seeds)))[:_LISTED_CHARS_MAX] or "none"


def _among_seeds(findings: Findings, others: Sequence[str]) -> Decision:
    own = findings.own
    missing = [seed for seed in others if seed not in findings.answers]
    if missing:
        why = "".join(f" ({findings.refusals[seed]})" for seed in missing[:1] if seed in findings.refusals)
        return Wait(f"for {', '.join(missing)} to answer{why}: start all seeds, with the same secret")
    members = {RaftNode.of(probe.node_id, probe.address) for probe in findings.answers.values()}
    if own.address not in findings.seeds and not findings.selves:
        return Refuse(
            f"none of the seeds is this broker's address {own.address}: put it among the seeds of all brokers that form"
            " the cluster, or start this one with --join"
        )
    members.add(own)
    founder = min(members, key=lambda member: member.node_id)
    if founder != own or any(probe.cluster_id for probe in findings.answers.values()):
        return Wait(f"for the invitation of {founder.address}, which founds the cluster")
    return FoundCluster(tuple(sorted(str(member.id) for member in members)))


def begin(
    folder: RaftFolder,
    cluster_id: str,
    members: Sequence[str],
    state: StateSnapshot = StateSnapshot(),  # noqa: B008 - a value
    after: tuple[Entry, Entry] = FIRST_ENTRIES,
) -> None:
    """Make a folder without a snapshot that of a member, whose sequence begins after these entries. Raises OSError."""
    prev, last = after
    payload = MemoryBytes(*encode_state(state))
    folder.begin(cluster_id, HeldSnapshot(prev=prev, last=last, members=tuple(sorted(members)), payload=payload))


_ADMIN_PORT = 50_051  # the usual one: members do not tell theirs to who is none


def add_command(member: str, address: str) -> str:
    """Add the broker at this address to the cluster of a member; both are `host:port` of Raft."""
    return f"{_at(member)} add-node --node-addr {address}"


def remove_command(member: str, node_id: int) -> str:
    """Remove this one from the cluster of a member."""
    return f"{_at(member)} remove-node --node-id {node_id}"


def _at(member: str) -> str:
    return f"danube-admin --endpoint http://{member.rpartition(':')[0]}:{_ADMIN_PORT} cluster"
