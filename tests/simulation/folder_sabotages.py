"""Sabotages of the care for damaged data folders: each takes one rule out, and a seed of the trials notices.

`python -m tests.simulation.folder_sabotages` looks for the first seed of each anew.
"""

from collections.abc import Sequence

import pytest

from danube.broker.dispatch.driver import DispatchDriver
from danube.broker.dispatch.events import SkipRange
from danube.data_folder import data_folder, older_metadata
from danube.metadata.high_water import HighWaterMark
from danube.metadata.sqlite import checks, file
from danube.offline.storage.repair.repair_plan import _Planner
from danube.storage.batches.placeholder import is_placeholder
from danube.storage.batches.stored_batch import StoredBatch
from lab.simulation import FOLDERS
from tests.simulation.sabotage import Sabotaged, search
from tests.simulation.sabotages import is_found


def believe_records(patch: pytest.MonkeyPatch) -> None:
    """Take every record of the metadata for what was written."""
    for module in (checks, file):
        patch.setattr(module, "entry_crc", lambda _: 0)


def believe_the_state_as_a_whole(patch: pytest.MonkeyPatch) -> None:
    """Take sound records for all records, and the newest."""
    patch.setattr(checks, "_SUM", 1)
    patch.setattr(checks.Tally, "add", lambda _, crc: crc)
    patch.setattr(checks.Tally, "remove", lambda _, crcs: list(crcs))


def forget_how_far_the_metadata_had_come(patch: pytest.MonkeyPatch) -> None:
    """Take any metadata that is whole for the newest."""
    patch.setattr(HighWaterMark, "reached", None)


def start_on_older_metadata(patch: pytest.MonkeyPatch) -> None:
    """Have verify and repair say what is lost with the newest changes, and not the start."""
    patch.setattr("danube.broker.cluster.metadata_store.rollback_of", lambda *_, **__: None)


def hide_older_metadata(patch: pytest.MonkeyPatch) -> None:
    """Have the start refuse older metadata, and verify call it sound."""
    patch.setattr(older_metadata, "rollback_of", lambda *_, **__: None)


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


def give_ids_out_again(patch: pytest.MonkeyPatch) -> None:
    """After older metadata was accepted, give out the ids of topics that it does not know."""

    async def skip_topic_ids(*_: object) -> None:
        return None

    patch.setattr(older_metadata, "skip_topic_ids", skip_topic_ids)


FOLDER_SABOTAGES = [
    Sabotaged("5: every record of the metadata is checked", believe_records, 19, FOLDERS),
    Sabotaged("5: the metadata is checked as a whole", believe_the_state_as_a_whole, 43, FOLDERS),
    Sabotaged("5: metadata that is older than its folder is missed", forget_how_far_the_metadata_had_come, 6, FOLDERS),
    Sabotaged("5: no broker starts on it in silence", start_on_older_metadata, 6, FOLDERS),
    Sabotaged("5: verify tells what a start refuses", hide_older_metadata, 6, FOLDERS),
    Sabotaged("5: whose folder it is is checked", believe_the_identity, 50, FOLDERS),
    Sabotaged("repair: the journal follows on what is repaired", let_the_journal_go_back_in_time, 137, FOLDERS),
    Sabotaged("repair: placeholders are sent to nobody", pass_over_lost_messages_one_by_one, 2, FOLDERS),
    Sabotaged("repair: no topic id is given out again", give_ids_out_again, 8, FOLDERS),
]


if __name__ == "__main__":
    search(FOLDER_SABOTAGES, is_found)
