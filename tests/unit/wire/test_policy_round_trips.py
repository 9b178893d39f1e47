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
from danube.wire import admin_messages, control_messages
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
    own = control_messages.POLICIES_VIEW.decode(
        DanubeControl_pb2.PoliciesView(own=message).SerializeToString()
    ).own.given()
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
            control_messages.SET_TOPIC_POLICIES.decode(request.SerializeToString())
        request.name = "default"
        with pytest.raises(InvalidRequestError, match=f"{name} deletes messages.*plan set_namespace_retention"):
            control_messages.SET_NAMESPACE_POLICIES.decode(request.SerializeToString())


@pytest.mark.parametrize("number", [0, 2])
def test_what_an_acknowledgement_means_is_refused_where_no_plan_is_asked_for(number: int) -> None:
    setting = DanubeControl_pb2.TopicPolicies(durability=number)
    of_topic = DanubeControl_pb2.SetPoliciesRequest(name="/default/orders", policies=setting)
    with pytest.raises(InvalidRequestError, match=r"durability says what.*plan set_topic_durability"):
        control_messages.SET_TOPIC_POLICIES.decode(of_topic.SerializeToString())
    of_namespace = DanubeControl_pb2.SetPoliciesRequest(name="default", unset=["durability"])
    with pytest.raises(InvalidRequestError, match=r"durability says what.*plan set_namespace_durability"):
        control_messages.SET_NAMESPACE_POLICIES.decode(of_namespace.SerializeToString())


def test_a_broker_that_does_not_tell_its_durability_is_not_taken_to_sync() -> None:
    older = DanubeControl_pb2.PoliciesView(holding=DanubeControl_pb2.TopicPolicies(message_ttl_s=5))
    holding = control_messages.POLICIES_VIEW.decode(older.SerializeToString()).holding
    assert (holding.message_ttl_s, holding.durability) == (5, None)


def test_the_wire_and_the_model_have_the_same_names_and_numbers() -> None:
    assert {each.name: each.number for each in Durability} == dict(DanubeControl_pb2.Durability.items())


@given(st.builds(SetFailurePolicy, name=NAMES, policy=failure_policies()))
def test_a_failure_policy_arrives_as_it_was_set(call: SetFailurePolicy) -> None:
    assert admin_messages.SET_FAILURE_POLICY.decode(admin_messages.SET_FAILURE_POLICY.encode(call)) == call


@given(st.tuples(st.none() | failure_policies(), TYPES))
def test_a_failure_policy_is_answered_as_it_is(answer: tuple[FailurePolicy | None, SubscriptionType]) -> None:
    assert admin_messages.FAILURE_POLICY.decode(admin_messages.FAILURE_POLICY.encode(answer)) == answer


@given(NAMES, st.integers(1, 10_000))
def test_a_window_arrives_as_it_was_set(name: SubscriptionName, window: int) -> None:
    call = SetDispatchWindow(name=name, window=window)
    assert admin_messages.SET_DISPATCH_WINDOW.decode(admin_messages.SET_DISPATCH_WINDOW.encode(call)) == call
    assert admin_messages.DISPATCH_WINDOW.decode(admin_messages.DISPATCH_WINDOW.encode(window)) == window
    assert admin_messages.SUBSCRIPTION.decode(admin_messages.SUBSCRIPTION.encode(name)) == name


def test_a_window_that_was_not_set_is_none() -> None:
    assert admin_messages.DISPATCH_WINDOW.decode(admin_messages.DISPATCH_WINDOW.encode(None)) is None


@given(PARTS, TOPICS, changes())
def test_a_change_of_limits_arrives_with_what_is_set_and_what_is_unset(
    namespace: str, topic: TopicName, change: PolicyChange
) -> None:
    of_namespace = SetNamespacePolicies(namespace=namespace, change=change)
    of_topic = SetTopicPolicies(topic=topic, change=change)
    assert (
        control_messages.SET_NAMESPACE_POLICIES.decode(control_messages.SET_NAMESPACE_POLICIES.encode(of_namespace))
        == of_namespace
    )
    assert control_messages.SET_TOPIC_POLICIES.decode(control_messages.SET_TOPIC_POLICIES.encode(of_topic)) == of_topic


@given(st.builds(PoliciesView, own=POLICIES, holding=LIMITS))
def test_limits_are_answered_with_the_difference_between_none_and_zero(view: PoliciesView) -> None:
    assert control_messages.POLICIES_VIEW.decode(control_messages.POLICIES_VIEW.encode(view)) == view


@given(NAMES, TYPES, PLACES)
def test_places_arrive_as_they_were_meant(name: SubscriptionName, kind: SubscriptionType, place: Any) -> None:
    created = CreateSubscription(name=name, type=kind, start=place)
    sought = SeekSubscription(name=name, to=place)
    peeked = PeekMessages(topic=name.topic, start=place, count=3, payload_bytes_max=5)
    assert control_messages.CREATE_SUBSCRIPTION.decode(control_messages.CREATE_SUBSCRIPTION.encode(created)) == created
    assert control_messages.SEEK.decode(control_messages.SEEK.encode(sought)) == sought
    assert control_messages.PEEK.decode(control_messages.PEEK.encode(peeked)) == peeked
    assert control_messages.SUBSCRIPTION.decode(control_messages.SUBSCRIPTION.encode(name)) == name


@given(UINT64, UINT64, st.lists(MESSAGES, max_size=3).map(tuple))
def test_positions_and_peeked_messages_are_answered_whole(
    one: int, other: int, messages: tuple[PeekedMessage, ...]
) -> None:
    position = SubscriptionPosition(position=one, lag=other)
    page = PeekedPage(messages=messages, start_offset=one, end_offset=other)
    assert control_messages.POSITION.decode(control_messages.POSITION.encode(position)) == position
    assert control_messages.PEEKED.decode(control_messages.PEEKED.encode(page)) == page


@given(TOPICS, st.integers(1, PARTITIONS_MAX), st.lists(CONNECTIONS, max_size=3).map(tuple))
def test_partitions_and_connections_arrive_whole(
    topic: TopicName, count: int, connections: tuple[Connection, ...]
) -> None:
    added = AddPartitions(base=topic, count=count)
    gone = DisconnectClient(topic=topic, client_id=count)
    assert control_messages.ADD_PARTITIONS.decode(control_messages.ADD_PARTITIONS.encode(added)) == added
    assert control_messages.PARTITIONS.decode(control_messages.PARTITIONS.encode([topic])) == (topic,)
    assert control_messages.LIST_CONNECTIONS.decode(control_messages.LIST_CONNECTIONS.encode(topic)) == topic
    assert control_messages.CONNECTIONS.decode(control_messages.CONNECTIONS.encode((connections, 7))) == (
        connections,
        7,
    )
    assert control_messages.DISCONNECT_CLIENT.decode(control_messages.DISCONNECT_CLIENT.encode(gone)) == gone


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
        admin_messages.SET_FAILURE_POLICY.decode(request.SerializeToString())


def test_requests_without_what_they_are_about_are_refused() -> None:
    empty = DanubeAdmin_pb2.SetSubscriptionFailurePolicyRequest(topic="/default/t", subscription="s")
    with pytest.raises(InvalidRequestError, match="no failure_policy"):
        admin_messages.SET_FAILURE_POLICY.decode(empty.SerializeToString())
    with pytest.raises(InvalidRequestError, match="no dispatch_config"):
        admin_messages.SET_DISPATCH_WINDOW.decode(empty.SerializeToString())
    with pytest.raises(InvalidRequestError, match="where to"):
        control_messages.SEEK.decode(empty.SerializeToString())


@pytest.mark.parametrize("window", [0, 10_001])
def test_a_window_beyond_its_bounds_is_refused(window: int) -> None:
    name = SubscriptionName(topic=TopicName("default", "t"), subscription="s")
    request = admin_messages.SET_DISPATCH_WINDOW.encode(SetDispatchWindow(name=name, window=window))
    with pytest.raises(InvalidRequestError, match="use 1 to 10000"):
        admin_messages.SET_DISPATCH_WINDOW.decode(request)


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
            control_messages.SET_NAMESPACE_POLICIES.decode(request.SerializeToString())


def test_a_look_that_asks_for_too_much_gets_the_bound() -> None:
    many = DanubeControl_pb2.PeekRequest(topic="/default/t", count=2**31, payload_bytes_max=2**31)
    wanted = control_messages.PEEK.decode(many.SerializeToString())
    assert (wanted.count, wanted.payload_bytes_max) == (PEEK_MESSAGES_MAX, PEEK_PAYLOAD_BYTES_MAX)
    few = DanubeControl_pb2.PeekRequest(topic="/default/t")
    assert control_messages.PEEK.decode(few.SerializeToString()).count == PEEK_MESSAGES_DEFAULT


@pytest.mark.parametrize("count", [0, PARTITIONS_MAX + 1])
def test_partitions_beyond_their_bounds_are_refused(count: int) -> None:
    request = DanubeControl_pb2.AddPartitionsRequest(topic="/default/t", count=count)
    with pytest.raises(InvalidRequestError, match="partitions cannot be added"):
        control_messages.ADD_PARTITIONS.decode(request.SerializeToString())
