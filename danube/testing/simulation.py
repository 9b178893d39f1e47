"""A seed becomes a world, a workload and faults; several lives of a broker later the checkers judge what was seen.

Everything that happens follows from the seed: the same seed gives the same history, in any process.
"""

import asyncio
import errno
import random
from collections.abc import Callable
from dataclasses import dataclass

from danube.model.errors import DanubeError, DataFolderError
from danube.storage.journal import JournalSettings
from danube.testing.checkers import Violation, check
from danube.testing.clock import SimClock
from danube.testing.disk import MachineOffError, Operation, SimDisk
from danube.testing.history import Event, Failed, Restarted
from danube.testing.storage_life import ServedSubscription, SimConsumer, StorageLife
from danube.testing.storage_world import TopicPlan, World, plan_world

LIVES = 5
"""Of the broker, with faults; two more follow without, to judge by."""
STEPS_MAX = 60
"""What happens in one life, at most, besides the passing of time."""

_DRAIN_STEPS_MAX = 400
_SHOWN_MAX = 8


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a run ended."""

    seed: int
    history: list[Event]
    lives: list[str]
    violations: list[Violation]

    def report(self) -> str:
        """What was broken, and how to see it again."""
        shown = [f"  {violation}" for violation in self.violations[:_SHOWN_MAX]]
        hidden = len(self.violations) - len(shown)
        return "\n".join(
            [
                f"seed {self.seed}: {len(self.violations)} violation(s)",
                *shown,
                *([f"  ... and {hidden} more"] if hidden else []),
                *(f"  life {number}: {life}" for number, life in enumerate(self.lives)),
                f"replay: pytest tests/simulation -k power_cuts --seed {self.seed}",
            ]
        )


def simulate_storage(seed: int, *, lives: int = LIVES) -> Outcome:
    """Run journal and dispatch through `lives` lives full of faults, and judge."""
    chance = random.Random(seed)  # noqa: S311 - a seed is for replay, not for secrets
    world = plan_world(chance, lives)
    disk = SimDisk(chance.getrandbits(32))
    settings = JournalSettings(
        file_bytes_max=chance.choice([1_500, 5_000, 20_000]),
        round_bytes_max=chance.choice([500, 4_000, 50_000]),
        cache_bytes_max=chance.choice([0, 2_000, 50_000]),
        backlog_bytes_max=30_000,
    )
    start_ms = SimClock().now_ms()
    for number in range(lives + 2):
        start_ms += chance.choice([0, 1_000, -60_000])  # a clock may have been set back while the broker was down
        run = _LifeRun(world, StorageLife(world, disk, SimClock(start_ms=start_ms), settings), number)
        asyncio.run(run.run(_PEACEFUL[number - lives] if number >= lives else run.live_and_die))
        disk = run.die()
    return Outcome(seed, world.history, world.lives, check(world.history))


class _LifeRun:
    """What happens to one life: its faults, its workload, its end."""

    def __init__(self, world: World, life: StorageLife, number: int) -> None:
        self._world = world
        self._chance = world.chance
        self._life = life
        self._number = number
        self._by_power = self._chance.random() < 0.6
        self._words = ["power cut" if self._by_power else "kill"]

    async def run(self, course: Callable[[], "asyncio.Future[None] | object"]) -> None:
        """Go through one course of a life, to the bitter end."""


_PEACEFUL: list[Callable[[], object]] = []
