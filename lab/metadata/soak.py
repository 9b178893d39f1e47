"""Rounds of real faults on a metadata store under load: every answer must be explained by one order.

    python -m lab.metadata.soak --store raft --rounds 200 --folder .soak-metadata

In a round clients on every member work on a few hot keys while nodes are killed (`kill -9`), paused, cut off from each
other and slowed down. Then everything they were told is judged (`lab.metadata.soak_judge`): linearizable
reads and changes by a checker of histories, the members' own answers, watches, leases and counters by rules of theirs.

The folder holds the members' data, a ledger with a line for each round, and the whole history of a round that broke a
promise. Run again, it goes on where it stopped, on the same data: what the last round left must still be there.
Exit codes: 0 every promise was kept in all rounds; 1 one was not, or could not be decided on; 130 interrupted.
"""

import argparse
import asyncio
import re
import signal
import sys
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

from danube.model.errors import DanubeError
from lab.linearizability.recorder import History, written_out
from lab.metadata.clusters import CLUSTERS, open_cluster
from lab.metadata.member import MEMBER_PROGRAM
from lab.metadata.soak_judge import PROMISES
from lab.metadata.soak_ledger import Ledger, RoundResult
from lab.metadata.soak_round import Ground, Measure, Round


async def soak(ground: Ground, rounds: int, first_seed: int) -> AsyncIterator[tuple[RoundResult, History]]:
    """Run until there are `rounds` in the ledger, or SIGINT, which ends the round early and judges it.

    Raises DanubeError when the cluster does not start.
    """
    loop = asyncio.get_running_loop()

    def stop() -> None:
        """The second SIGINT is as usual."""
        ground.stop.set()
        loop.remove_signal_handler(signal.SIGINT)

    loop.add_signal_handler(signal.SIGINT, stop)
    try:
        await ground.cluster.start()
        while len(ground.rounds) < rounds and not ground.stop.is_set():
            one = Round(ground, first_seed + len(ground.rounds))
            yield await one.run(), one.history
    finally:
        loop.remove_signal_handler(signal.SIGINT)
        await ground.cluster.close()


def progress(result: RoundResult, rounds: int) -> str:
    """One round in a line."""
    verdict = "ok " if result.is_good and not result.undecided else "BAD"
    return (
        f"{result.store} round {result.round + 1:>3}/{rounds} {verdict} {result.operations:>6,} operations"
        f" ({result.changes:,} changes, {result.unknown} unknown, {result.failed} failed),"
        f" {result.local_reads:,} local reads, {result.watch_events:,} watch events;"
        f" {result.seconds:.0f} s + {result.checked_s:.1f} s: {', '.join(result.faults)}"
    )


def report(ledger: Ledger) -> str:
    """All rounds of the ledger, for a person."""
    rounds = ledger.rounds
    broken = {promise: sum(one.violations.get(promise, 0) for one in rounds) for promise in PROMISES}
    undecided = sum(1 for one in rounds if one.undecided)
    stores, seconds = ", ".join(sorted({one.store for one in rounds})) or "nothing", sum(one.seconds for one in rounds)
    lines = [
        f"rounds:     {len(rounds)} on {stores}, {seconds:,.0f} s",
        f"operations: {_sum(rounds, 'operations')}, {_sum(rounds, 'changes')} changes of them acknowledged",
        f"            {_sum(rounds, 'unknown')} changes of unknown outcome, {_sum(rounds, 'failed')} calls that failed",
        f"            {_sum(rounds, 'local_reads')} local reads, {_sum(rounds, 'watch_events')} watch events",
        f"faults:     {_faults(rounds)}",
        "broken:     " + ", ".join(f"{count} {promise}" for promise, count in broken.items()),
    ]
    lines += [f"round {one.round + 1} (seed {one.seed}): {what}" for one in rounds for what in one.what]
    if undecided:
        lines.append(f"undecided:  {undecided} rounds had a history too tangled to be judged")
    kept = "A PROMISE WAS BROKEN" if any(broken.values()) else "Every promise was kept"
    return "\n".join([*lines, f"{kept}. Ledger: {ledger.path}"])


def _faults(rounds: Sequence[RoundResult]) -> str:
    suffered = [fault for one in rounds for together in one.faults for fault in together.split(" + ")]
    counts = Counter(re.sub(r" [\d(].*", "", fault) for fault in suffered)
    return ", ".join(f"{count} {fault}" for fault, count in counts.most_common()) or "none"


def _sum(rounds: Sequence[RoundResult], name: str) -> str:
    return f"{sum(getattr(one, name) for one in rounds):,}"


async def _run(arguments: argparse.Namespace, ledger: Ledger) -> bool:
    """Answers whether it was told to end before its time."""
    folder = arguments.folder / arguments.store
    async with open_cluster(arguments.store, folder, arguments.program) as cluster:
        measure = Measure(faults=arguments.faults, clients=arguments.clients)
        ground = Ground(store=arguments.store, cluster=cluster, rounds=ledger.rounds, measure=measure)
        async for result, history in soak(ground, arguments.rounds, arguments.seed):
            ledger.add(result)
            if not result.is_good or result.undecided:
                ledger.keep(result, written_out(history))
            print(progress(result, arguments.rounds), file=sys.stderr, flush=True)  # noqa: T201 - the command's talk
        return ground.stop.is_set()


def main() -> int:
    """Run the rounds; answers the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--store", choices=sorted(CLUSTERS), default="raft", help="what is soaked [raft]")
    parser.add_argument("--rounds", type=int, default=50, help="rounds in the ledger when it ends [50]")
    parser.add_argument("--folder", type=Path, default=Path(".soak-metadata"), help="data and ledgers [.soak-metadata]")
    parser.add_argument("--seed", type=int, default=1, help="of the first round [1]")
    parser.add_argument("--faults", type=int, default=3, help="in a round [3]")
    parser.add_argument("--clients", type=int, default=4, help="of each member [4]")
    parser.add_argument("--program", default=MEMBER_PROGRAM, help="module that members run [%(default)s]")
    arguments = parser.parse_args()
    try:
        ledger = Ledger(arguments.folder / arguments.store)
        was_stopped = asyncio.run(_run(arguments, ledger))
    except DanubeError as error:
        print(f"soak: {error}", file=sys.stderr)  # noqa: T201 - the same
        return 1
    except KeyboardInterrupt:
        print("soak: interrupted; run again, it goes on with the next round", file=sys.stderr)  # noqa: T201 - the same
        return 130
    print(report(ledger))  # noqa: T201 - the command's output
    if any(any(one.violations.values()) or one.undecided for one in ledger.rounds):
        return 1
    return 130 if was_stopped else 0


if __name__ == "__main__":
    sys.exit(main())
