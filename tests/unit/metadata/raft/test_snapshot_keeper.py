"""Snapshots between the core, the disk and members that are far behind."""

from typing import Any

import pytest
from pysyncobj.config import SERIALIZER_STATE

from danube.metadata.raft.core import snapshot_keeper as keeper_module
from danube.metadata.raft.core.snapshot_keeper import SnapshotKeeper, SnapshotRequest
from danube.metadata.raft.values.entries import NO_OP
from danube.model.limits.metadata import RAFT_SNAPSHOT_PIECE_BYTES, RAFT_SNAPSHOT_RETRY_S, RAFT_SNAPSHOT_WINDOW_BYTES
from tests.unit.metadata.raft.filtered import VOTER, ListLog, Snapshots, snapshot_at


class Kept:
    """A keeper, and what it asked for."""

    def __init__(self, snapshots: Snapshots | None = None, log: ListLog | None = None) -> None:
        self.snapshots = snapshots or Snapshots()
        self.wanted: list[SnapshotRequest] = []
        self.keeper = SnapshotKeeper(self.snapshots, log or ListLog(1, 1), on_wanted=self.wanted.append)
        self.keeper.members_applied = lambda: {"2@b:1", "1@a:1"}

    def ask(self, index: int = 8) -> SnapshotRequest:
        """Have the core want a snapshot after this entry."""
        self.keeper.serialize((None, (NO_OP, index, 1), (NO_OP, index - 1, 1), ()), index - 1)
        return self.wanted[-1]


def _pieces(keeper: SnapshotKeeper) -> list[Any]:
    """All pieces of the snapshot that is there, each confirmed at once."""
    pieces = []
    while True:
        piece = keeper.getTransmissionData(VOTER)
        assert piece is not None
        pieces.append(piece)
        keeper.progressed(VOTER, piece[0]["index"], piece[0]["offset"] + len(piece[0]["bytes"]))
        if piece[2]:
            return pieces


def test_the_core_hears_of_an_image_once_it_is_kept() -> None:
    kept = Kept()
    wanted = kept.ask()
    assert kept.keeper.checkSerializing() == (SERIALIZER_STATE.SERIALIZING, 7)
    kept.keeper.snapshot_made(wanted, [b"state"])
    assert kept.snapshots.snapshot is not None
    assert kept.keeper.checkSerializing() == (SERIALIZER_STATE.SUCCESS, 7)
    assert kept.keeper.checkSerializing() == (SERIALIZER_STATE.NOT_SERIALIZING, None)


def test_an_image_says_who_voted_at_its_moment() -> None:
    kept = Kept()
    kept.keeper.snapshot_made(kept.ask(), [b"state"])
    assert kept.snapshots.snapshot is not None
    assert kept.snapshots.snapshot.members == ("1@a:1", "2@b:1")


def test_an_image_that_cannot_be_written_is_wanted_again_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    times = [100.0]
    monkeypatch.setattr(keeper_module, "now_s", lambda: times[0])
    kept = Kept(Snapshots(error=OSError("full")))
    kept.keeper.snapshot_made(kept.ask(), [b"state"])
    assert kept.keeper.checkSerializing()[0] == SERIALIZER_STATE.FAILED
    assert kept.keeper.checkSerializing()[0] == SERIALIZER_STATE.SERIALIZING  # not at each tick
    times[0] += RAFT_SNAPSHOT_RETRY_S + 1
    assert kept.keeper.checkSerializing()[0] == SERIALIZER_STATE.NOT_SERIALIZING


@pytest.mark.parametrize("size", [1, RAFT_SNAPSHOT_PIECE_BYTES, 3 * RAFT_SNAPSHOT_PIECE_BYTES + 5])
def test_an_image_goes_to_another_member_whole(size: int) -> None:
    sender, receiver = Kept(Snapshots(snapshot_at(40, 3, size=size))), Kept()
    pieces = _pieces(sender.keeper)
    assert [receiver.keeper.setTransmissionData(piece) for piece in pieces] == [False] * (len(pieces) - 1) + [True]
    sent, got = sender.snapshots.snapshot, receiver.snapshots.snapshot
    assert sent is not None and got is not None
    assert (got.prev, got.last, got.members) == (sent.prev, sent.last, sent.members)
    assert got.payload.read(0, size) == sent.payload.read(0, size)


def test_after_an_image_came_its_members_are_those_who_vote() -> None:
    sender, receiver = Kept(Snapshots(snapshot_at(40))), Kept()
    receiver.keeper.members_now = lambda: ("7@z:1",)
    for piece in _pieces(sender.keeper):
        receiver.keeper.setTransmissionData(piece)
    _, last, _, cluster = receiver.keeper.deserialize()
    assert last[1] == 40
    assert [node.id for node in cluster] == ["1@a:1"]
    assert [node.id for node in receiver.keeper.deserialize()[3]] == ["7@z:1"]  # at a start the log counts, too


def test_no_more_than_a_window_of_an_image_is_on_its_way() -> None:
    kept = Kept(Snapshots(snapshot_at(40, size=2 * RAFT_SNAPSHOT_WINDOW_BYTES)))
    sent = 0
    while (piece := kept.keeper.getTransmissionData(VOTER)) is not None:
        sent += len(piece[0]["bytes"])
    assert sent == RAFT_SNAPSHOT_WINDOW_BYTES
    kept.keeper.progressed(VOTER, 40, RAFT_SNAPSHOT_PIECE_BYTES)
    assert kept.keeper.getTransmissionData(VOTER) is not None
    assert kept.keeper.getTransmissionData(VOTER) is None


def test_a_member_that_reconnects_is_sent_the_image_from_its_beginning() -> None:
    kept = Kept(Snapshots(snapshot_at(40, size=3 * RAFT_SNAPSHOT_PIECE_BYTES)))
    kept.keeper.getTransmissionData(VOTER)
    kept.keeper.cancelTransmisstion(VOTER)
    piece = kept.keeper.getTransmissionData(VOTER)
    assert piece is not None
    assert piece[1]


def test_a_new_leader_begins_with_its_images_anew() -> None:
    kept = Kept(Snapshots(snapshot_at(40, size=3 * RAFT_SNAPSHOT_PIECE_BYTES)))
    kept.keeper.getTransmissionData(VOTER)
    kept.keeper.restart_sending()
    assert not kept.keeper.is_sending
    assert not kept.keeper.sent_index
    piece = kept.keeper.getTransmissionData(VOTER)
    assert piece is not None
    assert piece[1]


def test_an_image_that_a_member_declined_is_held_for_nobody() -> None:
    kept = Kept(Snapshots(snapshot_at(40, size=3 * RAFT_SNAPSHOT_PIECE_BYTES)))
    kept.keeper.getTransmissionData(VOTER)
    kept.keeper.declined(VOTER)
    assert not kept.keeper.delays_newer


def test_a_piece_that_does_not_follow_is_left_aside() -> None:
    sender, receiver = Kept(Snapshots(snapshot_at(40, size=3 * RAFT_SNAPSHOT_PIECE_BYTES))), Kept()
    first, second, third = _pieces(sender.keeper)
    assert not receiver.keeper.setTransmissionData(second)
    assert not receiver.keeper.setTransmissionData(first)
    assert not receiver.keeper.setTransmissionData(third)
    assert receiver.keeper.received() == (40, RAFT_SNAPSHOT_PIECE_BYTES)
    assert not receiver.keeper.setTransmissionData(second)
    assert receiver.keeper.setTransmissionData(third)


@pytest.mark.parametrize("piece", [None, (), ({}, True, False), ({"index": 1}, True, True), "text", (None, True, True)])
def test_what_is_no_piece_is_left_aside(piece: Any) -> None:
    kept = Kept()
    assert not kept.keeper.setTransmissionData(piece)
    assert kept.keeper.agreed_index(piece) == 0
    assert kept.snapshots.snapshot is None


@pytest.mark.parametrize(
    ("own", "terms", "agreed"),
    [(None, (1, 1), 0), (None, (1, 1, 1, 2), 4), (None, (1, 1, 1, 1), 0), (4, (), 4), (9, (), 9), (3, (), 0)],
    ids=[
        "behind it",
        "the entry is here",
        "another entry is here",
        "the same snapshot",
        "a newer snapshot",
        "an older one",
    ],
)
def test_only_an_image_of_what_is_not_here_is_taken(own: int | None, terms: tuple[int, ...], agreed: int) -> None:
    snapshots = Snapshots(snapshot_at(own) if own else None)
    piece = Kept(Snapshots(snapshot_at(4, 2))).keeper.getTransmissionData(VOTER)
    assert Kept(snapshots, ListLog(*terms)).keeper.agreed_index(piece) == agreed
