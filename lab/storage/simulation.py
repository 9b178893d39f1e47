"""A seed becomes a world, a workload and faults; several lives of a broker later the checkers judge what was seen.

Everything that happens follows from the seed: the same seed gives the same history, in any process. As a command it
runs many seeds on all cores: `python -m lab.storage.simulation --seeds 1000`.
"""

import argparse
import asyncio
import logging
import multiprocessing
import os
import random
import signal
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from danube.model.plans.durability import Durability
from danube.runtime.rng import SystemRng
from danube.storage.journal import JournalSettings
from danube.storage.settings import StorageSettings
from danube.storage.watermarks import Watermarks
from danube.testing.simulated.clock import SimClock
from danube.testing.simulated.disk import SimDisk
from lab.folders.trials import FolderTrial
from lab.kernel.checkers import Violation, check, what_must_work_works
from lab.kernel.history import Event
from lab.storage.course import Course
from lab.storage.damage import Damaged
from lab.storage.environment import Ground
from lab.storage.life import StorageLife
from lab.storage.world import plan_world
from lab.takeover.judge import JudgedRun

POWER_CUTS, KILLS, LATE_SYNCS, DAMAGE, SHARED = "power-cuts", "kills", "late-syncs", "damage", "shared"
FOLDERS = "folders"
LIVES = 5
"""Of the broker, with faults; two more follow without, to judge by."""
_SLOW = 0.05  # of the lives: a sync may take a second
_SHOWN_MAX = 8
_PROGRESS_S = 10.0


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a run ended."""

    kind: str
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
                f"replay: python -m lab.storage.simulation --kind {self.kind} --from {self.seed} --seeds 1",
            ]
        )


def simulate_power_cuts(seed: int) -> Outcome:
    """Run storage and dispatch through lives full of faults, which end in kills and power cuts, and judge."""
    chance = random.Random(seed)  # noqa: S311 - a seed is for replay, not for secrets
    return _simulate_lives(POWER_CUTS, seed, chance, Durability.FSYNC)


def simulate_kills(seed: int) -> Outcome:
    """The same with weaker durability, which promises as much as long as the power stays on."""
    chance = random.Random(seed)  # noqa: S311 - a seed is for replay, not for secrets
    return _simulate_lives(KILLS, seed, chance, chance.choice([Durability.INTERVAL, Durability.OS]))


def simulate_late_syncs(seed: int) -> Outcome:
    """Weaker durability and power cuts: the newest messages may go, and nobody else is the worse for it."""
    chance = random.Random(seed)  # noqa: S311 - a seed is for replay, not for secrets
    return _simulate_lives(LATE_SYNCS, seed, chance, chance.choice([Durability.INTERVAL, Durability.OS]))


def simulate_damage(seed: int) -> Outcome:
    """Have a broker store something, damage one file, and judge what the next broker says and answers."""
    chance = random.Random(seed)  # noqa: S311 - a seed is for replay, not for secrets
    world = plan_world(chance)
    damaged = Damaged(world, _plan_settings(chance, Durability.FSYNC), chance)
    damaged.run()
    damage = damaged.damage
    lives = [f"{damage.name}: {damage.what}" if damage else "nothing was damaged", *damaged.told]
    violations = [Violation("damage is told, and its own topic's only", "", fault, 0) for fault in damaged.faults]
    return Outcome(DAMAGE, seed, world.history, lives, [*violations, *what_must_work_works(world.history)])


def simulate_shared(seed: int) -> Outcome:
    """Have brokers over one shared folder take topics from each other, die and come back, and judge what is there."""
    run = JudgedRun(seed, lambda chance: _plan_settings(chance, Durability.FSYNC, is_full=False))
    asyncio.run(run.run())
    violations = [Violation("a shared folder keeps what a broker's own does", "", fault, 0) for fault in run.faults]
    return Outcome(SHARED, seed, [], run.happened, violations)


def simulate_folders(seed: int) -> Outcome:
    """Damage a real data folder, have it verified and repaired, start brokers on it, and judge what clients get."""
    trial = FolderTrial(seed)
    trial.run()
    rule = "no wrong byte, no loss without a word, and a repaired folder starts"
    return Outcome(FOLDERS, seed, [], trial.story, [Violation(rule, "", fault, 0) for fault in trial.faults])


def _simulate_lives(kind: str, seed: int, chance: random.Random, durability: Durability) -> Outcome:
    world = plan_world(chance)
    settings = _plan_settings(chance, durability)
    disk = SimDisk(chance.getrandbits(32))
    start_ms = SimClock().now_ms()
    for number in range(LIVES + 2):
        clock = SimClock(start_ms=start_ms)
        ground = Ground(
            disk=disk,
            clock=clock,
            rng=SystemRng(chance.getrandbits(63)),
            metadata=world.metadata,
            longest_s=1.0 if number < LIVES and chance.random() < _SLOW else 0.005,
        )
        life = StorageLife(world, ground, settings, number)
        course = Course(world, life, may_lose_power=kind != KILLS)
        steps = [course.misbehave] * LIVES + [course.drain, course.inspect]
        disk = asyncio.run(course.run(steps[number]))
        start_ms = clock.now_ms() + chance.choice([0, 1_000, -60_000])  # it may be set back while the broker is down
        start_ms -= round(world.clock_off_s * 1_000)
        world.clock_off_s = 0.0
    violations = check(world.history, after_loss=kind == LATE_SYNCS)
    return Outcome(kind, seed, world.history, world.lives, violations)


def _plan_settings(chance: random.Random, durability: Durability, *, is_full: bool = True) -> StorageSettings:
    refuse_bytes = chance.choice([0, 0, 2_000]) if is_full else 0
    return StorageSettings(
        journal=JournalSettings(
            durability=durability,
            file_bytes_max=chance.choice([1_500, 5_000, 20_000]),
            round_bytes_max=chance.choice([500, 4_000, 50_000]),
            cache_bytes_max=chance.choice([0, 2_000, 50_000]),
            backlog_bytes_max=30_000,
        ),
        watermarks=Watermarks(warn_below_bytes=2 * refuse_bytes, refuse_below_bytes=refuse_bytes),
        segment_bytes_max=chance.choice([1_000, 4_000, 20_000]),
    )


KINDS: dict[str, Callable[[int], Outcome]] = {
    POWER_CUTS: simulate_power_cuts,
    KILLS: simulate_kills,
    LATE_SYNCS: simulate_late_syncs,
    DAMAGE: simulate_damage,
    SHARED: simulate_shared,
    FOLDERS: simulate_folders,
}
"""What can be simulated. The first three have failing, full and slow disks and clocks that jump, too."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run many seeds and print those that break a promise; answers 1 when there are any."""
    options = _parser().parse_args(arguments)
    kinds = [options.kind] if options.kind else [*KINDS]
    runs = [(kind, seed) for seed in range(options.first, options.first + options.seeds) for kind in kinds]
    workers = min(options.workers, len(runs))
    if workers <= 1:
        return _follow(map(_run, runs), len(runs))
    with multiprocessing.get_context("spawn").Pool(workers, initializer=_begin_worker) as pool:
        return _follow(pool.imap_unordered(_run, runs, chunksize=4), len(runs))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m lab.storage.simulation",
        description="Runs a broker's storage through power cuts, kills, failing, full and damaged disks, by seed.",
    )
    parser.add_argument("--seeds", type=int, default=1_000, metavar="N", help="how many seeds (default: 1000)")
    parser.add_argument("--from", dest="first", type=int, default=0, metavar="M", help="the first one (default: 0)")
    parser.add_argument("--kind", choices=[*KINDS], help="only this kind of run (default: each)")
    parser.add_argument(
        "--workers", type=int, default=os.cpu_count() or 1, metavar="N", help="processes (default: one for each core)"
    )
    return parser


def _run(run: tuple[str, int]) -> str:
    """The report of a run that broke a promise, or nothing."""
    kind, seed = run
    _be_quiet()
    try:
        outcome = KINDS[kind](seed)
    except Exception as error:
        replay = f"replay: python -m lab.storage.simulation --kind {kind} --from {seed} --seeds 1"
        return f"seed {seed}: the simulation itself failed: {error!r}\n{replay}"
    return outcome.report() if outcome.violations else ""


def _follow(reports: Iterable[str], total: int) -> int:
    """Print reports as they come, and now and then how far it is."""
    begun_s = told_s = time.monotonic()
    failed = 0
    for number, report in enumerate(reports, 1):
        if report:
            failed += 1
            print(report, flush=True)  # noqa: T201 - the command's output
        now_s = time.monotonic()
        if now_s - told_s >= _PROGRESS_S:
            told_s = now_s
            print(f"{number} of {total} runs, {failed} failed", file=sys.stderr, flush=True)  # noqa: T201 - the command's talk
    print(f"{total} runs, {failed} failed, {time.monotonic() - begun_s:.0f} s")  # noqa: T201 - the command's output
    return 1 if failed else 0


def _begin_worker() -> None:
    """Ctrl-C is for the one who follows; it ends the others."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _be_quiet()


def _be_quiet() -> None:
    """Brokers die here by the thousand, and each says so in the log."""
    logging.disable(logging.CRITICAL)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
