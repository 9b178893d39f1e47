"""Exclusive producers as records: the newest epoch of each topic, and its producer."""

from danube.metadata.records import keys
from danube.metadata.records.record_format import (
    ProducerEpoch,
    TopicRecord,
    decode_producer_epoch,
    encode_producer_epoch,
)
from danube.metadata.store import MetadataStore
from danube.metadata.transaction_builder import TransactionBuilder, commit_transaction
from danube.runtime.rng import Rng

__all__ = ["ProducerEpoch", "ProducerEpochs"]


class ProducerEpochs:
    """The epochs in a metadata store; they go with their topics. Every method raises MetadataError when it fails."""

    def __init__(self, store: MetadataStore, rng: Rng) -> None:
        self._store = store
        self._rng = rng

    async def newest(self, topic: TopicRecord) -> ProducerEpoch:
        """The newest one of this very topic; epoch 0 when there never was an exclusive producer."""
        entry = await self._store.get(keys.producer_epoch(topic.name))
        found = decode_producer_epoch(entry) if entry else None
        return found if found and found.topic_id == topic.topic_id else ProducerEpoch(topic.topic_id, 0, "")

    async def begin(self, after: ProducerEpoch, topic: TopicRecord, producer_name: str) -> ProducerEpoch:
        """Begin the epoch that follows on `after`, which the caller has seen last; a newer one stays below it."""

        async def change(builder: TransactionBuilder) -> ProducerEpoch:
            entry = await builder.read(keys.producer_epoch(topic.name))
            found = decode_producer_epoch(entry) if entry else after
            last = max(found.epoch, after.epoch) if found.topic_id == topic.topic_id else after.epoch
            begun = ProducerEpoch(topic.topic_id, last + 1, producer_name)
            builder.put(keys.producer_epoch(topic.name), encode_producer_epoch(begun))
            return begun

        return await commit_transaction(self._store, self._rng, change)
