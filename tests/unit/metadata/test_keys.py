import pytest

from danube.metadata.records import keys
from danube.model.errors import MetadataError
from danube.model.topic import TopicName

TOPIC = TopicName("default", "orders")
AWKWARD_NAMES = ["plain", "a/b", "/", "..", ".", "50%", "%2F", "ünïcode", "日本", "with space", "😀", "a.b~c"]


def test_each_family_has_a_root_of_its_own() -> None:
    assert [
        keys.namespace("default"),
        keys.topic(TOPIC),
        keys.partitioned(TOPIC),
        keys.subscription(TOPIC, "s/1"),
        keys.consumer(TOPIC, "s/1", "c 1"),
        keys.TOPIC_ID_COUNTER,
        keys.plan("plan-0123456789ab"),
        keys.stored_topic(7),
        keys.deleted_topic(7),
        keys.stored_journal(7),
    ] == [
        "/namespaces/default",
        "/topics/default/orders",
        "/partitioned/default/orders",
        "/subscriptions/default/orders/s%2F1",
        "/consumers/default/orders/s%2F1/c%201",
        "/counters/topic_id",
        "/plans/plan-0123456789ab",
        "/storage/topics/7",
        "/storage/deleted/7",
        "/storage/journals/7",
    ]


@pytest.mark.parametrize("name", AWKWARD_NAMES)
def test_every_member_name_is_one_part_of_a_path(name: str) -> None:
    part = keys.subscription(TOPIC, name).removeprefix(f"{keys.subscriptions_of(TOPIC)}/")
    assert "/" not in part
    assert part not in {"", ".", ".."}


def test_different_names_have_different_keys() -> None:
    assert len({keys.subscription(TOPIC, name) for name in AWKWARD_NAMES}) == len(AWKWARD_NAMES)


@pytest.mark.parametrize("topic", [TOPIC, TopicName("ünï", "日本-part-0")])
def test_topics_and_namespaces_come_back_from_their_keys(topic: TopicName) -> None:
    assert keys.parse_topic(keys.topic(topic)) == topic
    assert keys.parse_namespace(keys.namespace(topic.namespace)) == topic.namespace


@pytest.mark.parametrize("topic_id", [0, 7, 2**64 - 1])
def test_topic_ids_come_back_from_their_keys(topic_id: int) -> None:
    assert keys.parse_stored_topic(keys.stored_topic(topic_id)) == topic_id
    assert keys.parse_deleted_topic(keys.deleted_topic(topic_id)) == topic_id


@pytest.mark.parametrize("part", ["", "x", "07", "-7", "7.0", "\u0667", "7/8", "1" * 21])
def test_what_is_no_topic_id_is_refused(part: str) -> None:
    with pytest.raises(MetadataError, match="another program wrote to this store"):
        keys.parse_stored_topic(f"/storage/topics/{part}")
    with pytest.raises(MetadataError):
        keys.parse_deleted_topic(f"/storage/deleted/{part}")


@pytest.mark.parametrize("key", ["/topics/a", "/topics/a/b/c", "/topics/a/", "/topicsx/a/b", "/namespaces/a/b"])
def test_key_of_another_family_is_refused(key: str) -> None:
    with pytest.raises(MetadataError):
        keys.parse_topic(key)
