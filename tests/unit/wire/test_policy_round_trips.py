"""Policies and positions: encoded by one side, decoded by the other, the same value."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from danube.model.calls.positions import (
    AddPartitions,
    Connection,
    CreateSubscription,
    DisconnectClient,
    PeekedMessage,
    PeekedPage,
    PeekMessages,
    SeekSubscription,
    SubscriptionPosition,
)
from danube.model.calls.stream import FetchFrom, FetchTime
from danube.model.errors import InvalidRequestError
from danube.model.limits.broker import (
    MESSAGE_TTL_S_MAX,
    PARTITIONS_MAX,
    PEEK_MESSAGES_DEFAULT,
    PEEK_MESSAGES_MAX,
    PEEK_PAYLOAD_BYTES_MAX,
    RETENTION_BYTES_MAX,
    RETENTION_TIME_S_MAX,
)
from danube.model.plans.durability import Durability
from danube.model.policies import (
    PLANNED_NAMES,
    POLICY_NAMES,
    RETENTION_NAMES,
    BackoffStrategy,
    FailurePolicy,
    Limits,
    PoisonPolicy,
    Policies,
    PoliciesView,
    PolicyChange,
    SetDispatchWindow,
    SetFailurePolicy,
    SetNamespacePolicies,
    SetTopicPolicies,
    SubscriptionName,
)
from danube.model.subscription import SubscriptionType
from danube.model.topic import TopicName
from danube.wire import decode_policies, decode_positions, encode_policies, encode_positions
from danube.wire.gen import DanubeAdmin_pb2, DanubeControl_pb2

UINT32, UINT64 = st.integers(0, 2**32 - 1), st.integers(0, 2**64 - 1)
PARTS = st.from_regex(r"[\w-]{1,20}", fullmatch=True)
TOPICS = st.builds(TopicName, PARTS, PARTS)
MEMBERS = st.text(min_size=1, max_size=60).filter(str.isprintable)
NAMES = st.builds(SubscriptionName, topic=TOPICS, subscription=MEMBERS)
DELAYS = st.tuples(st.integers(0, 1_000), st.integers(0, 1_000)).map(sorted)
TYPES = st.sampled_from(SubscriptionType)


@st.composite
def failure_policies(draw: st.DrawFn) -> FailurePolicy:
    base, most = draw(DELAYS)
    return FailurePolicy(
        max_redelivery_count=draw(st.integers(0, 100)),
        ack_timeout_ms=draw(st.integers(1, 10_000)),
        base_redelivery_delay_ms=base,
        max_redelivery_delay_ms=most,
        backoff=draw(st.sampled_from(BackoffStrategy)),
        dead_letter_topic=draw(TOPICS),
        poison=draw(st.sampled_from(PoisonPolicy)),
    )


VALUES = dict.fromkeys(POLICY_NAMES, UINT32) | {
    "message_ttl_s": st.integers(0, MESSAGE_TTL_S_MAX),
    "retention_time_s": st.integers(0, RETENTION_TIME_S_MAX),
    "retention_bytes": st.integers(0, RETENTION_BYTES_MAX),
    "retention_drops_unread": st.integers(0, 1),
    "durability": st.integers(0, 2),
}
POLICIES = st.builds(Policies, **{name: st.none() | values for name, values in VALUES.items()})
LIMITS = st.builds(Limits, **VALUES | {"durability": st.none() | VALUES["durability"]})
PLACES = UINT64 | st.sampled_from(FetchFrom) | st.builds(FetchTime, UINT64)
MESSAGES = st.builds(
    PeekedMessage,
    offset=UINT64,
    append_time_ms=UINT64,
    publish_time_ms=UINT64,
    producer_name=st.text(max_size=20),
    routing_key=st.none() | st.text(max_size=20),
    attributes=st.lists(st.tuples(st.text(max_size=9), st.text(max_size=9)), max_size=3).map(tuple),
    payload=st.binary(max_size=20),
    payload_size=UINT64,
    schema_id=st.none() | UINT64,
    schema_version=st.none() | UINT32,
)
CONNECTIONS = st.builds(
    Connection, topic=TOPICS, client_id=UINT64, name=st.text(max_size=9), subscription=st.none() | MEMBERS
)


@st.composite
def changes(draw: st.DrawFn) -> PolicyChange:
    given_now = replace(draw(POLICIES), **dict.fromkeys(PLANNED_NAMES))
    left = sorted(set(POLICY_NAMES) - set(PLANNED_NAMES) - given_now.given().keys())
    return PolicyChange(given=given_now, unset=frozenset(draw(st.sets(st.sampled_from(left)) if left else st.just(()))))


def test_a_truth_value_is_kept_as_a_number() -> None:
    message = DanubeControl_pb2.TopicPolicies(retention_drops_unread=True)
    own = decode_policies.policies_view(DanubeControl_pb2.PoliciesView(own=message).SerializeToString()).own.given()
    assert [(name, type(value), value) for name, value in own.items()] == [("retention_drops_unread", int, 1)]


@pytest.mark.parametrize("name", RETENTION_NAMES)
def test_what_deletes_messages_is_refused_where_no_plan_is_asked_for(name: str) -> None:
    setting = DanubeControl_pb2.TopicPolicies()
    setattr(setting, name, 1)
    for request in (
        DanubeControl_pb2.SetPoliciesRequest(name="/default/orders", policies=setting),
        DanubeControl_pb2.SetPoliciesRequest(name="/default/orders", unset=[name]),
    ):
        with pytest.raises(InvalidRequestError, match=f"{name} deletes messages.*plan set_topic_retention"):
            decode_policies.set_topic_policies(request.SerializeToString())
        request.name = "default"
        with pytest.raises(InvalidRequestError, match=f"{name} deletes messages.*plan set_namespace_retention"):
            decode_policies.set_namespace_policies(request.SerializeToString())


@pytest.mark.parametrize("number", [0, 2])
def test_what_an_acknowledgement_means_is_refused_where_no_plan_is_asked_for(number: int) -> None:
    setting = DanubeControl_pb2.TopicPolicies(durability=number)
    of_topic = DanubeControl_pb2.SetPoliciesRequest(name="/default/orders", policies=setting)
    with pytest.raises(InvalidRequestError, match=r"durability says what.*plan set_topic_durability"):
        decode_policies.set_topic_policies(of_topic.SerializeToString())
    of_namespace = DanubeControl_pb2.SetPoliciesRequest(name="default", unset=["durability"])
    with pytest.raises(InvalidRequestError, match=r"durability says what.*plan set_namespace_durability"):
        decode_policies.set_namespace_policies(of_namespace.SerializeToString())


def test_a_broker_that_does_not_tell_its_durability_is_not_taken_to_sync() -> None:
    older = DanubeControl_pb2.PoliciesView(holding=DanubeControl_pb2.TopicPolicies(message_ttl_s=5))
    holding = decode_policies.policies_view(older.SerializeToString()).holding
    assert (holding.message_ttl_s, holding.durability) == (5, None)


def test_the_wire_and_the_model_have_the_same_names_and_numbers() -> None:
    assert {each.name: each.number for each in Durability} == dict(DanubeControl_pb2.Durability.items())


@given(st.builds(SetFailurePolicy, name=NAMES, policy=failure_policies()))
def test_a_failure_policy_arrives_as_it_was_set(call: SetFailurePolicy) -> None:
    assert decode_policies.set_failure_policy(encode_policies.set_failure_policy(call)) == call


@given(st.tuples(st.none() | failure_policies(), TYPES))
def test_a_failure_policy_is_answered_as_it_is(answer: tuple[FailurePolicy | None, SubscriptionType]) -> None:
    assert decode_policies.failure_policy(encode_policies.failure_policy(answer)) == answer


@given(NAMES, st.integers(1, 10_000))
def test_a_window_arrives_as_it_was_set(name: SubscriptionName, window: int) -> None:
    call = SetDispatchWindow(name=name, window=window)
    assert decode_policies.set_dispatch_window(encode_policies.set_dispatch_window(call)) == call
    assert decode_policies.dispatch_window(encode_policies.dispatch_window(window)) == window
    assert decode_policies.get_failure_policy(encode_policies.get_failure_policy(name)) == name


def test_a_window_that_was_not_set_is_none() -> None:
    assert decode_policies.dispatch_window(encode_policies.dispatch_window(None)) is None


@given(PARTS, TOPICS, changes())
def test_a_change_of_limits_arrives_with_what_is_set_and_what_is_unset(
    namespace: str, topic: TopicName, change: PolicyChange
) -> None:
    of_namespace = SetNamespacePolicies(namespace=namespace, change=change)
    of_topic = SetTopicPolicies(topic=topic, change=change)
    assert decode_policies.set_namespace_policies(encode_policies.set_policies(of_namespace)) == of_namespace
    assert decode_policies.set_topic_policies(encode_policies.set_policies(of_topic)) == of_topic


@given(st.builds(PoliciesView, own=POLICIES, holding=LIMITS))
def test_limits_are_answered_with_the_difference_between_none_and_zero(view: PoliciesView) -> None:
    assert decode_policies.policies_view(encode_policies.policies_view(view)) == view


@given(NAMES, TYPES, PLACES)
def test_places_arrive_as_they_were_meant(name: SubscriptionName, kind: SubscriptionType, place: Any) -> None:
    created = CreateSubscription(name=name, type=kind, start=place)
    sought = SeekSubscription(name=name, to=place)
    peeked = PeekMessages(topic=name.topic, start=place, count=3, payload_bytes_max=5)
    assert decode_positions.create_subscription(encode_positions.create_subscription(created)) == created
    assert decode_positions.seek(encode_positions.seek(sought)) == sought
    assert decode_positions.peek(encode_positions.peek(peeked)) == peeked
    assert decode_positions.subscription(encode_positions.subscription(name)) == name


@given(UINT64, UINT64, st.lists(MESSAGES, max_size=3).map(tuple))
def test_positions_and_peeked_messages_are_answered_whole(
    one: int, other: int, messages: tuple[PeekedMessage, ...]
) -> None:
    position = SubscriptionPosition(position=one, lag=other)
    page = PeekedPage(messages=messages, start_offset=one, end_offset=other)
    assert decode_positions.position(encode_positions.position(position)) == position
    assert decode_positions.peeked(encode_positions.peeked(page)) == page


@given(TOPICS, st.integers(1, PARTITIONS_MAX), st.lists(CONNECTIONS, max_size=3).map(tuple))
def test_partitions_and_connections_arrive_whole(
    topic: TopicName, count: int, connections: tuple[Connection, ...]
) -> None:
    added = AddPartitions(base=topic, count=count)
    gone = DisconnectClient(topic=topic, client_id=count)
    assert decode_positions.add_partitions(encode_positions.add_partitions(added)) == added
    assert decode_positions.partitions(encode_positions.partitions([topic])) == (topic,)
    assert decode_positions.list_connections(encode_positions.list_connections(topic)) == topic
    assert decode_positions.connections(encode_positions.connections((connections, 7))) == (connections, 7)
    assert decode_positions.disconnect_client(encode_positions.disconnect_client(gone)) == gone


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"poison_policy": 0, "ack_timeout_ms": 1}, "dead_letter needs dead_letter_topic"),
        ({"poison_policy": 9, "ack_timeout_ms": 1}, "9 is not a PoisonPolicy"),
        ({"poison_policy": 1, "ack_timeout_ms": 1, "backoff_strategy": 7}, "7 is not a BackoffStrategy"),
        ({"poison_policy": 1, "ack_timeout_ms": 0}, "ack_timeout_ms 0 cannot be"),
        ({"poison_policy": 1, "ack_timeout_ms": 1, "base_redelivery_delay_ms": 5}, "is above max_redelivery_delay_ms"),
        ({"poison_policy": 1, "ack_timeout_ms": 2**60}, "cannot be: use 1 to 86400000"),
    ],
)
def test_a_failure_policy_that_cannot_be_is_refused_with_the_field_that_is_wrong(
    fields: dict[str, Any], said: str
) -> None:
    policy = DanubeAdmin_pb2.SubscriptionFailurePolicy(**fields)
    request = DanubeAdmin_pb2.SetSubscriptionFailurePolicyRequest(
        topic="/default/t", subscription="s", failure_policy=policy
    )
    with pytest.raises(InvalidRequestError, match=said):
        decode_policies.set_failure_policy(request.SerializeToString())


def test_requests_without_what_they_are_about_are_refused() -> None:
    empty = DanubeAdmin_pb2.SetSubscriptionFailurePolicyRequest(topic="/default/t", subscription="s")
    with pytest.raises(InvalidRequestError, match="no failure_policy"):
        decode_policies.set_failure_policy(empty.SerializeToString())
    with pytest.raises(InvalidRequestError, match="no dispatch_config"):
        decode_policies.set_dispatch_window(empty.SerializeToString())
    with pytest.raises(InvalidRequestError, match="where to"):
        decode_positions.seek(empty.SerializeToString())


@pytest.mark.parametrize("window", [0, 10_001])
def test_a_window_beyond_its_bounds_is_refused(window: int) -> None:
    name = SubscriptionName(topic=TopicName("default", "t"), subscription="s")
    request = encode_policies.set_dispatch_window(SetDispatchWindow(name=name, window=window))
    with pytest.raises(InvalidRequestError, match="use 1 to 10000"):
        decode_policies.set_dispatch_window(request)


def test_limits_that_are_none_of_ours_are_refused() -> None:
    for request, said in (
        (DanubeControl_pb2.SetPoliciesRequest(name="ns", unset=["max_fun"]), "'max_fun' is no policy"),
        (
            DanubeControl_pb2.SetPoliciesRequest(
                name="ns", unset=["message_ttl_s"], policies=DanubeControl_pb2.TopicPolicies(message_ttl_s=1)
            ),
            "set and unset at once",
        ),
    ):
        with pytest.raises(InvalidRequestError, match=said):
            decode_policies.set_namespace_policies(request.SerializeToString())


def test_a_look_that_asks_for_too_much_gets_the_bound() -> None:
    many = DanubeControl_pb2.PeekRequest(topic="/default/t", count=2**31, payload_bytes_max=2**31)
    wanted = decode_positions.peek(many.SerializeToString())
    assert (wanted.count, wanted.payload_bytes_max) == (PEEK_MESSAGES_MAX, PEEK_PAYLOAD_BYTES_MAX)
    few = DanubeControl_pb2.PeekRequest(topic="/default/t")
    assert decode_positions.peek(few.SerializeToString()).count == PEEK_MESSAGES_DEFAULT


@pytest.mark.parametrize("count", [0, PARTITIONS_MAX + 1])
def test_partitions_beyond_their_bounds_are_refused(count: int) -> None:
    request = DanubeControl_pb2.AddPartitionsRequest(topic="/default/t", count=count)
    with pytest.raises(InvalidRequestError, match="partitions cannot be added"):
        decode_positions.add_partitions(request.SerializeToString())
