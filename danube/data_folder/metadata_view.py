"""View of the metadata of a data folder: which topics there are, and which manifest of each is the newest.

Pure.
"""

from collections.abc import Container, Iterable
from dataclasses import dataclass, field

from danube.data_folder.findings import Finding, damage, note
from danube.metadata.raft.folder.format import FOLDER as RAFT
from danube.metadata.records import keys
from danube.metadata.records.record_format import (
    TopicStorage,
    decode_lost_log,
    decode_subscription,
    decode_tombstone,
    decode_topic,
    decode_topic_storage,
)
from danube.metadata.records.storage import owner_of
from danube.metadata.store import Entry
from danube.model.topic import DispatchStrategy

_FAMILIES = (keys.TOPICS, keys.SUBSCRIPTIONS, keys.STORED_TOPICS, keys.DELETED_TOPICS)


@dataclass(slots=True)
class MetadataView:
    """Topics, subscriptions and records, as far as metadata says."""

    place: str = f"{RAFT}/"
    """Place of the metadata: within the data folder, or elsewhere."""
    trouble: str | None = None
    """Reason why it could not be read though it is in the folder; then nothing is known."""
    unread: str | None = None
    """Reason why it was not read: it is kept elsewhere. Then nothing is known, and nothing is wrong."""
    note: str | None = None
    """Remark on it, for people."""
    topics: dict[int, str] = field(default_factory=dict)
    """Names by topic id, of the topics that are stored."""
    subscriptions: dict[int, dict[int, str]] = field(default_factory=dict)
    """By topic id, names by subscription id."""
    records: dict[int, TopicStorage] = field(default_factory=dict)
    deleted: dict[int, int] = field(default_factory=dict)
    """Topics that were deleted and whose files may still be there, and the last owner of each."""
    owners: Container[int] | None = None
    """Owners of these topics; None for all."""

    @property
    def is_blind(self) -> bool:
        """True when the topics are unknown."""
        return self.trouble is not None or self.unread is not None

    def findings(self) -> list[Finding]:
        """Findings on the metadata itself: damage, or a note."""
        faults = [damage(self.place, self.trouble)] if self.trouble else []
        return faults + [note(self.place, what) for what in (self.unread, self.note) if what]

    def record(self, topic_id: int) -> TopicStorage:
        """The storage record of a topic: where its messages are."""
        return self.records.get(topic_id) or TopicStorage(topic_id)

    def name(self, topic_id: int) -> str:
        """The name of a topic, or its id where that is unknown."""
        return self.topics.get(topic_id) or f"(topic id {topic_id})"

    def subscription(self, topic_id: int, subscription_id: int) -> str:
        """The name of a subscription, or its id where that is unknown."""
        return self.subscriptions.get(topic_id, {}).get(subscription_id) or f"(subscription id {subscription_id})"

    def counts(self, topic_id: int) -> bool:
        """True when a broker would serve the topic, or may, as far as is known."""
        return self.is_blind or topic_id in self.topics

    def was_deleted_here(self, topic_id: int) -> bool:
        """True when the topic was deleted while one of these owners had it."""
        return topic_id in self.deleted and (self.owners is None or self.deleted[topic_id] in self.owners)

    def find(self, name: str) -> int | None:
        """The id of the topic with this name."""
        return next((topic_id for topic_id, found in self.topics.items() if found == name), None)


def view_of(entries: Iterable[Entry], owners: Container[int] | None = None) -> MetadataView:
    """The view of the stored topics of these owners that entries give; None for all. Raises MetadataError."""
    view, topics, subscriptions, entries = MetadataView(owners=owners), [], [], list(entries)
    view.topics.update(_lost_logs(entries, owners))
    for entry in entries:
        family = next((one for one in _FAMILIES if entry.key.startswith(f"{one}/")), "")
        if family == keys.TOPICS:
            topics.append(decode_topic(entry))
        elif family == keys.SUBSCRIPTIONS:
            subscriptions.append(decode_subscription(entry))
        elif family == keys.STORED_TOPICS:
            record = decode_topic_storage(entry)
            view.records[record.topic_id] = record
        elif family == keys.DELETED_TOPICS:
            view.deleted[keys.parse_deleted_topic(entry.key)] = decode_tombstone(entry)
    ids = {}
    for topic in topics:
        if owners is None or owner_of(view.records.get(topic.topic_id), topic.broker) in owners:
            ids[topic.name] = topic.topic_id
            if topic.strategy is DispatchStrategy.RELIABLE:
                view.topics[topic.topic_id] = str(topic.name)
    for one in subscriptions:
        if one.topic in ids:
            view.subscriptions.setdefault(ids[one.topic], {})[one.subscription_id] = one.name
    if owners is not None:
        view.records = {topic_id: view.records[topic_id] for topic_id in view.topics if topic_id in view.records}
    return view


def _lost_logs(entries: Iterable[Entry], owners: Container[int] | None) -> dict[int, str]:
    """Topics that were started anew elsewhere: their logs are kept."""
    found = [decode_lost_log(entry) for entry in entries if entry.key.startswith(f"{keys.LOST_LOGS}/")]
    return {one.topic_id: str(one.name) for one in found if owners is None or one.broker in owners}
