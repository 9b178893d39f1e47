"""Progress of a rebalance: from the record and from where topics are, whoever leads."""

from dataclasses import replace

import pytest

from danube.broker.balance.progress import Now, advanced, assignments
from danube.model.calls.balance import (
    BalanceFigures,
    MoveState,
    Rebalance,
    RebalanceMove,
    RebalancePreview,
    RebalanceState,
)
from danube.model.limits.balance import MOVE_TIMEOUT_S, SETTLE_S_MAX
from danube.model.ownership import TopicOwnership

START_MS = 1_000


def rebalance(count: int = 3, parallel_moves: int = 1) -> Rebalance:
    moves = tuple(
        RebalanceMove(
            topic=f"/default/t{number}",
            topic_id=number,
            source="1",
            target="2",
            source_before=9,
            source_after=8,
            target_before=1,
            target_after=2,
        )
        for number in range(1, count + 1)
    )
    figures = BalanceFigures()
    preview = RebalancePreview(
        verdict="planned",
        summary="Move.",
        strategy="balanced",
        target_cv=0.2,
        made_ms=0,
        before=figures,
        after=figures,
        moves=moves,
    )
    return Rebalance(
        rebalance_id="rebalance-1",
        state=RebalanceState.RUNNING,
        asked_by="somebody",
        started_ms=START_MS,
        preview=preview,
        parallel_moves=parallel_moves,
    )


class Cluster:
    """Topics, and what the leader does about them."""

    def __init__(self, count: int = 3) -> None:
        self.places = {f"/default/t{number}": [number, 1, 1] for number in range(1, count + 1)}
        self.brokers = {1, 2, 3}
        self.takers = {1, 2, 3}
        self.now_ms = START_MS
        self.figures: BalanceFigures | None = None

    def now(self) -> Now:
        topics = {
            name: TopicOwnership(topic_id=topic_id, namespace="default", is_reliable=True, owner=owner, broker=broker)
            for name, (topic_id, owner, broker) in self.places.items()
        }
        return Now(topics=topics, brokers=self.brokers, takers=self.takers, now_ms=self.now_ms, figures=self.figures)

    def lead(self, known: Rebalance) -> Rebalance:
        """One look of a leader."""
        self.now_ms += 10
        after = advanced(known, self.now())
        for name, broker in assignments(after, self.now()):
            self.places[name][2] = broker
        return after

    def arrive(self) -> None:
        """Every topic on its way arrives."""
        for place in self.places.values():
            place[1] = place[2]


def states(known: Rebalance) -> list[str]:
    return [move.state.value for move in known.preview.moves]


def test_moves_are_made_in_their_order_and_so_many_at_a_time() -> None:
    cluster, known = Cluster(5), rebalance(5, parallel_moves=2)
    seen = []
    while known.state is RebalanceState.RUNNING:
        known = cluster.lead(known)
        seen.append(states(known))
        assert sum(state == "moving" for state in seen[-1]) <= 2
        cluster.arrive()
    assert seen[0] == ["moving", "moving", "waiting", "waiting", "waiting"]
    assert seen[-1] == ["done"] * 5
    assert {place[1] for place in cluster.places.values()} == {2}


def test_it_ends_once_reports_from_after_the_last_move_have_come_and_stores_what_they_say() -> None:
    cluster, known = Cluster(1), rebalance(1)
    known = cluster.lead(known)
    cluster.arrive()
    known = cluster.lead(known)
    assert known.state is RebalanceState.SETTLING
    cluster.figures = BalanceFigures(cv=0.1)
    known = cluster.lead(known)
    assert (known.state, known.actual) == (RebalanceState.DONE, cluster.figures)
    assert cluster.lead(known) is known


def test_it_does_not_wait_for_reports_for_ever() -> None:
    cluster, known = Cluster(1), rebalance(1)
    known = cluster.lead(known)
    cluster.arrive()
    known = cluster.lead(known)
    cluster.now_ms += round(SETTLE_S_MAX * 1_000)
    known = cluster.lead(known)
    assert (known.state, known.actual) == (RebalanceState.DONE, None)
    assert "did not come" in known.reason


def test_a_cancelled_one_begins_no_more_moves_and_those_under_way_arrive() -> None:
    cluster, known = Cluster(), rebalance()
    known = replace(cluster.lead(known), state=RebalanceState.CANCELLING, reason="ada cancelled it")
    known = cluster.lead(known)
    assert (known.state, states(known)) == (RebalanceState.CANCELLING, ["moving", "skipped", "skipped"])
    cluster.arrive()
    known = cluster.lead(known)
    assert (known.state, states(known)) == (RebalanceState.CANCELLED, ["done", "skipped", "skipped"])
    assert known.preview.moves[1].error == "ada cancelled it"


@pytest.mark.parametrize("lost", [1, 2])
def test_a_broker_that_is_lost_ends_it_with_what_was_done_and_what_was_not(lost: int) -> None:
    cluster, known = Cluster(), rebalance()
    known = cluster.lead(known)
    cluster.arrive()
    known = cluster.lead(known)
    cluster.brokers.discard(lost)
    if lost == 1:
        cluster.arrive()  # the second one got away in time
    for _ in range(3):
        known = cluster.lead(known)
    assert known.state is RebalanceState.STOPPED
    assert f"broker {lost}" in known.reason
    wanted = ["done", "done", "failed"] if lost == 1 else ["done", "failed", "skipped"]
    assert states(known) == wanted
    if lost == 2:
        assert cluster.places["/default/t2"][2] == 1  # back where it is served


def test_a_move_that_takes_too_long_goes_back_and_ends_it() -> None:
    cluster, known = Cluster(), rebalance()
    known = cluster.lead(known)
    cluster.now_ms += round(MOVE_TIMEOUT_S * 1_000) + 1
    known = cluster.lead(known)
    assert (known.state, states(known)) == (RebalanceState.STOPPED, ["failed", "skipped", "skipped"])
    assert cluster.places["/default/t1"] == [1, 1, 1]


def test_a_topic_that_others_moved_or_deleted_is_skipped_and_the_rest_is_done() -> None:
    cluster, known = Cluster(), rebalance()
    cluster.places["/default/t1"] = [1, 3, 3]
    del cluster.places["/default/t2"]
    known = cluster.lead(known)
    assert states(known) == ["skipped", "skipped", "moving"]
    assert "moved to broker 3" in known.preview.moves[0].error
    assert "deleted" in known.preview.moves[1].error


def test_a_topic_made_anew_under_the_same_name_is_not_moved() -> None:
    cluster, known = Cluster(1), rebalance(1)
    cluster.places["/default/t1"][0] = 99
    assert states(cluster.lead(known)) == ["skipped"]


def test_a_target_that_takes_no_topics_any_more_ends_it_before_the_move() -> None:
    cluster, known = Cluster(), rebalance()
    cluster.takers.discard(2)
    known = cluster.lead(known)
    assert (known.state, states(known)) == (RebalanceState.STOPPED, ["failed", "skipped", "skipped"])
    assert {place[2] for place in cluster.places.values()} == {1}


def test_a_new_leader_goes_on_where_the_one_before_it_died_even_between_record_and_assignment() -> None:
    cluster, known = Cluster(), rebalance()
    known = advanced(known, cluster.now())  # recorded as begun, and then the leader died
    assert states(known) == ["moving", "waiting", "waiting"]
    while known.state is RebalanceState.RUNNING:
        known = cluster.lead(known)
        cluster.arrive()
    assert states(known) == ["done"] * 3
    assert {move.state for move in known.preview.moves} == {MoveState.DONE}
