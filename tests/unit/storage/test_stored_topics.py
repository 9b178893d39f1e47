"""Which topics of a storage are dead, and what is remembered of them."""

import pytest

from danube.storage.stored_topics import StoredTopics

TOPICS = range(3, 1_003)


def deleted_of(known: frozenset[int] | None) -> StoredTopics:
    """Of topics that were opened, and then deleted."""
    topics = StoredTopics(known)
    for topic_id in TOPICS:
        topics.opened.add(topic_id)
        assert not topics.is_dead(topic_id)
        topics.forget(topic_id)
    return topics


@pytest.mark.parametrize("known", [None, frozenset({1}), frozenset({1, *TOPICS})])
def test_a_deleted_topic_is_dead_for_good_whether_it_was_known_at_the_start_or_not(
    known: frozenset[int] | None,
) -> None:
    topics = deleted_of(known)
    assert all(topics.is_dead(topic_id) for topic_id in TOPICS)


def test_nothing_is_remembered_of_topics_that_came_and_went_since_the_start() -> None:
    topics = deleted_of(frozenset({1, 2}))
    topics.forget(2)
    assert (topics.deleted, topics.opened) == ({2}, set())
