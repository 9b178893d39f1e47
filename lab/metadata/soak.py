"""Rounds of real faults on a metadata store under load: every answer must be explained by one order.

    python -m lab.metadata.soak --store raft --rounds 200 --folder .soak-metadata

In a round clients on every member work on a few hot keys while nodes are killed (`kill -9`), paused, cut off from each
other and slowed down. Then everything they were told is judged (`lab.metadata.judge`): linearizable reads and changes
by a checker of histories, the members' own answers, watches, leases and counters by rules of theirs.

The folder holds the members' data, a ledger with a line for each round, and the whole history of a round that broke a
promise. Run again, it goes on where it stopped, on the same data: what the last round left must still be there.
Exit codes: 0 every promise was kept in all rounds; 1 one was not, or could not be decided on; 130 interrupted.
"""

import re
import sys
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from lab.kernel.rounds import Ledger, Soak, parser_of, run_soak, total, verdict_of
from lab.linearizability.recorder import History, written_out
from lab.metadata.clusters import CLUSTERS
from lab.metadata.judge import PROMISES
from lab.metadata.member import MEMBER_PROGRAM
from lab.metadata.round import Environment, Measure, Round, StoreResult


class StoreSoak(Soak[StoreResult]):
    """The rounds on one kind of store; `folder` is that store's."""

    def __init__(self, store: str, folder: Path, measure: Measure, program: str) -> None:
        super().__init__(Ledger(folder, StoreResult))
        self._store = store
        self._folder = folder
        self._measure = measure
        self._program = program
        self._environment: Environment | None = None

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[None]:
        cluster = CLUSTERS[self._store](self._folder)
        cluster.program = self._program
        try:
            await cluster.start()
            rounds = self.ledger.rounds()
            self._environment = Environment(
                store=self._store, cluster=cluster, rounds=rounds, measure=self._measure, stop=self.stop
            )
            yield
        finally:
            await cluster.close()

    async def run(self, seed: int) -> StoreResult:
        assert self._environment is not None  # noqa: S101 - it is opened
        one = Round(self._environment, seed)
        result = await one.run()
        self.ledger.add(result, {})
        if not self.is_good(result):
            self._keep(result, one.history)
        return result

    def _keep(self, result: StoreResult, history: History) -> None:
        path = self._folder / f"round-{result.round:05}.history"
        path.write_text("\n".join((*result.what, "", *written_out(history))) + "\n", encoding="utf-8")

    def is_good(self, result: StoreResult) -> bool:
        return result.is_good and not result.undecided

    def progress(self, result: StoreResult, rounds: int) -> str:
        verdict = "ok " if self.is_good(result) else "BAD"
        return (
            f"{result.store} round {result.round + 1:>3}/{rounds} {verdict} {result.operations:>6,} operations"
            f" ({result.changes:,} changes, {result.unknown} unknown, {result.failed} failed),"
            f" {result.local_reads:,} local reads, {result.watch_events:,} watch events;"
            f" {result.seconds:.0f} s + {result.checked_s:.1f} s: {', '.join(result.faults)}"
        )

    def report(self) -> str:
        rounds = self.ledger.rounds()
        undecided = sum(1 for one in rounds if one.undecided)
        stores = ", ".join(sorted({one.store for one in rounds})) or "nothing"
        lines = [
            f"rounds:     {len(rounds)} on {stores}, {sum(one.seconds for one in rounds):,.0f} s",
            f"operations: {total(rounds, 'operations')}, {total(rounds, 'changes')} changes of them acknowledged",
            f"            {total(rounds, 'unknown')} changes of unknown outcome, {total(rounds, 'failed')} failed",
            f"            {total(rounds, 'local_reads')} local reads, {total(rounds, 'watch_events')} watch events",
            f"faults:     {_faults(rounds)}",
        ]
        if undecided:
            lines.append(f"undecided:  {undecided} rounds had a history too tangled to be judged")
        return "\n".join([*lines, *verdict_of(self.ledger, PROMISES, width=12)])


def _faults(rounds: Sequence[StoreResult]) -> str:
    suffered = [fault for one in rounds for together in one.faults for fault in together.split(" + ")]
    counts = Counter(re.sub(r" [\d(].*", "", fault) for fault in suffered)
    return ", ".join(f"{count} {fault}" for fault, count in counts.most_common()) or "none"


def main() -> int:
    """Run the rounds; answers the exit code."""
    parser = parser_of(__doc__, folder=".soak-metadata")
    parser.add_argument("--store", choices=sorted(CLUSTERS), default="raft", help="what is soaked [raft]")
    parser.add_argument("--faults", type=int, default=3, help="in a round [3]")
    parser.add_argument("--clients", type=int, default=4, help="of each member [4]")
    parser.add_argument("--program", default=MEMBER_PROGRAM, help="module that members run [%(default)s]")
    options = parser.parse_args()
    measure = Measure(faults=options.faults, clients=options.clients)
    folder = options.folder / options.store
    return run_soak(lambda: StoreSoak(options.store, folder, measure, options.program), options.rounds, options.seed)


if __name__ == "__main__":
    sys.exit(main())
