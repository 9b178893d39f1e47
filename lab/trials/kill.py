"""All members of a metadata cluster killed at once, again and again: how soon it serves again, and what it still has.

Three processes form a Raft group. Clients on each of them write all the time, each write under a key of its own. A
round kills the three with `kill -9` in the midst of that and starts them again. What counts is the time from the moment
when all three were started to the first write that is acknowledged. Then every write that was ever acknowledged must be
there.
"""

import asyncio
import itertools
import math
import random
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from danube.metadata.store import MetadataStore
from danube.model.errors import DanubeError, UnavailableError, UnknownOutcomeError
from danube.runtime.tasks import TaskScope
from lab.metadata.clusters import RaftCluster

MEDIAN_S_MAX = 5.0  # the cluster must be back sooner in half of the rounds
_SHOWN_MAX = 20


@dataclass(frozen=True, slots=True)
class Revival:
    """One round."""

    open_s: float  # until a majority of the processes had started Python, read their log, and listened
    served_s: float  # until a write was acknowledged; both count from when all processes were started
    lost: Sequence[str]  # keys that were acknowledged, in this round or before, and are missing


@dataclass(slots=True)
class Writes:
    """Answers to clients, over all rounds."""

    acknowledged: dict[str, bytes] = field(default_factory=dict)
    unknown: int = 0  # writes that ended in UnknownOutcomeError: there or not, both is right

    def missing_in(self, found: Mapping[str, bytes]) -> list[str]:
        """Acknowledged keys that are not there, or hold something else."""
        return [key for key, value in self.acknowledged.items() if found.get(key) != value]


@dataclass(frozen=True, slots=True)
class KillAllReport:
    """All rounds."""

    revivals: Sequence[Revival]
    writes: Writes
    lost: frozenset[str]  # keys that were missed in any round, or by any member at the end

    @property
    def served_s(self) -> list[float]:
        return [one.served_s for one in self.revivals]

    @property
    def median_s(self) -> float:
        return statistics.median(self.served_s)

    @property
    def is_good(self) -> bool:
        return not self.lost and self.median_s < MEDIAN_S_MAX

    def text(self) -> str:
        served_s = sorted(self.served_s)
        open_s = statistics.median(one.open_s for one in self.revivals)
        times = (
            f"median {self.median_s:.2f} s",
            f"p90 {served_s[math.ceil(0.9 * len(served_s)) - 1]:.2f} s",
            f"worst {served_s[-1]:.2f} s",
        )
        lines = [
            f"rounds:        {len(self.revivals)}, all three members killed at once in each",
            f"acknowledged:  {len(self.writes.acknowledged):,} writes, and {self.writes.unknown:,} of unknown outcome",
            f"lost:          {len(self.lost):,}",
            f"until a write: {', '.join(times)}, since all three were started again",
            f"of which:      {open_s:.2f} s (median) until two of them had started Python, read their log and listened",
            *(f"LOST:          {key}" for key in sorted(self.lost)[:_SHOWN_MAX]),
        ]
        return "\n".join([*lines, self._verdict()])

    def _verdict(self) -> str:
        if self.lost:
            return "ACKNOWLEDGED WRITES WERE LOST. Their keys are above, the folders and logs of the members were kept."
        if not self.is_good:
            return f"TOO SLOW: half of the rounds must take less than {MEDIAN_S_MAX:g} s."
        return f"Nothing acknowledged was lost, and half of the rounds took less than {MEDIAN_S_MAX:g} s."


MEMBERS = range(3)
CLIENTS = 2  # of each member
_FIRST_WRITE_S_MAX = 60.0
_WRITING_S = (0.5, 1.5)  # between the first write of a round and the kill that ends it, at random
_PAUSE_S = 0.01  # of a client, between two writes

Tell = Callable[[str], None]


class KillAll:
    """The group, its clients, and the rounds."""

    def __init__(self, group: RaftCluster, clients: int) -> None:
        """`clients` of each member."""
        self._group = group
        self._clients = clients
        self._tasks = TaskScope("kill-all")
        self._round = 0
        self.writes = Writes()

    async def start(self) -> None:
        """Form the cluster and begin to write. Raises UnavailableError when it does not form."""
        await self._group.start()
        for member, client in itertools.product(MEMBERS, range(self._clients)):
            self._tasks.spawn(self._write_on(member, client), f"write {member}-{client}")

    async def run(self, tell: Tell) -> Revival:
        """One round. Raises UnavailableError when the cluster does not come back."""
        self._round += 1
        tell("clients write")
        known = len(self.writes.acknowledged)
        await asyncio.sleep(random.uniform(*_WRITING_S))  # noqa: S311 - when to kill is no secret
        await self._something_new(known)
        tell("all three are killed, and start again")
        for member in MEMBERS:
            self._group.kill(member)
        for member in MEMBERS:
            await self._group.launch(member)
        started_s = time.monotonic()
        open_s, served_s = await asyncio.gather(self._majority_open(started_s), self._first_write(started_s))
        tell("everything acknowledged is looked for")
        return Revival(open_s, served_s, await self.missing(self._round % len(MEMBERS)))

    async def missing(self, member: int) -> list[str]:
        """Acknowledged keys that a member lacks. Its first answer is linearizable."""
        expected = Writes(dict(self.writes.acknowledged))
        await self._group.process(member).wait()
        found: dict[str, bytes] = {}
        for number in range(self._round + 1):  # an answer is a line, and lines are bounded
            entries = await self._group.process(member).list(_prefix(number), linearizable=not number)
            found |= {entry.key: entry.value for entry in entries}
        return expected.missing_in(found)

    async def stop_writing(self) -> None:
        await self._tasks.close()

    async def close(self) -> None:
        """Stop the clients, kill the members."""
        await self._tasks.close()
        await self._group.close()

    async def _something_new(self, known: int) -> None:
        """Wait until more than `known` are acknowledged: a kill that takes nothing away shows nothing."""
        try:
            async with asyncio.timeout(_FIRST_WRITE_S_MAX):
                while len(self.writes.acknowledged) <= known:  # noqa: ASYNC110 - clients tell nobody
                    await asyncio.sleep(_PAUSE_S)
        except TimeoutError:
            raise UnavailableError(f"no write was acknowledged for {_FIRST_WRITE_S_MAX:.0f} s") from None

    async def _majority_open(self, started_s: float) -> float:
        """Returns once all are open, with when a majority was."""
        return sorted(await asyncio.gather(*(self._open(member, started_s) for member in MEMBERS)))[len(MEMBERS) // 2]

    async def _open(self, member: int, started_s: float) -> float:
        await self._group.process(member).wait_open()
        return time.monotonic() - started_s

    async def _first_write(self, started_s: float) -> float:
        """Try on all members at once."""
        tries = [self._tasks.spawn(self._try_on(member), f"first write {member}") for member in MEMBERS]
        try:
            async with asyncio.timeout(_FIRST_WRITE_S_MAX):
                done, _ = await asyncio.wait(tries, return_when=asyncio.FIRST_COMPLETED)
            done.pop().result()
            return time.monotonic() - started_s
        except TimeoutError:
            raise UnavailableError(f"no write was acknowledged for {_FIRST_WRITE_S_MAX:.0f} s after a start") from None
        finally:
            for one in tries:
                one.cancel()

    async def _try_on(self, member: int) -> None:
        for attempt in itertools.count():
            if await self._write(self._group.process(member), f"{_prefix(self._round)}first-{member}-{attempt}"):
                return
            await asyncio.sleep(_PAUSE_S)

    async def _write_on(self, member: int, client: int) -> None:
        for number in itertools.count():
            await self._write(self._group.process(member), f"{_prefix(self._round)}{member}-{client}-{number}")
            await asyncio.sleep(_PAUSE_S)

    async def _write(self, store: MetadataStore, key: str) -> bool:
        """True if it was acknowledged."""
        value = key.encode()
        try:
            await store.put(key, value)
        except UnknownOutcomeError:
            self.writes.unknown += 1
        except DanubeError:
            pass  # the member is dead, or nobody leads: it was not made
        else:
            self.writes.acknowledged[key] = value
            return True
        return False


def trial_group(folder: Path) -> RaftCluster:
    """A group with the log bounds of production, on an empty folder."""
    group = RaftCluster(folder, len(MEMBERS))
    group.log_entries = 0
    return group


async def kill_all(
    group: RaftCluster, rounds: int, *, clients: int = CLIENTS, tell: Tell, on_round: Tell
) -> KillAllReport:
    """Run the rounds on a group that was not started, and end it.

    `tell` hears what is going on, `on_round` a line for each round.
    Raises UnavailableError when the cluster does not form, or does not come back.
    """
    trial = KillAll(group, clients)
    try:
        await trial.start()
        revivals = [
            await _round(trial, number, rounds, tell=tell, on_round=on_round) for number in range(1, rounds + 1)
        ]
        tell("every member is asked for everything")
        await trial.stop_writing()
        missed = [await trial.missing(member) for member in MEMBERS]
    finally:
        await trial.close()
    lost = frozenset(itertools.chain.from_iterable([*(one.lost for one in revivals), *missed]))
    return KillAllReport(revivals, trial.writes, lost)


async def _round(trial: KillAll, number: int, rounds: int, *, tell: Tell, on_round: Tell) -> Revival:
    known = len(trial.writes.acknowledged)
    one = await trial.run(lambda doing: tell(f"round {number}/{rounds}: {doing}"))
    on_round(
        f"round {number:>{len(str(rounds))}}/{rounds}: {one.served_s:5.2f} s until a write was served"
        f" ({one.open_s:.2f} s until a majority listened),"
        f" {len(trial.writes.acknowledged) - known:,} more acknowledged, {len(one.lost):,} lost"
    )
    return one


def _prefix(number: int) -> str:
    """Of the keys that are written after this round's kill; 0 before the first."""
    return f"/trial/{number}/"
