"""Rounds of `kill -9` against a real broker under load: nothing acknowledged may be lost, offsets stay contiguous.

    python -m danube.testing.soak --rounds 50 --folder .soak

A round sends numbered messages over a few producers, kills the broker at a random moment (at times again during its
start-up, at times it is then ended with SIGTERM), starts it again and reads every topic to its end. The folder holds
the broker's data, a ledger with a line for each round, and what was acknowledged and read so far: run it again and it
goes on where it stopped.
"""

import argparse
import asyncio
import contextlib
import json
import random
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path

from danube.model.errors import DanubeError
from danube.model.message import producer_id
from danube.model.topic import TopicName
from danube.rpc.grpc_carrier import GrpcCarrier
from danube.runtime.clock import SystemClock
from danube.testing.peer import Peer
from danube.testing.process import BrokerProcess

TOPICS = tuple(TopicName("default", f"soak-{index}") for index in range(3))
PRODUCERS_PER_TOPIC = 2
IN_FLIGHT = 16
SUBSCRIPTION = "audit"
LOAD_S = (0.2, 1.5)
STARTUP_KILL_S = (0.05, 0.6)
VERIFY_TIMEOUT_S = 60.0


@dataclass(slots=True)
class TopicState:
    """What is known of one topic, over all rounds."""

    sent: int = 0
    acknowledged: set[int] = field(default_factory=set)
    """Numbers whose sender was told that they are stored."""
    read: dict[int, int] = field(default_factory=dict)
    """Offset -> number, as read."""


@dataclass(frozen=True, slots=True)
class RoundResult:
    """One line of the ledger."""

    round: int
    seed: int
    ended_by: str
    sent: int
    acknowledged: int
    read: int
    lost: int
    changed: int
    """Offsets at which another message was read than before."""
    gaps: int
    duplicates: int
    """Messages stored more than once: sends whose answer was lost and that were sent again. Allowed."""

    @property
    def is_good(self) -> bool:
        """Whether every promise was kept."""
        return not (self.lost or self.changed or self.gaps)


class Soak:
    """The rounds over one folder."""

    def __init__(self, folder: Path, seed: int) -> None:
        self._folder = folder
        self._seed = seed
        folder.mkdir(parents=True, exist_ok=True)
        self._ledger = folder / "ledger.jsonl"
        self._progress = folder / "progress.json"
        self._topics = self._load()
        self._broker = BrokerProcess(folder / "data", flags=["--log-level", "warning"])
        self.rounds = sum(1 for _ in self._ledger.open(encoding="utf-8")) if self._ledger.exists() else 0

    def run(self, rounds: int) -> Iterator[RoundResult]:
        """Run until there are `rounds` in the ledger, answering each as it ends."""
        try:
            while self.rounds < rounds:
                seed = self._seed + self.rounds
                result = asyncio.run(self._round(seed))
                self.rounds += 1
                with self._ledger.open("a", encoding="utf-8") as ledger:
                    ledger.write(json.dumps(asdict(result)) + "\n")
                yield result
        finally:
            self._broker.kill()

    async def _round(self, seed: int) -> RoundResult:
        rng = random.Random(seed)  # noqa: S311 - for replay, not for secrets
        before = sum(state.sent for state in self._topics.values())
        await self._under_load(rng)
        ended_by = self._end(rng)
        self._broker.start()
        changed = 0
        async with asyncio.timeout(VERIFY_TIMEOUT_S):
            for name, state in self._topics.items():
                changed += await self._read(name, state)
        self._save()
        return RoundResult(
            round=self.rounds,
            seed=seed,
            ended_by=ended_by,
            sent=sum(state.sent for state in self._topics.values()) - before,
            acknowledged=sum(len(state.acknowledged) for state in self._topics.values()),
            read=sum(len(state.read) for state in self._topics.values()),
            lost=sum(len(state.acknowledged - set(state.read.values())) for state in self._topics.values()),
            changed=changed,
            gaps=sum(max(state.read, default=-1) + 1 - len(state.read) for state in self._topics.values()),
            duplicates=sum(len(state.read) - len(set(state.read.values())) for state in self._topics.values()),
        )

    async def _under_load(self, rng: random.Random) -> None:
        """Send until the broker is killed in the middle of it."""
        if not self._broker.is_running:
            self._broker.start()
        async with _connected(self._broker.endpoints.broker) as peer:
            for name in self._topics:
                await _prepare(peer, name)
            senders = [
                asyncio.create_task(self._send(peer, name, f"p{index % PRODUCERS_PER_TOPIC}"))
                for index in range(PRODUCERS_PER_TOPIC * IN_FLIGHT)
                for name in self._topics
            ]
            asyncio.get_running_loop().call_later(rng.uniform(*LOAD_S), self._broker.kill)
            await asyncio.gather(*senders)

    async def _send(self, peer: Peer, name: TopicName, producer: str) -> None:
        """One sender: its next message goes when the last was answered; it ends when the broker is gone."""
        identity = producer_id(name, producer)
        with contextlib.suppress(DanubeError):
            await peer.create_producer(name, producer)
            while True:
                await self._send_one(peer, name, identity, producer)

    async def _send_one(self, peer: Peer, name: TopicName, identity: int, producer: str) -> int:
        state = self._topics[name]
        number = state.sent
        state.sent += 1
        await peer.send(name, identity, str(number).encode(), producer=producer)
        state.acknowledged.add(number)
        return number

    def _end(self, rng: random.Random) -> str:
        """How the broker goes, beyond the kill under load."""
        way = rng.choice(["kill", "kill", "kill during start-up", "terminate"])
        if way == "terminate":
            self._broker.start()
            code = self._broker.terminate()
            return f"kill, terminate ({code})"
        if way == "kill during start-up":
            self._broker.launch()
            threading.Event().wait(rng.uniform(*STARTUP_KILL_S))
            self._broker.kill()
        return way

    async def _read(self, name: TopicName, state: TopicState) -> int:
        """Read the topic to its end; answers at how many offsets something else was read than before."""
        changed = 0
        async with _connected(self._broker.endpoints.broker) as peer:
            inbox = await peer.receive(await peer.subscribe(name, SUBSCRIPTION))
            end = await self._send_one(peer, name, producer_id(name, "probe"), "probe")
            number = -1
            while number != end:
                message = await inbox.next()
                number = int(message.payload)
                changed += state.read.setdefault(message.offset, number) != number
                await peer.acknowledge(name, message.offset, SUBSCRIPTION)
            inbox.close()
        return changed

    def _load(self) -> dict[TopicName, TopicState]:
        if not self._progress.exists():
            return {name: TopicState() for name in TOPICS}
        content = json.loads(self._progress.read_text(encoding="utf-8"))
        return {
            name: TopicState(
                content[str(name)]["sent"],
                set(content[str(name)]["acknowledged"]),
                {int(offset): number for offset, number in content[str(name)]["read"].items()},
            )
            for name in TOPICS
        }

    def _save(self) -> None:
        content = {
            str(name): {"sent": state.sent, "acknowledged": sorted(state.acknowledged), "read": state.read}
            for name, state in self._topics.items()
        }
        temporary = self._progress.with_suffix(".new")
        temporary.write_text(json.dumps(content), encoding="utf-8")
        temporary.replace(self._progress)


async def _prepare(peer: Peer, name: TopicName) -> None:
    """Create the topic and the subscription that reads all of it."""
    await peer.create_producer(name, "probe")
    await peer.subscribe(name, SUBSCRIPTION)


@contextlib.asynccontextmanager
async def _connected(address: str) -> AsyncIterator[Peer]:
    channel = GrpcCarrier(SystemClock()).connect(address)
    try:
        yield Peer(channel)
    finally:
        await channel.close()


def main() -> int:
    """Run the rounds; 1 when a promise was broken."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=50, help="rounds in the ledger when it ends [50]")
    parser.add_argument("--folder", type=Path, default=Path(".soak"), help="where data and ledger are [.soak]")
    parser.add_argument("--seed", type=int, default=1, help="of the first round [1]")
    arguments = parser.parse_args()
    soak = Soak(arguments.folder, arguments.seed)
    bad = 0
    for result in soak.run(arguments.rounds):
        bad += not result.is_good
        print(json.dumps(asdict(result)), flush=True)  # noqa: T201 - the command's output
    print(f"{soak.rounds} rounds, {bad} bad in this run; ledger: {arguments.folder / 'ledger.jsonl'}")  # noqa: T201
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
