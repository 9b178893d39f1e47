"""Topics of a storage that are dead."""

from danube.storage.stored_topics import StoredTopics


def test_only_a_topic_that_was_deleted_is_dead() -> None:
    topics = StoredTopics(unnamed={3})
    topics.opened.add(1)
    topics.forget(1)
    assert [topics.is_dead(topic_id) for topic_id in (1, 2, 3)] == [True, False, False]
    assert (topics.deleted, topics.opened) == ({1}, set())
