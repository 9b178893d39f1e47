"""Remote topics: the topics of a cluster that other brokers serve; a standalone broker knows none."""

import logging
from collections.abc import Callable, Iterator

from danube.metadata.records import keys
from danube.metadata.records.cluster import BrokerRegistration
from danube.metadata.records.record_format import TopicRecord, decode_topic
from danube.metadata.store import Entry
from danube.model.errors import MetadataError, TopicNotServedError
from danube.model.topic import TopicName

_log = logging.getLogger(__name__)

Find = Callable[[int], BrokerRegistration | None]
"""The broker of an id, if it runs."""


def _no_broker(_broker_id: int) -> None:
    return None


class RemoteTopics:
    """The remote topics by name, kept up to date by `follow`; a moment late after a move or a creation."""

    def __init__(self, own_id: int = 0, find_broker: Find = _no_broker) -> None:
        self._own_id = own_id
        self._find_broker = find_broker
        self._records: dict[str, TopicRecord] = {}
        self._partitions: dict[str, set[str]] = {}
        """Names by the base name."""

    def __iter__(self) -> Iterator[TopicRecord]:
        return iter(self._records.values())

    @property
    def is_cluster(self) -> bool:
        """Tell whether there may be other brokers."""
        return self._own_id != 0

    def find(self, name: str) -> TopicRecord | None:
        """The topic of this name, if another broker serves it."""
        return self._records.get(name)

    def partitions_of(self, base: TopicName) -> list[TopicName]:
        """The partitions of a base name that others serve, in no order."""
        return [self._records[name].name for name in self._partitions.get(str(base), ())]

    def is_remote(self, record: TopicRecord) -> bool:
        """Tell whether another broker serves a topic."""
        return self.is_cluster and record.owner != self._own_id

    def server_of(self, record: TopicRecord) -> BrokerRegistration:
        """The broker that serves a topic. Raises TopicNotServedError while it does not run."""
        broker = self._find_broker(record.owner)
        if broker is None:
            raise TopicNotServedError(
                f"{record.name} is served by broker {record.owner}, which does not run at the moment: try again"
            )
        return broker

    def refusal(self, record: TopicRecord) -> TopicNotServedError:
        """The error of a call about a topic that another broker serves."""
        if not record.owner:
            return TopicNotServedError(
                f"{record.name} belongs to no broker, as its record is from before there was a cluster: carry the"
                " metadata of its broker over with `danube-broker metadata restore`"
            )
        broker = self._find_broker(record.owner)
        where = f"at {broker.broker_url}" if broker else "which does not run at the moment"
        admin = f" (administrators: {broker.admin_url})" if broker else ""
        return TopicNotServedError(
            f"{record.name} is served by broker {record.owner} {where}{admin}: look it up again and retry"
        )

    def follow(self, key: str, entry: Entry | None) -> None:
        """Apply a change or the deletion of a topic's key."""
        try:
            name = keys.parse_topic(key)
            record = decode_topic(entry) if entry else None
        except MetadataError as error:
            _log.warning("a topic cannot be read, and is left out: %s", error)
            return
        self._forget(name)
        if record is not None and self.is_remote(record):
            self._records[str(name)] = record
            if name.base is not None:
                self._partitions.setdefault(str(name.base), set()).add(str(name))

    def _forget(self, name: TopicName) -> None:
        self._records.pop(str(name), None)
        if name.base is not None:
            names = self._partitions.get(str(name.base), set())
            names.discard(str(name))
            if not names:
                self._partitions.pop(str(name.base), None)
