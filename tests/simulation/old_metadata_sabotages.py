"""Sabotages of the rules for a folder under an older copy of its metadata."""

import pytest

from danube.metadata.records.storage import StorageRecords
from danube.storage import opening
from danube.storage.journal.contents import Recovered
from danube.storage.store import Storage


def take_the_unknown_for_deleted(patch: pytest.MonkeyPatch) -> None:
    """Have what metadata does not know be as good as deleted."""
    original = Storage.start

    def start(self: Storage) -> None:
        for topic_id in [*self.topics.unnamed]:
            self.forget(topic_id)
        original(self)

    patch.setattr(Storage, "start", start)


def go_by_what_metadata_names(patch: pytest.MonkeyPatch) -> None:
    """Have the manifest that metadata names count, whatever newer one there is."""
    patch.setattr(opening, "_newer", lambda *_: None)


def count_what_is_not_synced(patch: pytest.MonkeyPatch) -> None:
    """Have a newer manifest count though it may still vanish."""
    patch.setattr(opening, "_make_durable", lambda *_: None)


def give_out_ids_again(patch: pytest.MonkeyPatch) -> None:
    """Leave the counter of topic ids as metadata has it."""

    async def raise_counter(_self: StorageRecords, _last: int) -> None:
        return None

    patch.setattr(StorageRecords, "raise_counter", raise_counter)


def refuse_all_for_a_gap(patch: pytest.MonkeyPatch) -> None:
    """Call the journal damaged where one topic's records do not follow on what is there of it."""
    patch.setattr(Recovered, "_detaches", lambda *_: False)
