"""Three brokers beside many busy processes on few processors: a broker that lives must not be taken for dead.

The processes have the priority of the brokers. Applications publish and read meanwhile. What a broker logs when its
lease ended, when another one looked dead, or when its topics were taken over is counted at the end.
"""

import asyncio
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from danube.model.ownership import StorageMode
from danube.testing.processes.broker_cluster import BrokerCluster
from lab.failover.rounds import OURS, Application

PROCESSES = 20
_APPLICATIONS = 2
_LOOK_S = 5.0
_SPIN = "while True: pass"
_WRONG = ("ran out before it was renewed", "is dead: it closed", "others have taken over the topics")
_ELECTED = "leads the metadata cluster"


@dataclass(frozen=True, slots=True, kw_only=True)
class CrowdedReport:
    """The whole time."""

    seconds: float
    acknowledged: int
    wrong: tuple[str, ...]  # lines of the brokers' logs
    restarted: int  # brokers that run in another process than at first
    elections: int  # lines of all brokers about a leader of Raft, behind the first

    @property
    def is_good(self) -> bool:
        return not self.wrong and not self.restarted and self.acknowledged > 0

    def text(self) -> str:
        verdict = "No living broker was taken over." if self.is_good else "A LIVING BROKER WAS TAKEN FOR DEAD."
        return "\n".join(
            [
                f"time:      {self.seconds:,.0f} s beside {PROCESSES} busy processes",
                f"messages:  {self.acknowledged:,} acknowledged",
                f"elections: {self.elections} changes of Raft's leader were seen by the three brokers",
                f"takeovers: {len(self.wrong)}, {self.restarted} brokers ended",
                *self.wrong,
                verdict,
            ]
        )


async def crowded(folder: Path, seconds: float, *, tell: Callable[[str], None]) -> CrowdedReport:
    """Let it be crowded for so long, on an empty folder. Raises DanubeError when the trial cannot be made."""
    return await asyncio.to_thread(_crowded, folder, seconds, tell)


def _crowded(folder: Path, seconds: float, tell: Callable[[str], None]) -> CrowdedReport:
    with BrokerCluster(folder, mode=StorageMode.SHARED_FS) as cluster:
        urls = [",".join(broker.endpoints.service_url for broker in cluster.brokers)]
        applications = [
            Application(OURS, number, Path(sys.executable), urls, folder) for number in range(_APPLICATIONS)
        ]
        pids = [broker.pid for broker in cluster.brokers]
        before = sum(_lines(broker.log(), _ELECTED) for broker in cluster.brokers)
        began_s, pause = time.monotonic(), threading.Event()
        with _busy():
            while (passed_s := time.monotonic() - began_s) < seconds:
                pause.wait(_LOOK_S)
                sent = sum(len(each.report().acknowledged) for each in applications)
                tell(f"{seconds - passed_s:,.0f} s left, {sent:,} messages")
        acknowledged = sum(len(each.end().acknowledged) for each in applications)
        logs = [broker.log() for broker in cluster.brokers]
        return CrowdedReport(
            seconds=seconds,
            acknowledged=acknowledged,
            wrong=tuple(line for log in logs for line in log.splitlines() if any(each in line for each in _WRONG)),
            restarted=sum(broker.pid != pid for broker, pid in zip(cluster.brokers, pids, strict=True)),
            elections=sum(_lines(log, _ELECTED) for log in logs) - before,
        )


def _lines(log: str, words: str) -> int:
    return sum(words in line for line in log.splitlines())


@contextmanager
def _busy() -> Iterator[None]:
    spinning = [subprocess.Popen([sys.executable, "-I", "-c", _SPIN]) for _ in range(PROCESSES)]  # noqa: S603 - our own
    try:
        yield
    finally:
        for each in spinning:
            each.kill()
            each.wait()
