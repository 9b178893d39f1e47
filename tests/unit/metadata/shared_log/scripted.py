"""What the tests beside this file build on: a follower that remembers, and members on one simulated log."""

from collections.abc import Sequence
from typing import Self

from danube.metadata.commands import Transact
from danube.metadata.replication.command_format import Request, encode_request
from danube.metadata.shared_log.sequencer import SharedLogSequencer
from danube.metadata.shared_log.snapshots import SnapshotRule
from danube.metadata.state import StateSnapshot
from danube.metadata.store import Put, Transaction
from danube.runtime.blocking import InlineRunner
from danube.runtime.rng import SystemRng
from lab.shared_log.backend import SimulatedBackend, SimulatedLog


class Recorder:
    """A follower that keeps what it is told."""

    def __init__(self) -> None:
        self.applied: list[tuple[int, Sequence[bytes]]] = []
        self.resets: list[int] = []
        self.failures: list[str] = []
        self.led_anew_count = 0
        self.state = StateSnapshot(revision=5)

    @property
    def requests(self) -> list[bytes]:
        return [request for _, requests in self.applied for request in requests]

    def apply(self, position: int, requests: Sequence[bytes]) -> None:
        self.applied.append((position, list(requests)))

    def reset(self, position: int, snapshot: StateSnapshot) -> None:
        self.resets.append(position)
        self.state = snapshot

    def snapshot(self) -> StateSnapshot:
        return self.state

    def led_anew(self) -> None:
        self.led_anew_count += 1

    def failed(self, error: Exception) -> None:
        self.failures.append(str(error))


class Member:
    """One sequencer and its parts. An async context manager."""

    def __init__(self, log: SimulatedLog, seed: int = 1, *, entries_max: int = 1_000) -> None:
        rng = SystemRng(seed=seed)
        self.backend = SimulatedBackend(log)
        self.follower = Recorder()
        rule = SnapshotRule(rng, entries_max=entries_max)
        self.sequencer = SharedLogSequencer(self.backend, InlineRunner(), rng, snapshots=rule)

    async def __aenter__(self) -> Self:
        await self.sequencer.start(self.follower)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.sequencer.close()


def put(number: int) -> bytes:
    """A request like those of a store."""
    return encode_request(Request(f"r{number}", Transact(Transaction(f"t{number}", (), (Put("/a", b""),)))))
