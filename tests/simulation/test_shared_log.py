"""Members on one shared log, its service slow, away or silent by seed; and each rule taken out once, on purpose."""

from collections.abc import Callable

import pytest

from danube.metadata.replication.sequencer import Follower, Sequencer
from danube.metadata.shared_log import appender
from lab.shared_log.backend import SimulatedLog
from lab.shared_log.world import Seen, simulate

_SABOTAGE_SEEDS = 40
"""Each sabotage is noticed within so many, most of them by the first."""


def test_what_was_acknowledged_is_there_once_and_all_members_agree(seed: int) -> None:
    seen = simulate(seed)
    assert not seen.violations, f"simulate({seed}): {seen.violations}"
    assert not seen.undecided
    assert seen.operations
    assert seen.states


def test_the_same_seed_gives_the_same_history() -> None:
    first, second = SimulatedLog(7), SimulatedLog(7)
    assert simulate(7, log=first) == simulate(7, log=second)
    assert first.history == second.history


def test_a_barrier_that_asks_nobody_is_noticed() -> None:
    assert noticed(lambda seed: simulate(seed, wrap=_NoBarrier), "no order explains")


def test_an_addition_that_does_not_look_at_the_head_is_noticed() -> None:
    assert noticed(lambda seed: simulate(seed, log=_NoHeadCheck(seed)), "")


def test_a_blind_retry_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    async def add_anew(adder: appender.Appender, batch: appender._Batch) -> bool:
        await adder._tail.catch_up()
        batch.not_tried(0)
        return False

    monkeypatch.setattr(appender.Appender, "_check_outcome", add_anew)
    assert noticed(simulate, "a request stands in the log 2 times", first=5)


def noticed(run: Callable[[int], Seen], words: str, *, first: int = 0) -> bool:
    """True if some seed from the first on has a violation with these words."""
    return any(words in each for seed in range(first, first + _SABOTAGE_SEEDS) for each in run(seed).violations)


class _NoBarrier:
    def __init__(self, sequencer: Sequencer) -> None:
        self._sequencer = sequencer

    async def start(self, follower: Follower) -> None:
        await self._sequencer.start(follower)

    @property
    def leadership(self) -> int:
        return self._sequencer.leadership

    async def submit(self, request: bytes, leadership: int | None = None) -> None:
        await self._sequencer.submit(request, leadership)

    async def barrier(self) -> None:
        return None

    async def close(self) -> None:
        await self._sequencer.close()


class _NoHeadCheck(SimulatedLog):
    def add(self, number: int, entry: bytes) -> bool:
        self.entries[number] = self.history[number] = entry
        self.head = max(self.head, number)
        return True
