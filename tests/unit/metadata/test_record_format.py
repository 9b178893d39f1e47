import json
from dataclasses import replace
from typing import Any

import pytest

from danube.metadata.records import keys
from danube.metadata.records.codec import RECORD_VERSION
from danube.metadata.records.record_format import (
    ConsumerRecord,
    EpochRange,
    NamespaceRecord,
    SubscriptionRecord,
    TopicRecord,
    TopicStorage,
    decode_consumer,
    decode_counter,
    decode_namespace,
    decode_partitioned,
    decode_plan,
    decode_subscription,
    decode_topic,
    decode_topic_storage,
    encode_consumer,
    encode_counter,
    encode_namespace,
    encode_partitioned,
    encode_plan,
    encode_subscription,
    encode_topic,
    encode_topic_storage,
)
from danube.metadata.store import Entry
from danube.model.errors import MetadataError
from danube.model.exit_codes import ExitCode, exit_code_of
from danube.model.plans.plan import Approval, Caller, Effect, Face, Impact, Plan
from danube.model.policies import BackoffStrategy, FailurePolicy, PoisonPolicy, Policies
from danube.model.subscription import SubscriptionType
from danube.model.topic import DispatchStrategy, TopicName

NAME = TopicName("default", "orders")
TOPIC = TopicRecord(NAME, 7, DispatchStrategy.RELIABLE, 1_750_000_000_000, "orders-value")
SUBSCRIPTION = SubscriptionRecord(NAME, "s/1", 2**62, SubscriptionType.KEY_SHARED, 5)
CONSUMER = ConsumerRecord(NAME, "s/1", "ç", 2**62 + 1, ("a*", "日本"), 6)


CALLER = Caller(who="ada@desk", face=Face.MCP, client="host 1.0")
PLAN = Plan(
    plan_id="plan-0123456789ab",
    operation="delete_topic",
    arguments={"topic": "/default/orders"},
    effect=Effect.DESTROY,
    impact=Impact(changes=("Delete it.",), topics=("/default/orders",), topic_count=1, messages=0, fingerprint="f"),
    asked_by=CALLER,
    approval=Approval.APPROVED,
    created_ms=5,
    expires_ms=6,
    decided_by=replace(CALLER, face=Face.WEB),
    decided_ms=7,
    applied_by=CALLER,
    applied_ms=8,
)


def entry(key: str, value: bytes) -> Entry:
    return Entry(key, value, 1, 1)


def topic_entry(**changed: Any) -> Entry:
    fields = json.loads(encode_topic(TOPIC)) | changed
    return entry(keys.topic(NAME), json.dumps(fields).encode())


def test_records_read_back_as_written() -> None:
    assert decode_namespace(
        entry(keys.namespace("default"), encode_namespace(NamespaceRecord("default")))
    ) == NamespaceRecord("default")
    assert decode_topic(entry(keys.topic(NAME), encode_topic(TOPIC))) == TOPIC
    assert decode_subscription(entry(keys.subscription(NAME, "s/1"), encode_subscription(SUBSCRIPTION))) == SUBSCRIPTION
    assert decode_consumer(entry(keys.consumer(NAME, "s/1", "ç"), encode_consumer(CONSUMER))) == CONSUMER
    for plan in (PLAN, replace(PLAN, decided_by=None, decided_ms=None, applied_by=None, applied_ms=None)):
        assert decode_plan(entry(keys.plan(plan.plan_id), encode_plan(plan))) == plan
    assert decode_counter(entry(keys.TOPIC_ID_COUNTER, encode_counter(9))) == 9
    assert decode_partitioned(entry(keys.partitioned(NAME), encode_partitioned(frozenset({1, 0})))) == {0, 1}


def test_values_are_compact_json_with_their_version() -> None:
    assert encode_subscription(SUBSCRIPTION) == (
        b'{"version":1,"subscription_id":4611686018427387904,"type":"KEY_SHARED","created_ms":5}'
    )


@pytest.mark.parametrize("version", [RECORD_VERSION - 1, RECORD_VERSION + 1])
def test_record_of_another_version_is_refused_with_the_next_step(version: int) -> None:
    told = rf"/topics/default/orders was written by another version \(format {version}; .*\): use that version"
    with pytest.raises(MetadataError, match=told) as refused:
        decode_topic(topic_entry(version=version))
    assert exit_code_of(refused.value) is ExitCode.DATA_FOLDER


@pytest.mark.parametrize(
    "changed",
    [{"impact": None}, {"impact": {}}, {"asked_by": []}, {"arguments": 1}, {"operation": None}, {"applied_ms": "8"}],
)
def test_plan_of_the_wrong_shape_is_refused(changed: dict[str, Any]) -> None:
    fields = json.loads(encode_plan(PLAN)) | changed
    with pytest.raises(MetadataError, match="does not hold what it should"):
        decode_plan(entry(keys.plan(PLAN.plan_id), json.dumps(fields).encode()))


def test_unknown_field_of_the_same_version_is_ignored() -> None:
    assert decode_topic(topic_entry(retention_ms=5)) == TOPIC


@pytest.mark.parametrize(
    "changed",
    [{"version": None}, {"topic_id": "7"}, {"strategy": "SOMETIMES"}, {"strategy": 1}, {"schema_subject": 1}],
)
def test_value_of_the_wrong_shape_is_refused(changed: dict[str, Any]) -> None:
    with pytest.raises(MetadataError, match="does not hold what it should"):
        decode_topic(topic_entry(**changed))


@pytest.mark.parametrize("value", [b"", b"\xff", b"[]", b"{}", b"null"])
def test_value_that_is_no_record_is_refused(value: bytes) -> None:
    with pytest.raises(MetadataError, match="does not hold what it should"):
        decode_topic(entry(keys.topic(NAME), value))


FAILURE_POLICY = FailurePolicy(
    max_redelivery_count=0,
    ack_timeout_ms=7,
    base_redelivery_delay_ms=8,
    max_redelivery_delay_ms=9,
    backoff=BackoffStrategy.FIXED,
    dead_letter_topic=NAME,
    poison=PoisonPolicy.DEAD_LETTER,
)


@pytest.mark.parametrize(
    "record",
    [
        replace(SUBSCRIPTION, failure_policy=FAILURE_POLICY),
        replace(SUBSCRIPTION, failure_policy=replace(FAILURE_POLICY, dead_letter_topic=None, poison=PoisonPolicy.DROP)),
        replace(SUBSCRIPTION, window=77, jump=0),
    ],
)
def test_what_is_set_for_a_subscription_is_kept(record: SubscriptionRecord) -> None:
    assert decode_subscription(entry(keys.subscription(NAME, "s/1"), encode_subscription(record))) == record


def test_limits_are_kept_with_the_difference_between_none_and_zero() -> None:
    policies = Policies(max_publish_rate=0, message_ttl_s=5, durability=0)
    record = replace(TOPIC, policies=policies)
    assert decode_topic(entry(keys.topic(NAME), encode_topic(record))) == record
    namespace = decode_namespace(entry(keys.namespace("ns"), encode_namespace(NamespaceRecord("ns", policies))))
    assert namespace == NamespaceRecord("ns", policies)


def test_limits_that_only_another_version_knows_are_read_as_not_set() -> None:
    newer = decode_topic(topic_entry(policies={"message_ttl_s": 5, "limit_of_later": 9}))
    assert newer.policies == Policies(message_ttl_s=5)
    assert newer.policies.durability is None


STORED = TopicStorage(7, 5, (EpochRange(1, 2**63 - 1, 0, 40), EpochRange(2, 9, 40, 40), EpochRange(5, 9, 40)), 1)


@pytest.mark.parametrize("record", [STORED, TopicStorage(7, 0, (), 1), TopicStorage(0, 2**40, (), 1)])
def test_where_a_topic_is_stored_reads_back_with_its_revision(record: TopicStorage) -> None:
    assert decode_topic_storage(entry(keys.stored_topic(record.topic_id), encode_topic_storage(record))) == record


@pytest.mark.parametrize(
    "changed",
    [
        {"generation": None},
        {"generation": -1},
        {"epochs": None},
        {"epochs": [1]},
        {"epochs": [{"epoch": 1}]},
        {"epochs": [{"epoch": 1, "journal_id": 2, "first_offset": 5, "end_offset": 4}]},
        {"epochs": [{"epoch": 1, "journal_id": 2, "first_offset": 5, "end_offset": "6"}]},
        {"version": RECORD_VERSION + 1},
    ],
)
def test_where_a_topic_is_stored_is_never_guessed(changed: dict[str, Any]) -> None:
    fields = json.loads(encode_topic_storage(STORED)) | changed
    with pytest.raises(MetadataError, match="/storage/topics/7"):
        decode_topic_storage(entry(keys.stored_topic(7), json.dumps(fields).encode()))


@pytest.mark.parametrize(
    "epochs",
    [
        (EpochRange(1, 9, 0, 4), EpochRange(2, 9, 5)),
        (EpochRange(1, 9, 0), EpochRange(2, 9, 0)),
        (EpochRange(2, 9, 0, 4), EpochRange(2, 8, 4)),
        (EpochRange(1, 9, 3, 0),),
        (EpochRange(-1, 9, 0),),
    ],
)
def test_epochs_that_are_no_unbroken_run_are_not_written(epochs: tuple[EpochRange, ...]) -> None:
    with pytest.raises(ValueError, match="epoch"):
        encode_topic_storage(TopicStorage(7, 1, epochs))


def test_values_where_nothing_is_set_are_those_of_before_there_were_policies() -> None:
    assert set(json.loads(encode_namespace(NamespaceRecord("default")))) == {"version"}
    assert "policies" not in json.loads(encode_topic(TOPIC))
    assert set(json.loads(encode_subscription(SUBSCRIPTION))) == {"version", "subscription_id", "type", "created_ms"}
