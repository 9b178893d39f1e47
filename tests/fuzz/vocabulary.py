"""What fuzzed requests are made of: names and ids that the broker knows, so that they get past the first check.

A well-behaved producer and its consumer live beside them under names that no request can hit upon.
"""

from danube.model.calls.client import Subscribe
from danube.model.calls.consume import ConsumeOpen
from danube.model.calls.stream import PublishOpen
from danube.model.limits.broker import NAME_BYTES_MAX
from danube.model.message import consumer_id, producer_id
from danube.model.subscription import SubscriptionType
from danube.model.topic import DispatchStrategy, TopicName
from danube.testing.peers.stream import CONSUME, PUBLISH, payload_batch
from danube.wire import encode
from danube.wire.stream import consume

SERVED = {
    "danube.ProducerService",
    "danube.ConsumerService",
    "danube.Discovery",
    "danube.HealthCheck",
    "danube.stream.StreamService",
}

RELIABLE = TopicName("default", "fuzzed")
NON_RELIABLE = TopicName("default", "fuzzed-fast")
PARTITION = TopicName("default", "fuzzed-many-part-0")
TOPICS = (RELIABLE, NON_RELIABLE, PARTITION)
MEMBERS = ("one", "two")
SUBSCRIPTIONS = {"one": SubscriptionType.SHARED, "two": SubscriptionType.KEY_SHARED}
CALM = TopicName("default", "calm")

_TOPIC_NAMES = tuple(str(topic).encode() for topic in (*TOPICS, TopicName("default", "absent")))
_MEMBER_NAMES = tuple(name.encode() for name in MEMBERS)
_PRODUCERS = tuple(producer_id(topic, name) for topic in TOPICS for name in MEMBERS)
_CONSUMERS = tuple(consumer_id(topic, name, other) for topic in TOPICS for name in MEMBERS for other in MEMBERS)
_BATCH = payload_batch(RELIABLE, [b"a", b"", b"c" * 300])
_BATCHES = (
    _BATCH,
    _BATCH,
    payload_batch(NON_RELIABLE, [b"elsewhere"]),
    _BATCH[:-1],
    _BATCH[:60] + b"\xff" + _BATCH[61:],
)

OPENINGS = {
    PUBLISH: encode.publish_open(
        PublishOpen(topic=RELIABLE, producer_name=MEMBERS[0], strategy=DispatchStrategy.RELIABLE)
    ),
    CONSUME: consume.open_request(
        ConsumeOpen(
            subscribe=Subscribe(
                request_id=0,
                topic=RELIABLE,
                consumer_name=MEMBERS[0],
                subscription=MEMBERS[0],
                type=SUBSCRIPTIONS[MEMBERS[0]],
            ),
            credit_bytes=1_000,
        )
    ),
}
"""What half of the streams begin with: few come past their first message otherwise."""

TEXTS: dict[str, tuple[bytes, ...]] = {
    "topic_name": _TOPIC_NAMES,
    "topic": _TOPIC_NAMES,
    "producer_name": _MEMBER_NAMES,
    "consumer_name": _MEMBER_NAMES,
    "subscription": _MEMBER_NAMES,
    "subscription_name": _MEMBER_NAMES,
    "subject": (b"orders", b"fuzzed"),
    "schema_type": (b"json_schema", b"avro", b"bytes", b"string", b"number", b"protobuf"),
    "compatibility_mode": (b"none", b"backward", b"forward", b"full"),
    "routing_key": (b"user-1", b"order-1", b""),
    "key_filters": (b"user-*", b"[a-z]?", b"*"),
}
PLAIN_TEXTS = (b"", b"text", b"http://127.0.0.1:6650")
WILD_TEXTS = (
    b"",
    b"/",
    b"//",
    b"/default",
    b"/a/b/c",
    b"/default/..",
    b"/absent/topic",
    b"/system/audit",
    b"/system/telemetry",
    b"\x00",
    b"\x1b[2J\x07",
    b"\xff\xfe",
    b"\xed\xa0\x80",
    "/default/\u202egnp".encode(),
    "/default/\u0130\u00df".encode(),
    b"/default/" + b"n" * (NAME_BYTES_MAX + 1),
    b"n" * 70_000,
    b"[" * 500,
    b"(a*)*" * 20,
    b"*a" * 120 + b"b",
    b"a" * 5_000,
    "\U0001f4a5".encode() * 64,
    b"ignore previous instructions",
)

BLOBS: dict[str, tuple[bytes, ...]] = {
    "body": _BATCHES,
    "schema_definition": (b'{"type":"object"}', b'"string"', b'{"type":"record","name":"r","fields":[]}'),
}
PLAIN_BLOBS = (b"", b"payload", bytes(range(256)))
WILD_BLOBS = (*_BATCHES, b"\xff" * 48, b"DnBt" + b"\xff" * 60, bytes(70_000), b"[" * 5_000, b'{"$ref":"#"}')

NUMBERS: dict[str, tuple[int, ...]] = {
    "producer_id": _PRODUCERS,
    "consumer_id": _CONSUMERS,
    "id": _PRODUCERS + _CONSUMERS,
    "topic_offset": (0, 1, 2, 5, 100),
    "offset": (0, 1, 5),
    "end_offset": (0, 1, 5, 1_000),
    "sequence": (0, 1, 2, 3),
    "delay_ms": (0, 1, 50),
    "bytes_max": (0, 1, 1_000),
    "credit_bytes": (0, 1, 1_000),
}
PLAIN_NUMBERS = (0, 1, 7)
WILD_NUMBERS = (0, 1, 2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**53 + 1, 2**63 - 1, 2**63, 2**64 - 1)
