"""What metadata says of a data folder: which topics there are, and which manifest of each is the newest.

Nothing in the folder is changed by looking: the metadata's file is opened as a copy, elsewhere.
"""

import shutil
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from danube.metadata import keys
from danube.metadata.record_format import TopicStorage, decode_subscription, decode_topic, decode_topic_storage
from danube.metadata.sqlite_file import SqliteFile
from danube.model.errors import DanubeError
from danube.model.topic import DispatchStrategy

METADATA = "metadata.sqlite3"
"""The file of the embedded metadata store within a data folder."""


@dataclass(slots=True)
class Known:
    """What metadata says."""

    trouble: str | None = None
    """Why it could not be read; then nothing is known."""
    topics: dict[int, str] = field(default_factory=dict)
    """Names by topic id, of the topics that are stored."""
    subscriptions: dict[int, dict[int, str]] = field(default_factory=dict)
    """By topic id, names by subscription id."""
    records: dict[int, TopicStorage] = field(default_factory=dict)
    deleted: set[int] = field(default_factory=set)
    """Topics that were deleted and whose files may still be there."""

    def record(self, topic_id: int) -> TopicStorage:
        """Where a topic's messages are."""
        return self.records.get(topic_id) or TopicStorage(topic_id)

    def name(self, topic_id: int) -> str:
        """What to call a topic."""
        return self.topics.get(topic_id) or f"(topic id {topic_id})"

    def subscription(self, topic_id: int, subscription_id: int) -> str:
        """What to call a subscription."""
        return self.subscriptions.get(topic_id, {}).get(subscription_id) or f"(subscription id {subscription_id})"

    def counts(self, topic_id: int) -> bool:
        """Whether a broker would serve the topic, or may, as far as is known."""
        return self.trouble is not None or topic_id in self.topics

    def find(self, name: str) -> int | None:
        """The id of the topic with this name."""
        return next((topic_id for topic_id, found in self.topics.items() if found == name), None)


def read_known(data_folder: Path) -> Known:
    """What the metadata in a data folder says."""
    if not (data_folder / METADATA).exists():
        return Known(trouble=f"{METADATA} is not there")
    try:
        with tempfile.TemporaryDirectory(prefix="danube-inspect-") as scratch:
            for name in (METADATA, f"{METADATA}-wal"):
                if (data_folder / name).exists():
                    shutil.copyfile(data_folder / name, Path(scratch) / name)
            return _read(Path(scratch) / METADATA)
    except OSError as error:
        return Known(trouble=f"{METADATA} could not be read: {error.strerror or error}")


def _read(path: Path) -> Known:
    try:
        file = SqliteFile.open(path)
    except DanubeError as error:
        return Known(trouble=f"{METADATA} could not be read: {_without(error, path)}")
    try:
        return _take(file)
    except DanubeError as error:
        return Known(trouble=f"{METADATA} could not be read: {_without(error, path)}")
    finally:
        file.close()


def _take(file: SqliteFile) -> Known:
    known = Known()
    ids = {}
    for entry in file.below(keys.TOPICS):
        topic = decode_topic(entry)
        ids[topic.name] = topic.topic_id
        if topic.strategy is DispatchStrategy.RELIABLE:
            known.topics[topic.topic_id] = str(topic.name)
    for entry in file.below(keys.SUBSCRIPTIONS):
        one = decode_subscription(entry)
        if one.topic in ids:
            known.subscriptions.setdefault(ids[one.topic], {})[one.subscription_id] = one.name
    for entry in file.below(keys.STORED_TOPICS):
        record = decode_topic_storage(entry)
        known.records[record.topic_id] = record
    known.deleted = {keys.parse_deleted_topic(entry.key) for entry in file.below(keys.DELETED_TOPICS)}
    return known


def _without(error: DanubeError, path: Path) -> str:
    """What it says, without the copy's place, which is gone."""
    return str(error).replace(f"{path}", METADATA)
