"""Journals of a shared folder that topics may begin in.

A broker enters its journal before it makes the journal's folder, and each topic begins in a journal on the condition
that its entry still stands. After an entry is struck off, no topic ever begins in that journal again, whatever a paused
broker tries; ids are random and never reused. So a journal that is struck off, and that no topic's record names, is not
needed any more.
"""

import contextlib
from dataclasses import dataclass, replace

from danube.metadata.records import keys
from danube.metadata.records.record_values import record_values
from danube.metadata.store import Condition, MetadataStore, Put, Transaction
from danube.metadata.transaction_builder import settle
from danube.model.errors import VersionConflictError
from danube.model.limits.metadata import METADATA_ATTEMPTS_MAX
from danube.runtime.rng import Rng


@dataclass(frozen=True, slots=True)
class JournalEntry:
    """One journal that topics may begin in."""

    journal_id: int
    broker_id: int
    """Owner of the journal."""
    revision: int

    @property
    def stands(self) -> Condition:
        """Condition that it was not struck off."""
        return Condition(keys.stored_journal(self.journal_id), self.revision)


encode_journal, decode_journal = record_values(
    JournalEntry, lambda journal: keys.stored_journal(journal.journal_id), has_revision=True
)


class JournalRecords:
    """The entries in a metadata store. Every method raises MetadataError when the store fails."""

    def __init__(self, store: MetadataStore, rng: Rng) -> None:
        self._store = store
        self._rng = rng

    async def all(self) -> dict[int, JournalEntry]:
        """Every entry, by journal id.

        Linearizable: what is not in here was struck off, or not entered when this was called. What is read of the same
        store after it is as new.
        """
        found = [decode_journal(entry) for entry in await self._store.list(keys.STORED_JOURNALS, linearizable=True)]
        return {one.journal_id: one for one in found}

    async def enter(self, broker_id: int) -> JournalEntry:
        """Choose an id for a new journal of this broker, and enter it. Its folder must not be made before."""
        journal_id = self._rng.new_id()
        key = keys.stored_journal(journal_id)
        put = Put(key, encode_journal(JournalEntry(journal_id, broker_id, 0)))
        revision = await settle(self._store, Transaction(f"{self._rng.new_id():016x}", (Condition(key, 0),), (put,)))
        return JournalEntry(journal_id, broker_id, revision)

    async def renew(self, journal_id: int) -> JournalEntry | None:
        """Enter a journal anew, when its broker starts again; answers what stands then, None if it was struck off.

        What was asked for on the condition that the entry before stands, and is carried out only now, has no effect.
        """
        key = keys.stored_journal(journal_id)
        for _ in range(METADATA_ATTEMPTS_MAX):
            before = await self._store.get(key)
            if before is None:
                return None
            put = Put(key, before.value)
            transaction = Transaction(f"{self._rng.new_id():016x}", (Condition(key, before.revision),), (put,))
            with contextlib.suppress(VersionConflictError):  # so an earlier start had done it, and was told so late
                return replace(decode_journal(before), revision=await settle(self._store, transaction))
        raise VersionConflictError(f"the entry of journal {journal_id:016x} changes all the time: try again")

    async def strike_off(self, journal_id: int) -> None:
        """Have no topic begin in this journal any more. Idempotent."""
        await self._store.delete(keys.stored_journal(journal_id))
