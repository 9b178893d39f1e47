"""Rounds of real faults under load: nothing acknowledged may be lost, and nothing confirmed may come again.

    python -m lab.soak.rounds --rounds 50 --folder .soak --wheel-python .venvs/danube-client/bin/python

A round loads a real broker with producers and consumers of every kind, in processes of their own: of our client and,
where its interpreter is given, of the published `danube-client`. Meanwhile the broker is killed (`kill -9`, at times in
its start-up or while it is paused), paused, or ended with SIGTERM. Its journal files are tiny, so that they are closed,
cut into segments and removed all the time, and its topics keep little, so that retention works as well. At the end of a
round everything is read back and judged (`lab.soak.judge`).

The folder holds the broker's data, a ledger with a line for each round, and what is known so far. Run again, it goes on
where it stopped, and a round that was interrupted is judged first. Exit codes: 0 every promise was kept, in all rounds
of the ledger; 1 one was not; 130 interrupted.
"""

import argparse
import asyncio
import signal
import sys
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

from danube.model.errors import DanubeError
from danube.model.limits.broker import MIB
from danube.testing.processes.broker import BrokerProcess, end_leftover
from lab.soak.ledger import Ledger, RoundResult, totals
from lab.soak.round import Ground, Round

SETTINGS = {
    "journal_file_bytes_max": MIB,
    "segment_bytes_max": MIB,
    "cache_bytes_max": MIB,
    "retention_bytes": 4 * MIB,
    "disk_warn_free_bytes": 0,
    "disk_refuse_free_bytes": 0,
}
"""Of the broker: small, so that what usually takes hours happens in every round."""


class Soak:
    """The rounds over one folder."""

    def __init__(self, folder: Path, *, first_seed: int = 1, wheel_python: Path | None = None) -> None:
        self._first_seed = first_seed
        ledger = Ledger(folder)
        data_dir = (folder / "data").absolute()
        end_leftover(data_dir)
        self._ground = Ground(
            folder=folder,
            broker=BrokerProcess(data_dir, flags=["--log-level", "warning"], settings=SETTINGS),
            ledger=ledger,
            wheel_python=wheel_python,
            stop=asyncio.Event(),
        )

    @property
    def ledger(self) -> Ledger:
        """Of all rounds."""
        return self._ground.ledger

    @property
    def is_stopped(self) -> bool:
        """Whether it was told to end before its time."""
        return self._ground.stop.is_set()

    async def run(self, rounds: int) -> AsyncIterator[RoundResult]:
        """Run until there are `rounds` in the ledger, or SIGINT, which ends the round at once and judges it.

        Raises DanubeError when the broker does not start.
        """
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGINT, self._stop)
        try:
            while self.ledger.count < rounds and not self.is_stopped:
                yield await Round(self._ground, self._first_seed + self.ledger.count).run()
        finally:
            loop.remove_signal_handler(signal.SIGINT)
            self._ground.broker.kill()

    def _stop(self) -> None:
        """The second SIGINT is as usual: what was under way is judged at the next start."""
        self._ground.stop.set()
        asyncio.get_running_loop().remove_signal_handler(signal.SIGINT)


def progress(result: RoundResult, rounds: int) -> str:
    """One round in a line."""
    first, last = result.journal_files
    verdict = "ok " if result.is_good else "BAD"
    return (
        f"round {result.round + 1:>3}/{rounds} {verdict} {result.acknowledged:>6,} acknowledged"
        f" {result.delivered:>7,} delivered ({result.again:,} again) {result.kept:>6,} kept, {result.let_go:,} let go;"
        f" journal {first}-{last}, {result.segments} segments; {result.seconds:.0f} s: {', '.join(result.faults)}"
    )


def report(ledger: Ledger) -> str:
    """All rounds of the ledger, for a person."""
    rounds = ledger.rounds()
    broken = totals(rounds)
    kept = "A PROMISE WAS BROKEN" if any(broken.values()) else "Every promise was kept"
    lines = [
        f"rounds:   {len(rounds)}, {sum(one.seconds for one in rounds):,.0f} s",
        f"messages: {_sum(rounds, 'acknowledged')} acknowledged of {_sum(rounds, 'sent')} sent",
        f"          {_sum(rounds, 'delivered')} delivered, {_sum(rounds, 'again')} of them again",
        f"          {_sum(rounds, 'given_up')} calls given up, {_sum(rounds, 'stored_twice')} sends stored twice",
        f"faults:   {_faults(rounds)}",
        f"storage:  {_storage(rounds)}",
        "broken:   " + ", ".join(f"{count} {promise}" for promise, count in broken.items()),
    ]
    lines += [f"round {one.round + 1} (seed {one.seed}): {what}" for one in rounds for what in one.what]
    return "\n".join([*lines, f"{kept}. Ledger: {ledger.path}"])


def _faults(rounds: Sequence[RoundResult]) -> str:
    counts = Counter(fault.partition(" (")[0] for one in rounds for fault in one.faults)
    return "; ".join(f"{count} {fault}" for fault, count in counts.most_common()) or "none"


def _storage(rounds: Sequence[RoundResult]) -> str:
    if not rounds:
        return "nothing"
    (first, last), end = rounds[-1].journal_files, rounds[-1]
    return (
        f"{last} journal files, {first - 1} of them removed; {end.segments} segments; "
        f"{end.let_go:,} messages let go by retention, {end.kept:,} kept"
    )


def _sum(rounds: Sequence[RoundResult], name: str) -> str:
    return f"{sum(getattr(one, name) for one in rounds):,}"


async def _run(soak: Soak, rounds: int) -> None:
    async for result in soak.run(rounds):
        print(progress(result, rounds), file=sys.stderr, flush=True)  # noqa: T201 - the command's talk


def main() -> int:
    """Run the rounds; answers the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=50, help="rounds in the ledger when it ends [50]")
    parser.add_argument("--folder", type=Path, default=Path(".soak"), help="where data and ledger are [.soak]")
    parser.add_argument("--seed", type=int, default=1, help="of the first round [1]")
    parser.add_argument("--wheel-python", type=Path, help="interpreter with the published danube-client [not used]")
    arguments = parser.parse_args()
    try:
        soak = Soak(arguments.folder, first_seed=arguments.seed, wheel_python=arguments.wheel_python)
        asyncio.run(_run(soak, arguments.rounds))
    except DanubeError as error:
        print(f"soak: {error}", file=sys.stderr)  # noqa: T201 - the same
        return 1
    except KeyboardInterrupt:
        print("soak: interrupted; run again, it judges this round first", file=sys.stderr)  # noqa: T201 - the same
        return 130
    print(report(soak.ledger))  # noqa: T201 - the command's output
    if any(totals(soak.ledger.rounds()).values()):
        return 1
    return 130 if soak.is_stopped else 0


if __name__ == "__main__":
    sys.exit(main())
