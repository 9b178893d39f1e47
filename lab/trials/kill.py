"""All members of a metadata cluster killed at once, again and again: how soon it serves again, and what it still has.

Three processes form a Raft group under the load of the soak of metadata stores. Each round kills the three with
`kill -9` in the midst of that and starts them again. What counts is the time from the moment when all three were
started to the first change that is acknowledged. One order must explain all answers of a round, those of every member
included, and what stands at its end must be there in the next one.
"""

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from lab.kernel.time import loop_s
from lab.linearizability.history import Change
from lab.linearizability.recorder import History
from lab.metadata.clusters import RaftCluster
from lab.metadata.nemesis import FaultKind
from lab.metadata.round import Environment, Measure, Round

MEDIAN_S_MAX = 5.0  # the cluster must be back sooner in half of the rounds
MEMBERS = 3
_SHOWN_MAX = 20

Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Revival:
    """One round."""

    open_s: float  # until a majority of the processes had started Python, read their log, and listened
    served_s: float  # until a change was acknowledged; both count from when all processes were started
    acknowledged: int  # changes
    unknown: int  # changes of unknown outcome: there or not, both is right
    lost: Sequence[str] = ()  # promises that were broken, as sentences


@dataclass(frozen=True, slots=True)
class KillAllReport:
    """All rounds."""

    revivals: Sequence[Revival]

    @property
    def lost(self) -> list[str]:
        return [what for one in self.revivals for what in one.lost]

    @property
    def median_s(self) -> float:
        return statistics.median(one.served_s for one in self.revivals)

    @property
    def is_good(self) -> bool:
        return not self.lost and self.median_s < MEDIAN_S_MAX

    def text(self) -> str:
        served_s = sorted(one.served_s for one in self.revivals)
        open_s = statistics.median(one.open_s for one in self.revivals)
        acknowledged, unknown = (sum(getattr(one, n) for one in self.revivals) for n in ("acknowledged", "unknown"))
        times = (
            f"median {self.median_s:.2f} s",
            f"p90 {served_s[math.ceil(0.9 * len(served_s)) - 1]:.2f} s",
            f"worst {served_s[-1]:.2f} s",
        )
        lines = [
            f"rounds:        {len(self.revivals)}, all three members killed at once in each",
            f"acknowledged:  {acknowledged:,} changes, and {unknown:,} of unknown outcome",
            f"lost:          {len(self.lost):,}",
            f"until a write: {', '.join(times)}, since all three were started again",
            f"of which:      {open_s:.2f} s (median) until two of them had started Python, read their log and listened",
            *(f"LOST:          {what}" for what in self.lost[:_SHOWN_MAX]),
        ]
        return "\n".join([*lines, self._verdict()])

    def _verdict(self) -> str:
        if self.lost:
            return (
                "ACKNOWLEDGED WRITES WERE LOST. What shows it is above, the folders and logs of the members were kept."
            )
        if not self.is_good:
            return f"TOO SLOW: half of the rounds must take less than {MEDIAN_S_MAX:g} s."
        return f"Nothing acknowledged was lost, and half of the rounds took less than {MEDIAN_S_MAX:g} s."


class KilledGroup(RaftCluster):
    """A group with the log bounds of production, which is only ever killed as a whole. Needs an empty folder."""

    log_entries = 0
    span_s = (0.0, 0.0)

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, MEMBERS)
        self.started_s = 0.0  # when the last member was started
        self.opened_s: list[float] = []  # when members had read their log and listened, in this round

    def faults(self) -> Sequence[FaultKind]:
        return (FaultKind.KILL_ALL,)

    async def launch(self, node: int) -> None:
        await super().launch(node)
        self.started_s = loop_s()

    async def wait(self, node: int) -> None:
        await self.process(node).wait_open()
        self.opened_s.append(loop_s())
        await super().wait(node)

    def revival(self, history: History) -> tuple[float, float]:
        """Seconds until a majority was open, and until the first change after that was acknowledged."""
        changes = [one for one in history.operations if isinstance(one.call, Change) and one.called_s > self.started_s]
        served_s = min((one.returned_s for one in changes), default=math.inf)
        return sorted(self.opened_s)[MEMBERS // 2] - self.started_s, served_s - self.started_s


async def kill_all(group: KilledGroup, rounds: int, *, tell: Tell, on_round: Tell) -> KillAllReport:
    """Run the rounds on a group that was not started, and end it.

    `tell` hears what is going on, `on_round` a line for each round.
    Raises UnavailableError when the cluster does not form, or does not come back.
    """
    environment = Environment(store="raft", cluster=group, measure=Measure(faults=1))
    revivals = []
    try:
        await group.start()
        for number in range(1, rounds + 1):
            tell(f"round {number}/{rounds}: clients write; all three are killed, and start again")
            group.opened_s.clear()
            one = Round(environment, number)
            result = await one.run()
            lost = [*result.what, *(f"undecided: {key}" for key in result.undecided)]
            revival = Revival(*group.revival(one.history), result.changes, result.unknown, lost)
            revivals.append(revival)
            on_round(
                f"round {number:>{len(str(rounds))}}/{rounds}: {revival.served_s:5.2f} s until a write was served"
                f" ({revival.open_s:.2f} s until a majority listened),"
                f" {revival.acknowledged:,} more acknowledged, {len(revival.lost):,} lost"
            )
    finally:
        await group.close()
    return KillAllReport(revivals)
