"""Telemetry that a broker publishes about itself, version 1: one JSON object a record of TELEMETRY_TOPIC. Pure.

The format is described in `docs/formats/telemetry.md`. A `Stamp` says who published a record and when; the reading
beside it says how one thing stood then. Readings are named tuples: a broker compares one of each of its topics and
subscriptions at every tick.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import chain, cycle
from typing import Any, NamedTuple, cast, get_args, get_origin

from danube.model.errors import InvalidRequestError
from danube.model.limits.faces import LAG_NUMBER_END
from danube.model.topic import TopicName
from danube.model.untrusted_json import decode_json

VERSION = 1
SYSTEM_NAMESPACE = "system"
TELEMETRY_TOPIC = TopicName(SYSTEM_NAMESPACE, "telemetry")
TELEMETRY_PRODUCER = "danube-telemetry"


@dataclass(frozen=True, slots=True, kw_only=True)
class Stamp:
    """The origin of a record: broker, start, sequence and time."""

    broker_id: str
    start_id: str
    """Another one after each start of the broker: counters begin again, and so does `sequence`."""
    sequence: int
    """Of the records of this start, from 0, without a gap."""
    at_ms: int
    """Broker clock; the reading is at most as old as a tick takes, and never younger."""
    full: bool
    """Published because a full round was due; on a broker's record: the full round ends here."""
    gone: bool = False
    """The broker serves it no longer; the reading is the last one."""


class BrokerReading(NamedTuple):
    """The load of one broker. Counters count from its start."""

    broker_version: str
    uptime_s: float
    topics: int
    subscriptions: int
    producers: int
    consumers: int
    """With an open stream."""
    cpu_s: float
    """Processor time used by the process, user and system."""
    rss_bytes: int
    journal_rounds: int
    journal_failed_rounds: int
    journal_bytes_written: int
    journal_size_bytes: int
    journal_backlog_bytes: int
    journal_last_round_ms: float
    journal_stopped: bool
    segments: int | None = None
    """Of all topics."""
    segment_bytes: int | None = None
    """Of their files."""
    disk_free_bytes: int | None = None
    """As last seen."""
    disk_refuses: bool | None = None
    """Messages are refused until there is room again."""


class TopicReading(NamedTuple):
    """One topic; the last fields are those of a reliable one. Counters count from the broker's start."""

    topic: str
    topic_id: str
    """Tells a topic from one of the same name that was deleted."""
    strategy: str
    """"reliable" or "non_reliable"."""
    partition_base: str | None
    partition_index: int | None
    messages_in: int
    bytes_in: int
    producers: int
    subscriptions: int
    consumers: int
    """With an open stream."""
    start_offset: int | None = None
    head: int | None = None
    """The offset after the last durable message."""
    start_append_ms: int | None = None
    """Of the oldest message that can be read; None when there is none."""
    head_append_ms: int | None = None
    """Of the newest message; None when there is none."""
    log_bytes: int | None = None
    messages_expired: int | None = None
    """Passed over unread: too old, or let go of by retention."""


class SilentConsumer(NamedTuple):
    """A consumer that owes an answer."""

    name: str
    host: str | None
    since_ms: int
    """Time of its last answer, or of its first message since."""
    in_flight: int
    offset: int | None
    """The lowest of these; None while it has none."""


class SubscriptionReading(NamedTuple):
    """One subscription; the last fields are those of a reliable topic's. Counters count from the broker's start."""

    topic: str
    topic_id: str
    subscription: str
    subscription_id: str
    """Tells a subscription from one of the same name that was deleted."""
    type: str
    """"exclusive", "shared", "failover" or "key_shared"."""
    consumers: int
    """With an open stream."""
    consumers_known: int
    messages_out: int
    """Redelivered ones included."""
    dropped: int | None = None
    """Of a non-reliable topic only: messages that no consumer had room for."""
    start_offset: int | None = None
    """Of the topic, for the risk that messages go before they are read."""
    head: int | None = None
    position: int | None = None
    """Everything below it is acknowledged."""
    acknowledged_beyond: int | None = None
    """Messages above `position` that are acknowledged too."""
    lag_messages: int | None = None
    in_flight: int | None = None
    waiting: int | None = None
    """In back-off."""
    ready: int | None = None
    """To be sent again as soon as a consumer has room."""
    redelivered: int | None = None
    nacked: int | None = None
    oldest_unread_append_ms: int | None = None
    """Of the message at `position`; None when nothing is unread."""
    head_append_ms: int | None = None
    blocked: int | None = None
    """Failed too often, and hold up what follows until an operator decides."""
    acknowledged: int | None = None
    """By consumers; the next three count what moved the position beside that."""
    skipped: int | None = None
    """By administrators, by the poison policy, or since no consumer takes their key."""
    expired: int | None = None
    trimmed: int | None = None
    """Deleted by retention, unread."""
    seeks: int | None = None
    timed_out: int | None = None
    """Not acknowledged in time."""
    disconnected: int | None = None
    """In flight when the stream of their consumer ended."""
    failures: int | None = None
    """Of the open message that failed most often; restarts included."""
    failed_offset: int | None = None
    """Of that message; None when none failed."""
    failed_on: int | None = None
    """Consumers on which the message at the position failed."""
    silent: tuple[SilentConsumer, ...] | None = None
    """Consumers that owe an answer for the longest time, TELEMETRY_SILENT_MAX at most; None when none does."""
    dispatch_limit: int | None = None
    """Messages a second that the subscription may send; None without a limit."""
    retention_deadline_ms: int | None = None
    """Time at which retention deletes the message at the position, if it is unread then; None where age does not."""
    retention_messages_left: int | None = None
    """Messages that may arrive until retention deletes it by size; None where size does not."""
    last_acknowledged_ms: int | None = None
    """Time of the last acknowledgement; None where there was none."""


Reading = BrokerReading | TopicReading | SubscriptionReading
KINDS: Mapping[str, type[Reading]] = {
    "broker": BrokerReading,
    "topic": TopicReading,
    "subscription": SubscriptionReading,
}
_KIND_OF = {reading: kind for kind, reading in KINDS.items()}
_OF_SUBSCRIPTIONS = SubscriptionReading._fields
_LATER = frozenset(
    {"segments", "segment_bytes", "disk_free_bytes", "disk_refuses", "messages_expired"}
    | {*_OF_SUBSCRIPTIONS[_OF_SUBSCRIPTIONS.index("blocked") :]}
)
"""Fields that version 1 has got since it was released: they are left out where nothing is known, and may be missing."""
_STAMP_FIELDS = ("broker_id", "start_id", "sequence", "at_ms", "full", "gone")


def plain_topics(records: Iterable[tuple[Stamp, Reading]]) -> frozenset[str]:
    """Topics that are no partitions, as brokers tell: some have a name of that form."""
    topics = (reading for _, reading in records if isinstance(reading, TopicReading))
    return frozenset(reading.topic for reading in topics if reading.partition_base is None)


def encode_record(stamp: Stamp, reading: Reading) -> bytes:
    """One record: UTF-8 JSON on one line, its keys always in the same order."""
    fields: dict[str, Any] = {"version": VERSION, "kind": _KIND_OF[type(reading)]}
    for name in _STAMP_FIELDS:
        fields[name] = getattr(stamp, name)
    fields.update((name, value) for name, value in reading._asdict().items() if value is not None or name not in _LATER)
    if fields.get("silent"):
        fields["silent"] = [each._asdict() for each in fields["silent"]]
    return json.dumps(fields, ensure_ascii=False, separators=(",", ":")).encode()


def decode_record(record: bytes) -> tuple[Stamp, Reading] | None:
    """A record as it was published; None for one of a kind or version that is not known here: skip it.

    Keys that are not known are left out, as a later broker may add some. Raises InvalidRequestError for anything else.
    """
    try:
        fields = decode_json(record)
    except ValueError:
        raise InvalidRequestError("this is not a telemetry record: it is no JSON") from None
    if not isinstance(fields, dict) or not isinstance(fields.get("version"), int):
        raise InvalidRequestError("this is not a telemetry record: it has no version")
    kind = KINDS.get(fields["kind"]) if isinstance(fields.get("kind"), str) else None
    if fields["version"] != VERSION or kind is None:
        return None
    if fields.get("silent") is not None:
        fields["silent"] = _silent(fields["silent"])
    stamp, reading = Stamp(**_pick(_STAMP_FIELDS, fields)), kind(**_pick(kind._fields, fields))
    if not _is_sound(stamp, reading):
        raise InvalidRequestError("this is not a telemetry record: a field has another type, or no such number")
    return stamp, reading


def _is_sound(stamp: Stamp, reading: Reading) -> bool:
    """True if its values are of the types that readers count on, and no number is negative or absurd."""
    of_stamp = tuple(getattr(stamp, name) for name in _STAMP_FIELDS)
    silent = [value for each in getattr(reading, "silent", None) or () for value in each]
    types = chain(_STAMP_TYPES, _TYPES[type(reading)], cycle(_SILENT_TYPES))
    values = (*of_stamp, *reading, *silent)
    if not all(type(value) in allowed for value, allowed in zip(values, types, strict=False)):
        return False
    counted = values if isinstance(reading, SubscriptionReading) else of_stamp
    numbers = [value for value in values if isinstance(value, int | float)]
    return min(numbers) >= 0 and max(value for value in counted if isinstance(value, int)) < LAG_NUMBER_END


def _types_of(annotation: object) -> frozenset[type]:
    types = frozenset(get_origin(each) or each for each in get_args(annotation) or (annotation,))
    return types | {int} if float in types else types


_TYPES = {kind: tuple(map(_types_of, kind.__annotations__.values())) for kind in KINDS.values()}
"""Of each field of a reading, in its order."""
_SILENT_TYPES = tuple(map(_types_of, SilentConsumer.__annotations__.values()))
_STAMP_TYPES = tuple(_types_of(Stamp.__annotations__[name]) for name in _STAMP_FIELDS)


def _silent(told: object) -> tuple[SilentConsumer, ...]:
    try:
        return tuple(SilentConsumer(*(each[name] for name in SilentConsumer._fields)) for each in cast("Any", told))
    except (TypeError, KeyError, IndexError):
        raise InvalidRequestError("this is not a telemetry record: its silent consumers are none") from None


def _pick(names: tuple[str, ...], fields: Mapping[str, Any]) -> dict[str, Any]:
    missing = [name for name in names if name not in fields and name not in _LATER]
    if missing:
        raise InvalidRequestError(f"a telemetry record of version {VERSION} lacks {', '.join(missing)}")
    return {name: fields[name] for name in names if name in fields}
