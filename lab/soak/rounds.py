"""Rounds of real faults under load: nothing acknowledged may be lost, and nothing confirmed may come again.

    python -m lab.soak.rounds --rounds 50 --folder .soak --wheel-python .venvs/danube-client/bin/python

A round loads a real broker with producers and consumers of every kind, in processes of their own: of our client and,
where its interpreter is given, of the published `danube-client`. Meanwhile the broker is killed (`kill -9`, at times in
its start-up or while it is paused), paused, or ended with SIGTERM. Its journal files are tiny, so that they are closed,
flushed into segments and removed all the time, and its topics keep little, so that retention works as well. At the end
of a round everything is read back and judged (`lab.soak.judge`).

The folder holds the broker's data, a ledger with a line for each round, and what is known so far. Run again, it goes on
where it stopped, and a round that was interrupted is judged first. Exit codes: 0 every promise was kept, in all rounds
of the ledger; 1 one was not; 130 interrupted.
"""

import sys
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from danube.model.limits.broker import MIB
from danube.testing.processes.broker import BrokerProcess, end_leftover
from lab.kernel.rounds import Ledger, Soak, parser_of, run_soak, total, verdict_of
from lab.soak.judge import PROMISES
from lab.soak.round import Environment, Round, SoakResult

SETTINGS = {
    "journal_file_bytes_max": MIB,
    "segment_bytes_max": MIB,
    "cache_bytes_max": MIB,
    "retention_bytes": 4 * MIB,
    "disk_warn_free_bytes": 0,
    "disk_refuse_free_bytes": 0,
}
"""Settings of the broker: small, so that what usually takes hours happens in every round."""


class BrokerSoak(Soak[SoakResult]):
    """The rounds on one broker's data folder."""

    def __init__(self, folder: Path, wheel_python: Path | None = None) -> None:
        super().__init__(Ledger(folder, SoakResult))
        data_dir = (folder / "data").absolute()
        end_leftover(data_dir)
        self._environment = Environment(
            folder=folder,
            broker=BrokerProcess(data_dir, flags=["--log-level", "warning"], settings=SETTINGS),
            ledger=self.ledger,
            wheel_python=wheel_python,
            stop=self.stop,
        )

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[None]:
        try:
            yield
        finally:
            self._environment.broker.kill()

    async def run(self, seed: int) -> SoakResult:
        return await Round(self._environment, seed).run()

    def progress(self, result: SoakResult, rounds: int) -> str:
        return progress(result, rounds)

    def report(self) -> str:
        return report(self.ledger)


def progress(result: SoakResult, rounds: int) -> str:
    """One round in a line."""
    first, last = result.journal_files
    verdict = "ok " if result.is_good else "BAD"
    return (
        f"round {result.round + 1:>3}/{rounds} {verdict} {result.acknowledged:>6,} acknowledged"
        f" {result.delivered:>7,} delivered ({result.again:,} again) {result.kept:>6,} kept, {result.let_go:,} let go;"
        f" journal {first}-{last}, {result.segments} segments; {result.seconds:.0f} s: {', '.join(result.faults)}"
    )


def report(ledger: Ledger[SoakResult]) -> str:
    """All rounds of the ledger, for a person."""
    rounds = ledger.rounds()
    lines = [
        f"rounds:   {len(rounds)}, {sum(one.seconds for one in rounds):,.0f} s",
        f"messages: {total(rounds, 'acknowledged')} acknowledged of {total(rounds, 'sent')} sent",
        f"          {total(rounds, 'delivered')} delivered, {total(rounds, 'again')} of them again",
        f"          {total(rounds, 'given_up')} calls given up, {total(rounds, 'stored_twice')} sends stored twice",
        f"faults:   {_faults(rounds)}",
        f"storage:  {_storage(rounds)}",
    ]
    return "\n".join([*lines, *verdict_of(ledger, PROMISES, width=10)])


def _faults(rounds: Sequence[SoakResult]) -> str:
    counts = Counter(fault.partition(" (")[0] for one in rounds for fault in one.faults)
    return "; ".join(f"{count} {fault}" for fault, count in counts.most_common()) or "none"


def _storage(rounds: Sequence[SoakResult]) -> str:
    if not rounds:
        return "nothing"
    (first, last), end = rounds[-1].journal_files, rounds[-1]
    return (
        f"{last} journal files, {first - 1} of them removed; {end.segments} segments; "
        f"{end.let_go:,} messages let go by retention, {end.kept:,} kept"
    )


def main() -> int:
    """Run the rounds; answers the exit code."""
    parser = parser_of(__doc__, folder=".soak")
    parser.add_argument("--wheel-python", type=Path, help="interpreter with the published danube-client [not used]")
    options = parser.parse_args()
    return run_soak(lambda: BrokerSoak(options.folder, options.wheel_python), options.rounds, options.seed)


if __name__ == "__main__":
    sys.exit(main())
