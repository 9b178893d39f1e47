"""Runs simulations by seed, on all cores, and prints what broke a promise and how to see it again."""

import argparse
import logging
import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from lab.kernel.history import Event
from lab.kernel.judge import Violation

PROGRAM = "python -m lab.simulation"
_SHOWN_MAX = 8
_PROGRESS_S = 10.0


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of one seed."""

    kind: str
    seed: int
    history: Sequence[Event]
    lives: Sequence[str]  # the story of the run, in words
    violations: Sequence[Violation]

    def report(self) -> str:
        shown = [f"  {violation}" for violation in self.violations[:_SHOWN_MAX]]
        hidden = len(self.violations) - len(shown)
        return "\n".join(
            [
                f"seed {self.seed}: {len(self.violations)} violation(s)",
                *shown,
                *([f"  ... and {hidden} more"] if hidden else []),
                *(f"  life {number}: {life}" for number, life in enumerate(self.lives)),
                _replay(self.kind, self.seed),
            ]
        )


Simulate = Callable[[int], Outcome]


def run_seeds(kinds: Mapping[str, Simulate], description: str, arguments: Sequence[str] | None = None) -> int:
    """Run many seeds as the command line asks and print those that break a promise; answers 1 when there are any."""
    options = _parser(kinds, description).parse_args(arguments)
    chosen = {options.kind: kinds[options.kind]} if options.kind else kinds
    runs = [
        (kind, run, seed)
        for seed in range(options.first, options.first + options.seeds)
        for kind, run in chosen.items()
    ]
    workers = min(options.workers, len(runs))
    if workers <= 1:
        return _follow(map(_run, runs), len(runs))
    with multiprocessing.get_context("spawn").Pool(workers, initializer=_begin_worker) as pool:
        return _follow(pool.imap_unordered(_run, runs, chunksize=4), len(runs))


def _parser(kinds: Mapping[str, Simulate], description: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=PROGRAM, description=description)
    parser.add_argument("--seeds", type=int, default=1_000, metavar="N", help="how many seeds (default: 1000)")
    parser.add_argument("--from", dest="first", type=int, default=0, metavar="M", help="the first one (default: 0)")
    parser.add_argument("--kind", choices=[*kinds], help="only this kind of run (default: each)")
    parser.add_argument(
        "--workers", type=int, default=os.cpu_count() or 1, metavar="N", help="processes (default: one for each core)"
    )
    return parser


def _run(run: tuple[str, Simulate, int]) -> str:
    """The report of a run that broke a promise, or nothing."""
    kind, simulate, seed = run
    logging.disable(logging.CRITICAL)  # brokers die here by the thousand, and each logs it
    try:
        outcome = simulate(seed)
    except Exception as error:
        return f"seed {seed}: the simulation itself failed: {error!r}\n{_replay(kind, seed)}"
    return outcome.report() if outcome.violations else ""


def _replay(kind: str, seed: int) -> str:
    return f"replay: {PROGRAM} --kind {kind} --from {seed} --seeds 1"


def _follow(reports: Iterable[str], total: int) -> int:
    """Print reports as they come, and the progress now and then."""
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
    """Leave Ctrl-C to the parent process, which ends the workers."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
