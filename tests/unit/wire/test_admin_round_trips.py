"""Every call and every answer of the admin port: encoded by one side, decoded by the other, the same value."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from danube.model.calls.admin import (
    BrokerDescription,
    BrokerInfo,
    ConsumerDescription,
    CreatePartitionedTopic,
    CreateTopic,
    DescribeCursor,
    DescribeTopics,
    JournalDescription,
    NamespacePolicies,
    ReliableState,
    StorageDescription,
    SubscriptionDescription,
    TopicDescription,
    TopicDetails,
    TopicInfo,
    TopicsPage,
    Unsubscribe,
)
from danube.model.calls.object_use import TopicStorageDescription
from danube.model.errors import InvalidNameError, InvalidRequestError
from danube.model.limits.broker import DESCRIBE_NAMES_MAX, DESCRIBE_TOPICS_DEFAULT, DESCRIBE_TOPICS_MAX, PARTITIONS_MAX
from danube.model.plans.durability import Durability
from danube.model.subscription import SubscriptionType
from danube.model.topic import DispatchStrategy, TopicName
from danube.wire import admin_messages, control_messages
from danube.wire.codec import Codec
from danube.wire.gen import DanubeAdmin_pb2, DanubeControl_pb2

UINT64, FLOATS = st.integers(0, 2**64 - 1), st.floats(0, 1e12)
PARTS = st.from_regex(r"[\w-]{1,20}", fullmatch=True)
TOPICS = st.builds(TopicName, PARTS, PARTS)
MEMBERS = st.text(min_size=1, max_size=60).filter(str.isprintable)
STRATEGIES = st.sampled_from(DispatchStrategy)
INFOS = st.builds(TopicInfo, topic=TOPICS, broker_id=st.none() | UINT64.map(str), strategy=STRATEGIES)
BROKERS = st.builds(
    BrokerInfo,
    broker_id=UINT64.map(str),
    broker_url=st.text(),
    role=st.text(),
    status=st.text(),
    admin_url=st.text(),
    metrics_url=st.text(),
)
CURSORS = st.builds(DescribeCursor, topic=TOPICS, subscription=st.none() | MEMBERS)


def numbers(kind: type[Any], *names: str) -> dict[str, st.SearchStrategy[int]]:
    """A count for each of the fields named."""
    assert set(names) <= set(kind.__dataclass_fields__)
    return dict.fromkeys(names, UINT64)


STATES = st.builds(
    ReliableState,
    **numbers(ReliableState, "position", "acknowledged_beyond", "lag", "in_flight", "waiting", "ready"),
    **numbers(ReliableState, "blocked", "dead_letters"),
    oldest_unacknowledged_ms=st.none() | UINT64,
)
CONSUMERS = st.builds(
    ConsumerDescription, name=MEMBERS, consumer_id=UINT64, is_connected=st.booleans(), in_flight=UINT64
)
TOPIC_STORAGES = st.builds(
    TopicStorageDescription,
    **numbers(TopicStorageDescription, "stored_bytes", "segments", "segment_file_bytes", "unsynced_bytes"),
    **dict.fromkeys(("oldest_ms", "newest_ms"), st.none() | UINT64),
    durability=st.none() | st.sampled_from(Durability),
    **dict.fromkeys(("not_uploaded_bytes", "not_uploaded_since_ms", "object_bytes"), st.none() | UINT64),
    **dict.fromkeys(("object_puts", "object_gets", "object_lists", "object_deletes"), st.none() | UINT64),
    object_month_dollars=st.none() | FLOATS,
)
STORAGES = st.builds(
    StorageDescription,
    **numbers(StorageDescription, "segments", "segment_file_bytes", "flush_passes", "merged_segments"),
    **numbers(StorageDescription, "dropped_segments", "freed_bytes", "quarantined_topics", "refused_topics"),
    disk_free_bytes=st.none() | UINT64,
    disk_is_low=st.booleans(),
    refused_reason=st.none() | st.text(),
)
SUBSCRIPTIONS = st.builds(
    SubscriptionDescription,
    name=MEMBERS,
    type=st.sampled_from(SubscriptionType),
    reliable=st.none() | STATES,
    **numbers(SubscriptionDescription, "created_ms", "messages_out", "bytes_out", "redelivered", "nacked", "dropped"),
    **numbers(SubscriptionDescription, "consumer_count", "connected_count"),
    consumers=st.lists(CONSUMERS, max_size=2).map(tuple),
)
DESCRIPTIONS = st.builds(
    TopicDescription,
    topic=TOPICS,
    strategy=STRATEGIES,
    broker_id=UINT64.map(str),
    **numbers(TopicDescription, "topic_id", "created_ms", "start_offset", "end_offset", "messages_in", "bytes_in"),
    **numbers(TopicDescription, "producers", "subscription_count", "messages_expired"),
    subscriptions=st.lists(SUBSCRIPTIONS, max_size=2).map(tuple),
    storage=st.none() | TOPIC_STORAGES,
    pending_policies=st.lists(MEMBERS, max_size=2).map(tuple),
)
JOURNALS = st.builds(
    JournalDescription,
    **numbers(JournalDescription, "rounds", "failed_rounds", "bytes_written", "syncs", "files", "size_bytes"),
    **numbers(JournalDescription, "backlog_bytes", "cache_bytes"),
    last_round_ms=FLOATS,
    stopped_reason=st.none() | st.text(),
)


CALLS: dict[Codec[Any], st.SearchStrategy[Any]] = {
    admin_messages.CREATE_TOPIC: st.builds(
        CreateTopic, topic=TOPICS, strategy=STRATEGIES, schema_subject=st.none() | MEMBERS
    ),
    admin_messages.CREATE_PARTITIONED_TOPIC: st.builds(
        CreatePartitionedTopic,
        base=TOPICS,
        partitions=st.integers(1, PARTITIONS_MAX),
        strategy=STRATEGIES,
        schema_subject=st.none() | MEMBERS,
    ),
    admin_messages.TOPIC: TOPICS,
    admin_messages.UNSUBSCRIBE: st.builds(Unsubscribe, topic=TOPICS, subscription=MEMBERS),
    admin_messages.NAMESPACE: PARTS,
    admin_messages.BROKER: UINT64.map(str),
    admin_messages.TOPICS: st.lists(INFOS, max_size=3).map(tuple),
    admin_messages.TOPIC_DETAILS: st.builds(
        TopicDetails,
        info=INFOS,
        subscriptions=st.lists(MEMBERS, max_size=3).map(tuple),
        schema_subject=st.none() | MEMBERS,
    ),
    admin_messages.SUBSCRIPTIONS: st.lists(MEMBERS, max_size=5).map(tuple),
    admin_messages.NAMESPACES: st.lists(PARTS, max_size=5).map(tuple),
    admin_messages.NAMESPACE_TOPICS: st.lists(TOPICS, max_size=5).map(tuple),
    admin_messages.POLICIES: st.builds(
        NamespacePolicies, **dict.fromkeys(NamespacePolicies.__dataclass_fields__, st.integers(0, 2**32))
    ),
    admin_messages.BROKERS: st.lists(BROKERS, max_size=3).map(tuple),
    admin_messages.LEADER: st.none() | UINT64.map(str),
    control_messages.DESCRIBE_TOPICS: st.builds(
        DescribeTopics,
        namespace=st.none() | PARTS,
        topics=st.lists(TOPICS, max_size=3).map(tuple),
        page_size=st.integers(1, DESCRIBE_TOPICS_MAX),
        after=st.none() | CURSORS,
    ),
    control_messages.TOPICS_PAGE: st.builds(
        TopicsPage, topics=st.lists(DESCRIPTIONS, max_size=2).map(tuple), next=st.none() | CURSORS
    ),
    control_messages.BROKER_DESCRIPTION: st.builds(
        BrokerDescription,
        info=BROKERS,
        **dict.fromkeys(("connect_url", "cluster_name", "mode", "version"), st.text()),
        uptime_s=FLOATS,
        **numbers(BrokerDescription, "topics", "subscriptions", "producers", "consumers"),
        journal=JOURNALS,
        storage=st.none() | STORAGES,
        blocked_subscriptions=st.none() | UINT64,
    ),
}


@pytest.mark.parametrize("codec", CALLS, ids=lambda codec: codec.kind.DESCRIPTOR.name)
@given(data=st.data())
def test_what_one_side_encodes_the_other_decodes(codec: Codec[Any], data: st.DataObject) -> None:
    value = data.draw(CALLS[codec])
    assert codec.decode(codec.encode(value)) == value


def test_what_was_done_says_so_in_all_three_answers_of_one_layout() -> None:
    done = admin_messages.DONE.encode(None)
    assert admin_messages.DONE.decode(done)
    assert DanubeAdmin_pb2.SubscriptionResponse.FromString(done).success
    assert DanubeAdmin_pb2.NamespaceResponse.FromString(done).success


def test_policies_are_json_with_the_seven_names_of_the_original() -> None:
    text = DanubeAdmin_pb2.PolicyResponse.FromString(admin_messages.POLICIES.encode(NamespacePolicies())).policies
    assert json.loads(text) == {
        "max_producers_per_topic": 0,
        "max_subscriptions_per_topic": 0,
        "max_consumers_per_topic": 0,
        "max_consumers_per_subscription": 0,
        "max_publish_rate": 0,
        "max_subscription_dispatch_rate": 0,
        "max_message_size": 4 * 1024 * 1024 - 4096,
    }


@pytest.mark.parametrize("text", ["[]", "{}", '{"max_publish_rate": null, "max_message_size": "x"}'])
def test_policies_that_name_no_limit_have_none(text: str) -> None:
    answer = DanubeAdmin_pb2.PolicyResponse(policies=text).SerializeToString()
    assert admin_messages.POLICIES.decode(answer) == NamespacePolicies(max_message_size=0)


def test_policies_that_are_no_json_are_refused() -> None:
    with pytest.raises(InvalidRequestError, match="not a valid PolicyResponse"):
        admin_messages.POLICIES.decode(DanubeAdmin_pb2.PolicyResponse(policies="{").SerializeToString())


def test_names_of_a_namespaces_topics_have_no_leading_slash() -> None:
    answer = admin_messages.NAMESPACE_TOPICS.encode([TopicName("a", "t")])
    assert list(DanubeAdmin_pb2.TopicListResponse.FromString(answer).topics) == ["a/t"]


def test_no_leader_is_said_in_the_originals_word() -> None:
    assert DanubeAdmin_pb2.BrokerResponse.FromString(admin_messages.LEADER.encode(None)).leader == "not_found"


@pytest.mark.parametrize("name", ["", "a/b", "a b", "x" * 256])
def test_bad_names_of_namespaces_are_refused(name: str) -> None:
    with pytest.raises(InvalidNameError):
        admin_messages.NAMESPACE.decode(DanubeAdmin_pb2.NamespaceRequest(name=name).SerializeToString())


def test_empty_id_of_a_broker_is_refused() -> None:
    with pytest.raises(InvalidRequestError, match="broker id is empty"):
        admin_messages.BROKER.decode(b"")


@pytest.mark.parametrize(("asked", "given"), [(0, DESCRIBE_TOPICS_DEFAULT), (2**32 - 1, DESCRIBE_TOPICS_MAX), (7, 7)])
def test_page_size_is_bounded(asked: int, given: int) -> None:
    request = DanubeControl_pb2.DescribeTopicsRequest(page_size=asked).SerializeToString()
    assert control_messages.DESCRIBE_TOPICS.decode(request).page_size == given


def test_too_many_names_are_refused() -> None:
    request = DanubeControl_pb2.DescribeTopicsRequest(topics=["/a/t"] * (DESCRIBE_NAMES_MAX + 1))
    with pytest.raises(InvalidRequestError, match="name up to"):
        control_messages.DESCRIBE_TOPICS.decode(request.SerializeToString())


@pytest.mark.parametrize("token", ["t", "/a/t\n", "/a/t\nb\nc"])
def test_page_token_that_was_never_given_out_is_refused(token: str) -> None:
    request = DanubeControl_pb2.DescribeTopicsRequest(page_token=token)
    with pytest.raises(InvalidNameError):
        control_messages.DESCRIBE_TOPICS.decode(request.SerializeToString())
