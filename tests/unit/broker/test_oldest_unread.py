"""Up to where retention that keeps unread messages may go: as a broker would find it after a crash."""

from types import SimpleNamespace
from typing import cast

import pytest

from danube.broker.policy.retention import oldest_unread
from danube.broker.topics.topic import ReliableTopic
from danube.model.subscription import Cursor

START = 3


def topic_of(*subscriptions: tuple[int, int | None, int | None]) -> ReliableTopic:
    """With subscriptions at a position, with a durable cursor and a jump that is not carried out yet, or none."""
    cursors = {number: Cursor(durable) for number, (_, durable, _) in enumerate(subscriptions) if durable is not None}
    members = {
        str(number): SimpleNamespace(
            record=SimpleNamespace(subscription_id=number, jump=jump),
            driver=SimpleNamespace(engine=SimpleNamespace(position=position)),
        )
        for number, (position, _, jump) in enumerate(subscriptions)
    }
    log = SimpleNamespace(start_offset=START, cursor=cursors.get)
    return cast("ReliableTopic", SimpleNamespace(log=log, subscriptions=members, claimed=[]))


@pytest.mark.parametrize(
    ("position", "durable", "jump", "needed"),
    [
        (20, 20, None, 20),
        (20, 12, None, 12),  # its acknowledgements are not written yet
        (20, 20, 7, 7),  # it was put back, and is not there yet
        (20, 12, 40, 12),
        (20, None, None, START),  # nothing of it was ever written
    ],
)
def test_a_subscription_needs_what_it_would_go_on_with_after_a_crash(
    position: int, durable: int | None, jump: int | None, needed: int
) -> None:
    assert oldest_unread(topic_of((position, durable, jump))) == needed


def test_the_one_that_is_furthest_back_counts_and_nobody_needs_nothing() -> None:
    assert oldest_unread(topic_of((20, 20, None), (9, 9, None), (30, 11, None))) == 9
    assert oldest_unread(topic_of()) is None


def test_a_subscription_that_is_on_its_way_counts_where_it_is_to_begin() -> None:
    topic = topic_of((20, 20, None))
    topic.claimed.append(4)
    assert oldest_unread(topic) == 4
    topic.claimed.append(30)
    assert oldest_unread(topic) == 4
