"""Metadata of the topics that a bucket holds: names by the copy in it, places of messages by what is there. Pure.

A topic id is never given out again. So an id up to the last one of the copy that the copy does not name is of a topic
that was deleted before the copy was made, and a higher one is of a topic that is newer than the copy.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from danube.metadata.backup.backup import last_topic_id
from danube.metadata.backup.format import Backup, Origin
from danube.metadata.records import keys
from danube.metadata.records.cluster import encode_cluster_id
from danube.metadata.records.record_format import (
    EpochRange,
    NamespaceRecord,
    SubscriptionRecord,
    TopicRecord,
    TopicStorage,
    decode_topic,
    decode_topic_storage,
    encode_counter,
    encode_namespace,
    encode_subscription,
    encode_topic,
    encode_topic_storage,
)
from danube.metadata.state import StateSnapshot
from danube.metadata.store import Entry
from danube.model.errors import DamagedDataError
from danube.model.subscription import SubscriptionType
from danube.model.topic import DispatchStrategy, TopicName
from danube.offline.storage.rebuild.contents import EpochRun, FoundTopic
from danube.storage.flush.orphans import EPOCH_SHIFT

NAMESPACE = "default"


@dataclass(frozen=True, slots=True, kw_only=True)
class RebuiltTopic:
    """One topic as it will be served."""

    topic: str
    topic_id: int
    is_named: bool
    """False: the copy does not know it, and its name is made of its id."""
    start_offset: int = 0
    end_offset: int = 0
    segments: int = 0
    subscriptions: int = 0
    """Of those that no copy names."""


@dataclass(slots=True)
class Rebuilt:
    """Metadata as it is to be restored."""

    backup: Backup
    topics: list[RebuiltTopic] = field(default_factory=list)
    deleted: list[int] = field(default_factory=list)
    """Ids of topics that had been deleted, and of which something is left in the bucket."""


def rebuild(
    copy: Backup | None,
    found: Mapping[int, FoundTopic],
    cluster_id: str,
    now_ms: int,
    *,
    owner: int = 0,
    kind: str = "raft",
) -> Rebuilt:
    """Metadata of these topics, which `owner` owns, 0 for nobody; `kind` is that of the store that it was in.

    Raises DamagedDataError where messages between others are missing, MetadataError.
    """
    origin = Origin(kind=kind, place="", taken_ms=now_ms, danube="", cluster_id=cluster_id)
    made = Rebuilt(copy if copy is not None else Backup(origin, StateSnapshot(1)))
    revision = made.backup.snapshot.revision
    kept = (one for one in made.backup.snapshot.entries if not _is_of_journal(one.key))
    entries = {entry.key: entry for entry in kept}

    def put(key: str, value: bytes) -> None:
        entries[key] = Entry(key, value, entries[key].created_revision if key in entries else revision, revision)

    if keys.CLUSTER_ID not in entries:
        put(keys.CLUSTER_ID, encode_cluster_id(cluster_id))
    named = {topic.topic_id: topic for topic in _topics(entries)}
    last_id = last_topic_id(entries.values())
    for topic_id, topic in found.items():
        record = named.get(topic_id)
        if record is None and topic_id <= last_id:
            made.deleted.append(topic_id)
            continue
        is_named = record is not None
        record = record or TopicRecord(_name_of(topic_id, entries), topic_id, DispatchStrategy.RELIABLE, now_ms)
        if not is_named:
            for key, value in _unnamed(record, topic, now_ms):
                if key not in entries:
                    put(key, value)
        put(keys.stored_topic(topic_id), encode_topic_storage(replace(storage_of(topic), owner=owner)))
        made.topics.append(_row(record, topic, is_named=is_named))
    for topic_id in named.keys() - found.keys():
        if (entry := entries.get(keys.stored_topic(topic_id))) is not None:
            before = decode_topic_storage(entry)
            put(entry.key, encode_topic_storage(TopicStorage(topic_id, owner=owner, epoch=before.epoch)))
        made.topics.append(RebuiltTopic(topic=str(named[topic_id].name), topic_id=topic_id, is_named=True))
    put(keys.TOPIC_ID_COUNTER, encode_counter(max([last_id, *found])))
    made.topics.sort(key=lambda one: one.topic)
    ordered = tuple(entries[key] for key in sorted(entries))
    made.backup = replace(made.backup, snapshot=replace(made.backup.snapshot, entries=ordered))
    return made


def storage_of(topic: FoundTopic) -> TopicStorage:
    """Location of a topic's messages; nobody owns it. Raises DamagedDataError for a gap between them."""
    manifest = topic.manifest
    written = manifest.version >> EPOCH_SHIFT
    runs = [one for one in topic.runs if one.epoch >= written]  # what those before have is in its segments, or void
    epoch = max([written, *(one.epoch for one in topic.runs)])
    ranges = tuple(_ranges(topic, runs)) if runs else ()
    return TopicStorage(topic.topic_id, manifest.version, ranges, epoch=max(epoch, 1))


def _ranges(topic: FoundTopic, runs: list[EpochRun]) -> Iterator[EpochRange]:
    """Unbroken epochs with something above the segments, and the newest, which goes on: it has the subscriptions."""
    end = topic.manifest.end_offset
    begins = [one.first_offset for one in runs]
    for number, run in enumerate(runs[:-1]):
        if run.first_offset is None:
            continue
        following = next((one for one in begins[number + 1 :] if one is not None), run.end_offset)
        if following <= end:
            continue
        _check_joined(topic, end, run.first_offset)
        if following > run.end_offset:
            raise _gap(topic, run.end_offset, following)
        yield EpochRange(run.epoch, run.journal_id, min(run.first_offset, end), following, run.position)
        end = following
    newest = runs[-1]
    if newest.first_offset is not None:
        _check_joined(topic, end, newest.first_offset)
    yield EpochRange(newest.epoch, newest.journal_id, end, None, newest.position)


def _check_joined(topic: FoundTopic, end: int, first: int) -> None:
    if first > end:
        raise _gap(topic, end, first)


def _gap(topic: FoundTopic, end: int, first: int) -> DamagedDataError:
    return DamagedDataError(
        f"messages {end} to {first - 1} of topic {topic.topic_id} are neither in a segment nor in a journal of the"
        " bucket: restore what was deleted by the versions that the bucket keeps"
    )


def _unnamed(record: TopicRecord, topic: FoundTopic, now_ms: int) -> Iterator[tuple[str, bytes]]:
    """Records of a topic that no copy names, and of its subscriptions."""
    yield keys.namespace(NAMESPACE), encode_namespace(NamespaceRecord(NAMESPACE))
    yield keys.topic(record.name), encode_topic(record)
    for subscription_id in sorted(topic.cursors):
        made = SubscriptionRecord(
            record.name, f"recovered-{subscription_id:016x}", subscription_id, SubscriptionType.SHARED, now_ms
        )
        yield keys.subscription(record.name, made.name), encode_subscription(made)


def _row(record: TopicRecord, topic: FoundTopic, *, is_named: bool) -> RebuiltTopic:
    return RebuiltTopic(
        topic=str(record.name),
        topic_id=topic.topic_id,
        is_named=is_named,
        start_offset=topic.manifest.start_offset,
        end_offset=topic.end_offset,
        segments=len(topic.manifest.segments),
        subscriptions=0 if is_named else len(topic.cursors),
    )


def _name_of(topic_id: int, entries: Mapping[str, Entry]) -> TopicName:
    name = TopicName(NAMESPACE, f"recovered-topic-{topic_id}")
    while keys.topic(name) in entries:
        name = TopicName(NAMESPACE, f"{name.local}-again")
    return name


def _topics(entries: Mapping[str, Entry]) -> list[TopicRecord]:
    return [decode_topic(entry) for key, entry in entries.items() if key.startswith(f"{keys.TOPICS}/")]


def _is_of_journal(key: str) -> bool:
    return key.startswith(f"{keys.STORED_JOURNALS}/")
