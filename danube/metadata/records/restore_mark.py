"""Mark that a restore leaves in metadata, for brokers whose data folders may be newer than the backup."""

from collections.abc import Iterable
from dataclasses import dataclass

from danube.metadata.records import keys
from danube.metadata.records.record_format import decode_counter, encode_counter
from danube.metadata.records.record_values import record_values
from danube.metadata.store import Entry, MetadataStore
from danube.metadata.transaction_builder import TransactionBuilder, commit_transaction
from danube.runtime.rng import Rng


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreMark:
    """One restore, and what the backup knew."""

    restore_id: str
    """Chosen at random for each restore."""
    before: str = ""
    """The restore that the metadata came from when the backup was taken; "" for none."""
    revision: int
    """Revision of the backup."""
    taken_ms: int
    last_topic_id: int
    """Given out when the backup was taken: a topic with a later id, of the same past, is not in it."""

    def known_to(self, restore_id: str) -> int:
        """The last topic id that a folder of that restore need not ask about: the backup knew what became of those.

        0 where the folder has another past than the backup: then nobody can say of a topic that it was deleted.
        """
        return self.last_topic_id if restore_id == self.before else 0


NEVER_RESTORED = RestoreMark(restore_id="", revision=0, taken_ms=0, last_topic_id=0)
"""Stands for the mark of metadata that has none. A folder that has taken in a restore may come to it: when what a
restore set aside is put back, or a copy from before."""


encode_mark, decode_mark = record_values(RestoreMark)


def mark_of(entries: Iterable[Entry]) -> RestoreMark:
    """The mark in metadata; NEVER_RESTORED where there is none. Raises MetadataError."""
    return next((decode_mark(entry) for entry in entries if entry.key == keys.RESTORED), NEVER_RESTORED)


async def read_mark(store: MetadataStore) -> RestoreMark:
    """The mark in a store, as `mark_of`; the caller has read something linearizable before."""
    entry = await store.get(keys.RESTORED)
    return NEVER_RESTORED if entry is None else decode_mark(entry)


async def skip_topic_ids(store: MetadataStore, rng: Rng, last: int) -> None:
    """Have no id up to this one be given out any more: something is stored under it. Raises MetadataError."""

    async def change(builder: TransactionBuilder) -> None:
        if decode_counter(await builder.read(keys.TOPIC_ID_COUNTER)) < last:
            builder.put(keys.TOPIC_ID_COUNTER, encode_counter(last))

    await commit_transaction(store, rng, change)
