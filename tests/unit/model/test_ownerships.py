"""The index of ownerships agrees with the topics in it, whatever changed."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from danube.model.ownership import Ownerships, TopicOwnership

BROKERS = st.integers(0, 3)
CHANGES = st.lists(st.tuples(st.integers(1, 5), st.none() | st.tuples(BROKERS, BROKERS, st.booleans())), max_size=40)


@given(CHANGES)
def test_topics_by_owner_and_by_broker_are_those_of_the_last_change_of_each(
    changes: list[tuple[int, tuple[int, int, bool] | None]],
) -> None:
    topics, known = Ownerships(), dict[int, TopicOwnership]()
    for topic_id, now in changes:
        known.pop(topic_id, None)
        if now is not None:
            owner, broker, is_pinned = now
            known[topic_id] = TopicOwnership(
                topic_id=topic_id, namespace="n", is_reliable=True, owner=owner, broker=broker, is_pinned=is_pinned
            )
        topics.replace(topic_id, known.get(topic_id))
    assert {one.topic_id: one for one in topics} == known
    assert topics.owners == {one.owner for one in known.values()}
    assert topics.brokers == {each for one in known.values() for each in (one.owner, one.broker)}
    for broker_id in range(4):
        assert topics.owned_by(broker_id) == {each for each, one in known.items() if one.owner == broker_id}
        assert topics.assigned_to(broker_id) == {each for each, one in known.items() if one.broker == broker_id}
    assert +Counter(topics.counts) == Counter(one.broker for one in known.values() if not one.is_pinned)
