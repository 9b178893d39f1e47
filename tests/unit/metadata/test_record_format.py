import contextlib
from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from enum import Enum
from random import Random
from types import UnionType
from typing import Any, get_args, get_origin, get_type_hints

import msgspec
import pytest

from danube.metadata.records import keys
from danube.metadata.records.families import _DECODERS, value_of
from danube.metadata.records.record_format import (
    ConsumerRecord,
    EpochRange,
    SubscriptionRecord,
    TopicRecord,
    TopicStorage,
    decode_counter,
    decode_partitioned,
    decode_topic,
    decode_topic_storage,
    encode_counter,
    encode_partitioned,
    encode_subscription,
    encode_topic,
    encode_topic_storage,
)
from danube.metadata.records.record_values import MAGIC, RecordValues, shown
from danube.metadata.security.records import DECODERS
from danube.metadata.store import Entry
from danube.model.errors import InvalidRequestError, MetadataError
from danube.model.exit_codes import ExitCode, exit_code_of
from danube.model.policies import Policies
from danube.model.subscription import SubscriptionType
from danube.model.topic import DispatchStrategy, TopicName
from danube.runtime.checksum import with_crc

NAME = TopicName("default", "orders")
TOPIC = TopicRecord(NAME, 7, DispatchStrategy.RELIABLE, 1_750_000_000_000, "orders-value")
SUBSCRIPTION = SubscriptionRecord(NAME, "s/1", 2**62, SubscriptionType.KEY_SHARED, 5)
CONSUMER = ConsumerRecord(NAME, "s/1", "ç", 2**62 + 1, ("a*", "日本"), 6)


def drawn(annotation: Any, random: Random) -> Any:
    """Anything that a field of this type may be."""
    arguments = get_args(annotation)
    if isinstance(annotation, UnionType):
        return drawn(random.choice(arguments), random)
    if get_origin(annotation) is tuple:
        kinds = arguments if arguments[-1] is not ... else arguments[:1] * random.randrange(4)
        return tuple(drawn(each, random) for each in kinds)
    if get_origin(annotation) is Mapping:
        return {drawn(str, random): drawn(random.choice([int, str, bool]), random) for _ in range(3)}
    if is_dataclass(annotation):
        types = get_type_hints(annotation)
        return annotation(**{each.name: drawn(types[each.name], random) for each in fields(annotation)})  # type: ignore[operator]
    if issubclass(annotation, Enum):
        return random.choice(list(annotation))
    return {
        type(None): lambda: None,
        bool: lambda: random.random() < 0.5,
        int: lambda: random.choice([*range(1, 100), 0, -1, -(2**63), 2**64 - 1]),
        float: lambda: random.choice([0.0, -1.5, 1e300, 7]),
        str: lambda: random.choice(["", "a", "/", "日本", "%2F", "\0", "x" * 300]),
    }[annotation]()  # type: ignore[no-untyped-call]  # of several types


VALUES: list[RecordValues[Any]] = [
    decode.__self__  # type: ignore[attr-defined]  # a bound method
    for decode in {**_DECODERS, **DECODERS}.values()
    if isinstance(getattr(decode, "__self__", None), RecordValues)
]


def entry(key: str, value: bytes, revision: int = 1) -> Entry:
    return Entry(key, value, 1, revision)


@pytest.mark.parametrize("kind", VALUES, ids=lambda kind: kind.kind.__name__)
def test_every_record_reads_back_as_written(kind: RecordValues[Any]) -> None:
    random, read = Random(7), 0
    for _ in range(100):
        with contextlib.suppress(ValueError, InvalidRequestError):  # of records that cannot be
            kind.check(record := drawn(kind.kind, random))
            key = kind.key_of(record) if kind.key_of else "/any"
            assert kind.decode(entry(key, kind.encode(record))) == kind._with_revision(record, 1)
            read += 1
    assert read


def test_values_of_one_number_read_back_as_written() -> None:
    assert decode_counter(entry(keys.TOPIC_ID_COUNTER, encode_counter(9))) == 9
    assert decode_counter(None) == 0
    assert decode_partitioned(entry(keys.partitioned(NAME), encode_partitioned(frozenset({1, 0})))) == {0, 1}


def test_a_value_leaves_out_what_has_its_default() -> None:
    assert shown(encode_subscription(SUBSCRIPTION)) == {
        "topic": {"namespace": "default", "local": "orders"},
        "name": "s/1",
        "subscription_id": 2**62,
        "type": 3,
        "created_ms": 5,
    }


def topic_entry(**changed: Any) -> Entry:
    return changed_entry(keys.topic(NAME), encode_topic(TOPIC), **changed)


def changed_entry(key: str, value: bytes, **changed: Any) -> Entry:
    return entry(key, with_crc(MAGIC + b"\1\0" + msgspec.msgpack.encode(shown(value) | changed)))


@pytest.mark.parametrize("version", [0, 2])
def test_record_of_another_version_is_refused_with_the_next_step(version: int) -> None:
    told = rf"/topics/default/orders was written by another version \(format {version}; .*\): use that version"
    value = encode_topic(TOPIC)
    with pytest.raises(MetadataError, match=told) as refused:
        decode_topic(entry(keys.topic(NAME), with_crc(value[:4] + bytes([version]) + value[5:-4])))
    assert exit_code_of(refused.value) is ExitCode.DATA_FOLDER


def test_the_record_of_another_key_is_refused() -> None:
    with pytest.raises(MetadataError, match=r"orders2 does not hold what it should \(the record of .*/orders\)"):
        decode_topic(entry(keys.topic(TopicName("default", "orders2")), encode_topic(TOPIC)))


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"topic_id": "7"}, r"Expected `int`, got `str` - at `\$.topic_id`"),
        ({"strategy": 9}, "Invalid enum value 9"),
        ({"schema_subject": 1}, "schema_subject"),
        ({"policies": {"message_ttl_s": "5"}}, r"at `\$.policies.message_ttl_s`"),
        ({"policies": {"message_ttl_s": -5}}, "message_ttl_s -5 cannot be"),
        ({"policies": {"limit_of_later": 9}}, "unknown field `limit_of_later`"),
    ],
)
def test_value_of_the_wrong_shape_is_refused_with_the_path(changed: dict[str, Any], told: str) -> None:
    with pytest.raises(MetadataError, match=rf"/topics/default/orders does not hold what it should \(.*{told}"):
        decode_topic(topic_entry(**changed))


@pytest.mark.parametrize("value", [b"", b"\xff", b"{}", encode_counter(5)])
def test_value_that_is_no_record_is_refused(value: bytes) -> None:
    with pytest.raises(MetadataError, match="does not hold what it should"):
        decode_topic(entry(keys.topic(NAME), value))


def test_a_value_of_any_family_is_shown_and_one_that_is_none_by_its_bytes() -> None:
    assert value_of(entry("/later/1", encode_counter(5))) == 5
    assert value_of(entry("/later/1", b"\xff")) == {"base64": "/w=="}


def test_limits_are_kept_with_the_difference_between_none_and_zero() -> None:
    policies = Policies(max_publish_rate=0, message_ttl_s=5, durability=0)
    record = replace(TOPIC, policies=policies)
    assert decode_topic(entry(keys.topic(NAME), encode_topic(record))) == record


STORED = TopicStorage(7, 5, (EpochRange(1, 2**63 - 1, 0, 40), EpochRange(2, 9, 40, 40), EpochRange(5, 9, 40)), 1)


@pytest.mark.parametrize("record", [STORED, TopicStorage(7, 0, (), 1), TopicStorage(0, 2**40, (), 1)])
def test_where_a_topic_is_stored_reads_back_with_its_revision(record: TopicStorage) -> None:
    assert decode_topic_storage(entry(keys.stored_topic(record.topic_id), encode_topic_storage(record))) == record


@pytest.mark.parametrize(
    "changed",
    [
        {"manifest_version": None},
        {"manifest_version": -1},
        {"epochs": None},
        {"epochs": [1]},
        {"epochs": [[1]]},
        {"epochs": [[1, 2, 5, 4, 0]]},
        {"epochs": [[1, 2, 5, "6", 0]]},
    ],
)
def test_where_a_topic_is_stored_is_never_guessed(changed: dict[str, Any]) -> None:
    with pytest.raises(MetadataError, match="/storage/topics/7"):
        decode_topic_storage(changed_entry(keys.stored_topic(7), encode_topic_storage(STORED), **changed))


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
