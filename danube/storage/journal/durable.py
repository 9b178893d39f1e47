"""What is durable and can be found: the indexes, cursors and recent batches of all topics of a journal.."""

from danube.storage.cache import BatchCache
from danube.storage.envelope import ENVELOPE_BYTES
from danube.storage.journal.backlog import TopicState
from danube.storage.journal.files import FileTable
from danube.storage.journal.index import Located, TopicIndex
from danube.storage.journal.recovery import Recovered
from danube.storage.journal.round import Round
from danube.storage.journal.writer import Written
from danube.storage.log import StoredBatch


class DurableTopics:
    """The topics of a journal, as recovered and as rounds are written."""

    def __init__(self, recovered: Recovered, cache: BatchCache) -> None:
        self.files: FileTable = recovered.files
        self.cache = cache
        self._skipped = recovered.skipped
        self._topics = {topic_id: TopicState(topic_id, index) for topic_id, index in recovered.topics.items()}
        for (topic_id, subscription_id), cursor in recovered.cursors.items():
            self._state(topic_id).save_cursor(subscription_id, cursor)
        for topic_id, numberings in recovered.numberings.items():
            self._state(topic_id).numberings = numberings

    def open(self, topic_id: int, epoch: int) -> TopicState:
        """The topic's state, to be written to under `epoch`. Raises ValueError for one that was left out."""
        if topic_id in self._skipped:
            raise ValueError(f"topic id {topic_id} has records that were left out: ids are never used again")
        topic = self._state(topic_id)
        topic.epoch = epoch
        return topic

    def forget(self, topic_id: int) -> TopicState | None:
        """Let go of a topic for good; answers what was kept of it."""
        self._skipped.add(topic_id)
        return self._topics.pop(topic_id, None)

    def take_in(self, written_round: Round, written: Written) -> None:
        """A round is durable: from here on it can be found."""
        self.files.add(written.sequence, written.base_position)
        position = written.content_position
        for batch, stored in zip(written_round.batches, written_round.stored, strict=True):
            self._take_in_batch(batch.topic, stored, position)
            position += ENVELOPE_BYTES + len(stored.body)
        for (topic_id, subscription_id), pending in written_round.cursors.items():
            topic = self._topics.get(topic_id)
            if topic is not None:
                topic.save_cursor(subscription_id, pending.cursor)

    def _take_in_batch(self, topic: TopicState, stored: StoredBatch, position: int) -> None:
        if topic.index is None:
            topic.index = TopicIndex()
        length = len(stored.body)
        topic.index.append(Located(stored.base_offset, stored.end_offset, position, length, stored.append_time_ms))
        self.cache.add(topic.topic_id, stored)
        topic.note_numbers(stored)

    def _state(self, topic_id: int) -> TopicState:
        topic = self._topics.get(topic_id)
        if topic is None:
            topic = self._topics[topic_id] = TopicState(topic_id)
        return topic
