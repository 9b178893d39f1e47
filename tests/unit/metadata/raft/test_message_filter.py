"""Each thing that the core does wrong with a message, and that it is not given the chance to."""

from typing import Any

import pytest
from pysyncobj.node import Node

from danube.metadata.raft.core.message_filter import Message, MessageFilter, admit, trimmed
from danube.metadata.raft.values.entries import MEMBERSHIP, REGULAR
from danube.model.limits.metadata import RAFT_ENTRY_BYTES_MAX
from tests.unit.metadata.raft.filtered import (
    LEADER,
    LEARNER,
    UNKNOWN_PEER,
    VOTER,
    FixedView,
    KeptTransport,
    ListLog,
    Pieces,
    append,
    entries,
)


class Core:
    """What the guard hands on to."""

    def __init__(self, log: ListLog | None = None) -> None:
        self.log = log or ListLog(1, 1)
        self.transport = KeptTransport()
        self.pieces = Pieces()
        self.view = FixedView()
        self.message_filter = MessageFilter(self.transport, self.log, self.pieces)
        self.message_filter.attach(self.view)
        self.message_filter.setOnMessageReceivedCallback(self._take)
        self.taken: list[Message] = []
        self.last_index_seen = 0
        self.error: Exception | None = None

    def _take(self, _node: Node, message: Message) -> None:
        if self.error is not None:
            raise self.error
        self.taken.append(message)
        self.last_index_seen = self.log.last_index


# a: what conflicts is cut, and nothing else


def test_entries_that_are_there_are_not_handed_on_and_nothing_is_cut() -> None:
    core = Core(ListLog(1, 1, 2, 2, 2))
    _, second, third, *_ = core.log.all
    core.message_filter.receive(LEADER, append(third, previous=second))
    assert core.taken == [append(previous=third)]
    assert core.last_index_seen == 3  # else the core cut what follows
    assert core.log.last_index == 5


def test_a_heartbeat_from_further_back_cuts_nothing() -> None:
    core = Core(ListLog(1, 1, 2, 2))
    core.message_filter.receive(LEADER, append(previous=core.log.all[1]))
    assert core.last_index_seen == 2
    assert core.log.last_index == 4


def test_entries_that_follow_are_handed_on_behind_those_that_are_there() -> None:
    log = ListLog(1, 1, 2)
    _, second, third = log.all
    new = entries(2, 2, first=4)
    trim = trimmed(append(third, *new, previous=second), log, 0)
    assert trim.message == append(*new, previous=third)
    assert trim.narrow_to is None


def test_a_conflict_is_handed_on_from_where_it_begins() -> None:
    log = ListLog(1, 1, 2, 2)
    first, second, *_ = log.all
    other = entries(3, 3, first=3)
    trim = trimmed(append(second, *other, previous=first), log, 0)
    assert trim.message == append(*other, previous=second)
    assert trim.narrow_to is None


@pytest.mark.parametrize("previous", [entries(4, first=2)[0], entries(2, first=9)[0]], ids=["other term", "missing"])
def test_what_does_not_fit_is_left_to_the_core_which_asks_for_more(previous: Any) -> None:
    message = append(*entries(4, first=previous[1] + 1), previous=previous)
    assert trimmed(message, ListLog(1, 1, 2), 0).message is message


def test_the_log_is_whole_again_after_the_core_failed() -> None:
    core = Core(ListLog(1, 1, 2, 2))
    core.error = RuntimeError("broken")
    with pytest.raises(RuntimeError):
        core.message_filter.receive(LEADER, append(previous=core.log.all[1]))
    assert core.log.last_index == 4
    assert core.message_filter.failure is core.error


# b: durable before it is promised


def _ack(*, success: bool) -> Message:
    return {"type": "next_node_idx", "next_node_idx": 3, "reset": False, "success": success}


def test_a_promise_leaves_after_the_log_was_synced() -> None:
    core = Core()
    core.message_filter.send(LEADER, _ack(success=True))
    assert core.log.syncs == 1
    core.message_filter.send(LEADER, _ack(success=False))
    assert core.log.syncs == 1


def test_a_promise_that_cannot_be_kept_is_not_made() -> None:
    core = Core()
    core.log.error = OSError("the disk is gone")
    with pytest.raises(OSError, match="the disk is gone"):
        core.message_filter.send(LEADER, _ack(success=True))
    assert not core.transport.sent


# c: who may say what, and when


def test_what_a_follower_has_is_said_with_its_term() -> None:
    core = Core()
    core.message_filter.send(LEADER, _ack(success=True))
    assert core.transport.sent == [(LEADER, {**_ack(success=True), "term": 5})]


@pytest.mark.parametrize(
    ("node", "message", "reason"),
    [
        (VOTER, {**_ack(success=True), "term": 4}, "another term"),
        (UNKNOWN_PEER, {**_ack(success=True), "term": 5}, "takes no part"),
        (LEARNER, {"type": "request_vote", "term": 6, "last_log_index": 9, "last_log_term": 5}, "no vote"),
        (UNKNOWN_PEER, {"type": "response_vote", "term": 5}, "takes no part"),
        (LEARNER, {"type": "response_vote", "term": 5}, "no vote"),
        (VOTER, {"type": "response_vote", "term": 4}, "another term"),
        (LEARNER, append(previous=entries(1)[0]), "does not lead"),
        (VOTER, {"type": "timeout_now", "term": 5}, "only the leader"),
        (LEADER, {"type": "timeout_now", "term": 6}, "only the leader"),
    ],
)
def test_what_a_member_must_not_say_is_not_heard(node: Node, message: Message, reason: str) -> None:
    assert reason in admit(node, message, FixedView())


@pytest.mark.parametrize(
    ("node", "message"),
    [
        (VOTER, {**_ack(success=True), "term": 5}),
        (LEARNER, {**_ack(success=True), "term": 5}),
        (LEARNER, {**_ack(success=False), "term": 6}),  # a leader of term 5 leads no more
        (VOTER, {"type": "request_vote", "term": 6, "last_log_index": 9, "last_log_term": 5}),
        (LEADER, append(previous=entries(1)[0])),
        (LEADER, {"type": "timeout_now", "term": 5}),
        (LEARNER, {"type": "apply_command", "command": REGULAR + b"x"}),
        (UNKNOWN_PEER, append(previous=entries(1)[0])),  # a voter that this member has not heard of may lead
    ],
)
def test_what_a_member_may_say_is_heard(node: Node, message: Message) -> None:
    assert admit(node, message, FixedView()) == ""


def test_a_guest_is_voted_for_only_while_nobody_leads() -> None:
    request = {"type": "request_vote", "term": 6, "last_log_index": 9, "last_log_term": 5}
    assert "takes no part" in admit(UNKNOWN_PEER, request, FixedView())
    assert admit(UNKNOWN_PEER, request, FixedView(led_by=None)) == ""
    assert "no vote" in admit(LEARNER, request, FixedView(led_by=None))


@pytest.mark.parametrize(
    "message",
    [{"type": "apply_command", "command": REGULAR + b"x"}, {"type": "removed"}, {"type": "ask"}, {"type": "answer"}],
)
def test_a_guest_says_nothing_else_unless_it_leads(message: Message) -> None:
    assert "takes no part" in admit(UNKNOWN_PEER, message, FixedView())
    assert admit(UNKNOWN_PEER, message, FixedView(led_by=UNKNOWN_PEER)) == ""


def test_a_vote_counts_once_in_a_term() -> None:
    core = Core()
    vote = {"type": "response_vote", "term": 5}
    for node in (VOTER, VOTER, LEADER, VOTER):
        core.message_filter.receive(node, vote)
    assert len(core.taken) == 2
    core.view.term = 6
    core.message_filter.receive(VOTER, {**vote, "term": 6})
    assert len(core.taken) == 3


def test_a_late_vote_of_another_term_has_no_vote_counted_twice() -> None:
    core = Core()
    for term in (5, 4, 5, 6, 5):
        core.message_filter.receive(VOTER, {"type": "response_vote", "term": term})
    assert len(core.taken) == 1


@pytest.mark.parametrize(
    "message",
    [
        None,
        [],
        {"type": "append_entries"},
        {**append(previous=entries(1)[0]), "term": -1},
        {**append(previous=entries(1)[0]), "term": True},
        {**append(previous=entries(1)[0]), "transmission": "start"},
        append(*entries(1, first=5), previous=entries(1)[0]),
        append((b"", 2, 1), previous=entries(1)[0]),
        append(("text", 2, 1), previous=entries(1)[0]),  # type: ignore[arg-type]
        {"type": "apply_command", "command": MEMBERSHIP + b"x"},
        {"type": "apply_command", "command": bytes(RAFT_ENTRY_BYTES_MAX + 1)},
        {"type": "apply_command", "command": REGULAR, "request_id": 1},
        {"type": "apply_command_response", "request_id": 1},
        {"type": "whatever"},
    ],
)
def test_a_malformed_message_is_not_heard(message: Any) -> None:
    core = Core()
    core.message_filter.receive(LEADER, message)
    assert not core.taken
    assert core.message_filter.refused == 1


# d and n: pieces of snapshots


def _piece(commit: int = 9, term: int = 5) -> Message:
    return {"type": "append_entries", "term": term, "commit_index": commit, "serialized": ({}, True, False)}


def test_a_piece_of_an_image_says_nothing_about_what_is_committed_here() -> None:
    core = Core()
    core.message_filter.receive(LEADER, _piece(commit=9))
    assert core.taken[0]["commit_index"] == core.view.commit


def test_a_piece_is_answered_so_that_the_leader_knows_who_lives_and_how_far_it_is() -> None:
    core = Core()
    core.pieces.got = (40, 1_000)
    core.message_filter.receive(LEADER, _piece())
    ((node, answer),) = core.transport.sent
    assert node == LEADER
    assert answer == {**_ack(success=False), "next_node_idx": 1, "image": (40, 1_000), "term": 5}


def test_an_image_that_is_not_needed_is_refused_with_where_to_go_on() -> None:
    core = Core()
    core.pieces.agreed = 30
    core.message_filter.receive(LEADER, _piece())
    assert core.taken[0]["serialized"] is None
    ((_, answer),) = core.transport.sent
    assert (answer["next_node_idx"], answer["reset"], answer["success"]) == (31, True, False)


def test_what_the_image_of_a_leader_covers_was_agreed_on() -> None:
    core = Core()
    core.pieces.agreed = 2
    core.message_filter.receive(LEADER, _piece(commit=9))
    assert core.taken[0]["commit_index"] == 2


def test_a_follower_that_goes_on_from_the_log_is_sent_no_snapshot() -> None:
    core = Core()
    core.message_filter.receive(VOTER, {**_ack(success=False), "term": 5, "reset": True})
    core.message_filter.receive(VOTER, {**_ack(success=True), "term": 5})
    assert core.pieces.refusals == [VOTER]


def test_a_piece_of_an_earlier_term_is_not_answered() -> None:
    core = Core()
    core.message_filter.receive(LEADER, _piece(term=4))
    assert not core.transport.sent


def test_what_came_of_an_image_is_told_to_its_keeper() -> None:
    core = Core()
    core.message_filter.receive(VOTER, {**_ack(success=False), "term": 5, "image": (40, 1_000)})
    assert core.pieces.progress == [(VOTER, 40, 1_000)]


# q: conflicts are found in steps of terms


@pytest.mark.parametrize(("conflict", "commit", "asked"), [(6, 1, 4), (6, 4, 5), (3, 1, 2), (9, 1, 9)])
def test_after_a_conflict_the_leader_is_asked_for_all_of_that_term(conflict: int, commit: int, asked: int) -> None:
    core = Core(ListLog(1, 2, 2, 3, 3, 3))
    core.view.commit = commit
    core.message_filter.send(LEADER, {**_ack(success=False), "next_node_idx": conflict, "reset": True})
    assert core.transport.sent[0][1]["next_node_idx"] == asked


def test_a_follower_goes_on_behind_the_last_entry_at_most() -> None:
    core = Core(ListLog(1, 1))
    core.message_filter.receive(VOTER, {**_ack(success=False), "next_node_idx": 99, "term": 5, "reset": True})
    assert core.taken[0]["next_node_idx"] == 3


def test_a_follower_that_asks_for_other_entries_does_not_wait_for_a_heartbeat() -> None:
    core = Core()
    core.message_filter.receive(VOTER, {**_ack(success=False), "term": 5, "reset": True})
    assert core.view.in_haste == 1


# Whatever else


def test_entries_wait_for_a_member_that_takes_nothing() -> None:
    core = Core()
    core.transport.room = False
    assert not core.message_filter.send(VOTER, append(*entries(5, first=3), previous=entries(1, 1)[1]))
    assert core.message_filter.send(VOTER, append(previous=entries(1, 1)[1]))  # a heartbeat has room


def test_messages_of_our_own_do_not_reach_the_core() -> None:
    core = Core()
    own: list[Message] = []
    core.message_filter.on_own = lambda _node, message: own.append(message)
    core.message_filter.receive(LEARNER, {"type": "ask", "number": 1})
    assert own == [{"type": "ask", "number": 1}]
    assert not core.taken


def test_nobody_administers_a_member_by_utility_messages() -> None:
    core = Core()
    core.message_filter.setOnUtilityMessageCallback("remove", print)
    assert not core.transport._onUtilityMessageCallbacks


def test_a_guard_that_was_put_away_hands_on_nothing() -> None:
    core = Core()
    core.message_filter.destroy()
    core.message_filter.receive(LEADER, append(previous=entries(1)[0]))
    assert not core.taken
