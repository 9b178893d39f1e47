"""Sabotages of the care for damaged data folders: each takes one rule out, and a seed of the trials notices.

`python -m tests.simulation.folder_sabotages` looks for the first seed of each anew.
"""

from collections.abc import Sequence

import pytest

from danube.broker.dispatch.driver import DispatchDriver
from danube.broker.dispatch.events import SkipRange
from danube.data_folder import data_folder
from danube.metadata.raft.folder import recovery
from danube.offline.storage.repair.repair_plan import _Planner
from danube.storage.batches.placeholder import is_placeholder
from danube.storage.batches.stored_batch import StoredBatch
from lab.simulation import FOLDERS
from tests.simulation.sabotage import Sabotaged, search
from tests.simulation.sabotages import is_found


class _Fitting:
    """A checksum that is equal to any other."""

    __hash__ = None  # type: ignore[assignment]  # nobody looks it up

    def __eq__(self, other: object) -> bool:
        return True


def believe_records(patch: pytest.MonkeyPatch) -> None:
    """Take every record of the metadata for what was written."""
    patch.setattr(recovery, "crc_of", lambda _: _Fitting())


def believe_the_end(patch: pytest.MonkeyPatch) -> None:
    """Take what is left of the metadata's log for all of it."""
    patch.setattr(recovery.LogRecovery, "_check_end", lambda *_: None)
    patch.setattr("danube.metadata.raft.folder.folder.check_together", lambda *_: None)


def believe_the_identity(patch: pytest.MonkeyPatch) -> None:
    """Take `broker.json` for what was written."""
    patch.setattr(data_folder, "_checksum_of", lambda _: 0)


def let_the_journal_go_back_in_time(patch: pytest.MonkeyPatch) -> None:
    """Have a manifest without a segment say the time of the journal's newest record."""
    patch.setattr(
        _Planner, "_last_append_ms", lambda _, manifest, topic, __: max([manifest.last_append_time_ms, *topic.times])
    )


def pass_over_lost_messages_one_by_one(patch: pytest.MonkeyPatch) -> None:
    """Write what follows on the first placeholder before the next one is passed over."""

    def skip_lost(self: DispatchDriver, batches: Sequence[StoredBatch]) -> None:
        for batch in batches:
            if is_placeholder(batch.body):
                self.handle(SkipRange(batch.base_offset, batch.end_offset))

    patch.setattr(DispatchDriver, "_skip_placeholders", skip_lost)


FOLDER_SABOTAGES = [
    Sabotaged("5: every record of the metadata is checked", believe_records, 1, FOLDERS),
    Sabotaged("5: metadata that has lost its end is missed", believe_the_end, 10, FOLDERS),
    Sabotaged("5: whose folder it is is checked", believe_the_identity, 50, FOLDERS),
    Sabotaged("repair: the journal follows on what is repaired", let_the_journal_go_back_in_time, 137, FOLDERS),
    Sabotaged("repair: placeholders are sent to nobody", pass_over_lost_messages_one_by_one, 2, FOLDERS),
]


if __name__ == "__main__":
    search(FOLDER_SABOTAGES, is_found)
