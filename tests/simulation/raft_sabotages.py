"""Sabotages of a member of the Raft group: each takes one remedy out, and a seed notices.

The letters are those of `docs/raft.md`. `python -m tests.simulation.raft_sabotages` looks for the first seed of each
anew, after the simulation has changed.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from danube.metadata.raft.core import message_filter
from danube.metadata.raft.core.message_filter import Message, MessageFilter, Trimmed
from danube.metadata.raft.core.overrides import core
from danube.metadata.raft.core.raft_core import RaftCore
from danube.metadata.raft.core.snapshot_keeper import SnapshotKeeper
from danube.metadata.raft.folder import folder
from danube.metadata.raft.folder.durable_log import RaftLog
from danube.metadata.raft.folder.small_files import Vote, VoteFile
from danube.metadata.raft.member import Member
from danube.metadata.raft.values.entries import MEMBERSHIP
from lab.raft.world import simulate
from tests.simulation.sabotage import Sabotaged, search


def cut_whatever_follows(patch: pytest.MonkeyPatch) -> None:
    """Hand every append_entries on as it came: the core cuts all after its first entry."""

    def trimmed(message: Message, log: object, commit_index: int) -> Trimmed:
        if "prevLogIdx" in message:
            return Trimmed(message)
        return Trimmed({**message, "commit_index": min(message["commit_index"], commit_index)})

    patch.setattr(message_filter, "trimmed", trimmed)


def leave_out_syncs(patch: pytest.MonkeyPatch) -> None:
    """Acknowledge entries that are in memory."""
    patch.setattr(RaftLog, "sync", lambda _log: None)


def forget_votes(patch: pytest.MonkeyPatch) -> None:
    """Keep in memory for whom a member has voted, and on the disk only the term."""
    write = VoteFile.write

    def forgetful(self: VoteFile, vote: Vote) -> None:
        write(self, replace(vote, voted_for=None))
        self.vote = vote

    patch.setattr(VoteFile, "write", forgetful)


def count_votes_twice(patch: pytest.MonkeyPatch) -> None:
    """Count each vote as it comes, and have each come twice."""
    receive = MessageFilter.receive

    def twice(self: MessageFilter, node: Any, message: Any) -> None:
        receive(self, node, message)
        if isinstance(message, dict) and message.get("type") == "response_vote":
            receive(self, node, message)

    patch.setattr(MessageFilter, "receive", twice)
    patch.setattr(MessageFilter, "_is_second_vote", lambda *_: False)


def take_older_images(patch: pytest.MonkeyPatch) -> None:
    """Have an image that comes replace the log, whatever was promised of it."""
    patch.setattr(SnapshotKeeper, "agreed_index", lambda *_: 0)


def leave_the_log_unaligned(patch: pytest.MonkeyPatch) -> None:
    """Start with the log as it was found: the core clears it when it does not begin with the image's entries."""
    patch.setattr(folder, "aligned", lambda found, _snapshot: list(found.entries))
    patch.setattr(Member, "_align", lambda _member: None)


def believe_the_image_about_voters(patch: pytest.MonkeyPatch) -> None:
    """After a start, let changes of membership count when they are applied, as the core does."""

    def voters(self: Member) -> frozenset[str]:
        snapshot = self._parts.snapshots.snapshot
        assert snapshot is not None
        return frozenset(snapshot.members)

    do_apply = RaftCore._SyncObj__doApplyCommand

    def apply(self: RaftCore, command: bytes) -> None:
        if command[:1] == MEMBERSHIP:
            self._SyncObj__doChangeCluster(core.pickle.loads(command[1:]))
        do_apply(self, command)

    patch.setattr(Member, "voters", voters)
    patch.setattr(RaftCore, "_SyncObj__doApplyCommand", apply)


def change_members_at_once(patch: pytest.MonkeyPatch) -> None:
    """Take one change of membership on top of another."""
    patch.setattr(RaftCore, "changing", lambda _voting: False)


SABOTAGES: Sequence[Sabotaged] = (
    Sabotaged("a: only what conflicts is cut", cut_whatever_follows, 0, "faults"),
    Sabotaged("b: entries are durable before they are acknowledged", leave_out_syncs, 0, "power"),
    Sabotaged("b: a vote is durable before it is given", forget_votes, 199, "elections"),
    Sabotaged("c: a vote counts once", count_votes_twice, 5, "faults"),
    Sabotaged("d: an older image is refused", take_older_images, 13, "images"),
    Sabotaged("e: the log is aligned to the image", leave_the_log_unaligned, 1, "power"),
    Sabotaged("f: the newest membership in the log counts", believe_the_image_about_voters, 9, "membership"),
    Sabotaged("o: one change of membership at a time", change_members_at_once, 9, "membership"),
)


def is_found(one: Sabotaged, seed: int) -> bool:
    """True if this seed notices; the remedy has to be out already."""
    return bool(simulate(seed, one.kind).violations)


if __name__ == "__main__":
    search(SABOTAGES, is_found)
