"""The storage of a broker in a test: small files and segments, and background work that runs when it is asked for."""

from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from danube.broker.config.settings import BrokerSettings
from danube.broker.config.values import storage_settings
from danube.broker.policy.retention import RetentionSync
from danube.broker.topics.local_topics import Topics
from danube.model.topic import TopicName
from danube.storage.segment.manifest import folder_of
from danube.storage.settings import StorageSettings
from danube.storage.store import Storage
from tests.unit.storage.store.storage_world import flush_all


class Keeper(NamedTuple):
    """What keeps the messages of the broker that was started last."""

    topics: Topics
    storage: Storage

    async def let_go(self) -> int:
        """Do what the broker does in time: cut the journal, then retention."""
        await flush_all(self.storage)
        return await RetentionSync(self.topics, self.storage).sweep()

    def folder(self, data_dir: Path, topic: TopicName) -> Path:
        found = self.topics.find(str(topic))
        assert found is not None
        return data_dir / folder_of(found.record.topic_id)


def small(settings: BrokerSettings) -> StorageSettings:
    """What `storage_settings` says, but for sizes."""
    given = storage_settings(settings)
    journal = replace(given.journal, file_bytes_max=4_096, round_bytes_max=1_500, cache_bytes_max=0)
    return replace(given, journal=journal, segment_bytes_max=4_096, check_interval_s=3_600)
