"""Each rule of "Durability and storage" is broken on purpose, and some of the first seeds must show it.

A sabotage that no seed finds means that the simulation, or the rule, is worth nothing.
"""

from collections.abc import Callable

import pytest

from danube.model.errors import JournalStoppedError, StorageUnavailableError
from danube.runtime.disk import File
from danube.storage.batch import BatchHeader, read_header
from danube.storage.journal import commit
from danube.storage.journal.commit import GroupCommit
from danube.storage.journal.files import FOLDER, path
from danube.storage.journal.recovery import Recovery
from danube.storage.journal.writer import JournalEnd, RoundWriter
from danube.testing.simulation import simulate_storage

pytestmark = pytest.mark.slow

SEEDS = range(200)

Sabotage = Callable[[pytest.MonkeyPatch], None]


def leave_out_syncs(patch: pytest.MonkeyPatch) -> None:
    """Acknowledge what was written, not what was synced."""

    def sync(self: RoundWriter) -> None:
        self.end.synced_to = self.end.position

    patch.setattr(RoundWriter, "sync", sync)


def show_what_is_written(patch: pytest.MonkeyPatch) -> None:
    """Rule 1: have dispatch and readers see a round before its sync; producers are told after it."""

    async def write_round(self: GroupCommit) -> None:
        taken = self._gather()
        tell = self._on_written
        try:
            written = await self._runner.run(
                lambda: self._writer.write(taken.chunks, taken.content_bytes, taken.envelopes, sync=False)
            )
            tell(taken, written)
            for batch in taken.batches:
                for listener in batch.topic.listeners:
                    listener(batch.topic.durable_end)
            await self._runner.run(self._writer.sync)
        except StorageUnavailableError as error:
            self._fail_round(error)
        except JournalStoppedError as error:
            self._stop(str(error))
        else:
            self._on_written = lambda *_: None
            self._acknowledge(taken, written)
            self._on_written = tell

    patch.setattr(GroupCommit, "_write_round", write_round)


def take_any_body(patch: pytest.MonkeyPatch) -> None:
    """Rule 2: do not check a body on receipt."""

    def check(body: bytes) -> BatchHeader:
        return read_header(body)

    patch.setattr(commit, "check", check)


def leave_failed_rounds(patch: pytest.MonkeyPatch) -> None:
    """Rule 3: do not undo a short write."""

    def undo(self: RoundWriter, cause: OSError) -> None:
        raise StorageUnavailableError("not undone") from cause

    patch.setattr(RoundWriter, "_undo", undo)


def retry_failed_syncs(patch: pytest.MonkeyPatch) -> None:
    """Rule 3: after a failed sync, sync again and believe it."""

    def sync(self: RoundWriter) -> None:
        try:
            self._file.sync()
        except OSError:
            self._file.sync()
        self.end.synced_to = self.end.position

    patch.setattr(RoundWriter, "sync", sync)


def keep_torn_ends(patch: pytest.MonkeyPatch) -> None:
    """Rule 4: append behind what is torn."""

    def settle_end(self: Recovery, end: JournalEnd) -> File:
        file = self._disk.open_append(path(end.sequence))
        file.sync()
        self._disk.sync_folder(FOLDER)
        end.synced_to = end.position
        return file

    patch.setattr(Recovery, "_settle_end", settle_end)


def trust_what_is_read(patch: pytest.MonkeyPatch) -> None:
    """Rule 4: cut what is torn, and show the rest without a sync."""

    def settle_end(self: Recovery, end: JournalEnd) -> File:
        file = self._disk.open_append(path(end.sequence))
        file.truncate(end.file_bytes)
        end.synced_to = end.position
        return file

    patch.setattr(Recovery, "_settle_end", settle_end)


SABOTAGES: list[Sabotage] = [
    leave_out_syncs,
    show_what_is_written,
    take_any_body,
    leave_failed_rounds,
    retry_failed_syncs,
    keep_torn_ends,
    trust_what_is_read,
]


@pytest.mark.parametrize("sabotage", SABOTAGES, ids=lambda sabotage: sabotage.__name__)
def test_sabotage_is_found(
    sabotage: Sabotage, monkeypatch: pytest.MonkeyPatch, record_property: Callable[[str, object], None]
) -> None:
    """`--junit-xml` keeps which seed found it; with the sabotage in place, `--seed` shows it again."""
    sabotage(monkeypatch)
    outcome = next((found for seed in SEEDS if (found := simulate_storage(seed)).violations), None)
    assert outcome is not None, f"{sabotage.__name__} breaks no promise in {len(SEEDS)} seeds"
    record_property("found by", outcome.report())
