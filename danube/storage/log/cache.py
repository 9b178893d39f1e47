"""Recent batches in memory, all topics together, bounded in bytes: the oldest goes first. Pure."""

from collections import OrderedDict

from danube.storage.log.protocol import StoredBatch

_BATCH_BYTES = 300  # what a kept batch costs besides its body, roughly


class BatchCache:
    """The newest batches. Of each topic they are an unbroken run up to its durable end."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._batches: OrderedDict[tuple[int, int], StoredBatch] = OrderedDict()
        self.bytes = 0

    def add(self, topic_id: int, batch: StoredBatch) -> None:
        """Keep a topic's next batch; the oldest batches of any topic make room."""
        self.drop(topic_id, batch.base_offset)
        self._batches[topic_id, batch.base_offset] = batch
        self.bytes += _cost(batch)
        while self.bytes > self._bytes_max:
            _, oldest = self._batches.popitem(last=False)
            self.bytes -= _cost(oldest)

    def get(self, topic_id: int, base_offset: int) -> StoredBatch | None:
        """The batch that begins at `base_offset`, when it is still there."""
        return self._batches.get((topic_id, base_offset))

    def drop(self, topic_id: int, base_offset: int) -> bool:
        """Drop one batch; answers whether it was there."""
        batch = self._batches.pop((topic_id, base_offset), None)
        if batch is None:
            return False
        self.bytes -= _cost(batch)
        return True


def _cost(batch: StoredBatch) -> int:
    return len(batch.body) + _BATCH_BYTES
