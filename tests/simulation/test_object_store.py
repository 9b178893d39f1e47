"""Brokers over an object store that fails, by seed; and planted faults, which the same course must find."""

from collections.abc import Callable, Sequence

import pytest

from danube.objects.memory import MemoryObjects
from danube.runtime.disk import Buffer
from danube.storage.object_store import journal_parts
from lab.objects.course import run_course

SEEDS = 20
MANY_SEEDS = 200
UNTIL_FOUND = 40


async def test_nothing_acknowledged_is_lost_over_an_object_store_that_fails() -> None:
    await _run(range(SEEDS))


@pytest.mark.nightly
@pytest.mark.timeout(1_200)
async def test_nothing_acknowledged_is_lost_over_many_seeds() -> None:
    await _run(range(SEEDS, MANY_SEEDS))


async def _run(seeds: range) -> None:
    acknowledged = 0
    for seed in seeds:
        course = await run_course(seed)
        assert not course.violations, f"seed {seed}: {course.violations}"
        acknowledged += sum(len(told.acknowledged) for told in course.told.values())
    assert acknowledged > 20 * len(seeds)


def _put_without_condition(patch: pytest.MonkeyPatch) -> None:
    def put(self: MemoryObjects, name: str, chunks: Sequence[Buffer]) -> None:
        self.put(name, chunks)

    patch.setattr(MemoryObjects, "put_if_absent", put)


def _skip_a_number(patch: pytest.MonkeyPatch) -> None:
    after = journal_parts._after
    patch.setattr(journal_parts, "_after", lambda listed: after(listed) + 1)


@pytest.mark.parametrize("plant", [_put_without_condition, _skip_a_number])
async def test_a_planted_fault_is_found(
    monkeypatch: pytest.MonkeyPatch, plant: Callable[[pytest.MonkeyPatch], None]
) -> None:
    plant(monkeypatch)
    for seed in range(UNTIL_FOUND):
        try:
            if (await run_course(seed)).violations:
                return
        except Exception:
            return
    pytest.fail(f"{plant.__name__} is not found by {UNTIL_FOUND} seeds")
