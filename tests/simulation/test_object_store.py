"""Brokers over an object store that fails, by seed; and planted faults, which the same course must find."""

from collections.abc import Callable, Sequence

import pytest

from danube.objects.memory import MemoryObjects
from danube.runtime.disk import Buffer
from danube.storage.object_store import journal_parts
from danube.storage.object_store.journal_parts import JournalParts
from danube.storage.object_store.local_parts import LocalParts
from danube.storage.takeover.object_storage import ObjectStorage
from lab.objects.course import run_course

SEEDS = 20
MANY_SEEDS = 200
UNTIL_FOUND = 40


@pytest.mark.parametrize("journal", ["object", "local"])
async def test_nothing_acknowledged_is_lost_over_an_object_store_that_fails(journal: str) -> None:
    await _run(range(SEEDS), journal)


@pytest.mark.nightly
@pytest.mark.timeout(1_200)
@pytest.mark.parametrize("journal", ["object", "local"])
async def test_nothing_acknowledged_is_lost_over_many_seeds(journal: str) -> None:
    await _run(range(SEEDS, MANY_SEEDS), journal)


async def _run(seeds: range, journal: str) -> None:
    acknowledged = 0
    for seed in seeds:
        course = await run_course(seed, is_local=journal == "local")
        assert not course.violations, f"seed {seed}: {course.violations}"
        acknowledged += course.acknowledgements
    assert acknowledged > 20 * len(seeds)


def _put_without_condition(patch: pytest.MonkeyPatch) -> None:
    def put(self: MemoryObjects, name: str, chunks: Sequence[Buffer]) -> None:
        self.put(name, chunks)

    patch.setattr(MemoryObjects, "put_if_absent", put)


def _skip_a_number(patch: pytest.MonkeyPatch) -> None:
    after = journal_parts._after
    patch.setattr(journal_parts, "_after", lambda listed: after(listed) + 1)


def _remove_before_uploaded(patch: pytest.MonkeyPatch) -> None:
    """A journal file leaves the disk though the bucket does not yet say so."""

    def remove(self: LocalParts, sequence: int) -> None:
        JournalParts.remove(self, sequence)
        self._synced.pop(sequence, None)
        self._drop_copy(sequence)

    patch.setattr(LocalParts, "remove", remove)


def _seal_before_uploaded(patch: pytest.MonkeyPatch) -> None:
    async def nothing(_: ObjectStorage) -> None:
        return None

    patch.setattr(ObjectStorage, "_have_uploaded", nothing)


@pytest.mark.parametrize(
    ("plant", "journal"),
    [
        (_put_without_condition, "object"),
        (_skip_a_number, "object"),
        (_remove_before_uploaded, "local"),
        (_seal_before_uploaded, "local"),
    ],
)
async def test_a_planted_fault_is_found(
    monkeypatch: pytest.MonkeyPatch, plant: Callable[[pytest.MonkeyPatch], None], journal: str
) -> None:
    plant(monkeypatch)
    for seed in range(UNTIL_FOUND):
        try:
            if (await run_course(seed, is_local=journal == "local")).violations:
                return
        except Exception:
            return
    pytest.fail(f"{plant.__name__} is not found by {UNTIL_FOUND} seeds")
