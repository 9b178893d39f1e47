"""The consume stream against a model, through cuts, moves and restarts: at least once, in order where that is promised.

The model knows what was published, what each open stream has and has not answered, and what the broker has confirmed.
Each course ends when everything is acknowledged: then every message has come.
"""

import asyncio
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import pytest

from danube.model.calls.consume import ConsumeBatches, ConsumeConfirmed, ConsumeUpdate, NackedRange
from danube.model.errors import DanubeError
from danube.model.limits.broker import MIB
from danube.model.ranges import OffsetRange
from danube.model.subscription import SubscriptionType
from danube.model.topic import TopicName
from danube.rpc.carrier import Channel
from danube.runtime.tasks import TaskScope
from danube.testing.in_process_broker import Cell, running_broker
from danube.testing.patience import PATIENCE_S
from danube.testing.peers.stream import ConsumeLine, StreamPeer, payload_batch
from danube.wire.stream import consume

TOPIC = TopicName("default", "modelled")
KINDS = {
    SubscriptionType.EXCLUSIVE: 1,
    SubscriptionType.FAILOVER: 2,
    SubscriptionType.SHARED: 3,
    SubscriptionType.KEY_SHARED: 3,
}
"""Consumers of each type."""
LIVES = 3
"""Starts of the broker."""
STEPS = 40
"""Of each life."""
SETTINGS = {
    "key_shared_grace_s": 0.01,
    "max_redelivery_count": 100_000,
    "redelivery_delay_s": 0.01,
    "redelivery_delay_max_s": 0.05,  # a message that many cuts met would else wait for a minute
}


@dataclass(slots=True)
class Model:
    """What one subscription owes its consumers."""

    kind: SubscriptionType
    keys: list[str] = field(default_factory=list)
    """Key of each message, by offset."""
    seen: set[int] = field(default_factory=set)
    confirmed: set[int] = field(default_factory=set)
    """Acknowledged, and the broker has said so."""
    in_doubt: set[int] = field(default_factory=set)
    """Acknowledged on a stream that was cut before the broker said so: such a message need not come again."""
    newest: dict[str, int] = field(default_factory=dict)
    """By key: the newest message that has come."""
    excused_below: int = 0
    """Messages that a stream may have had when it was cut: a delayed redelivery may come after newer ones."""

    @property
    def is_done(self) -> bool:
        return len(self.confirmed | self.in_doubt) == len(self.keys)

    def came(self, offset: int, others: "Iterable[Reader]") -> None:
        """A message came to a consumer."""
        assert offset < len(self.keys), f"offset {offset} is not published"
        assert offset not in self.confirmed, f"offset {offset} came again, and its acknowledgement was confirmed"
        assert not any(offset in each.unanswered for each in others), f"two consumers have offset {offset} at once"
        self.in_doubt.discard(offset)
        if offset in self.seen:
            return
        key = self.keys[offset] if self.kind is SubscriptionType.KEY_SHARED else ""
        if self.kind is not SubscriptionType.SHARED:
            after = self.newest.get(key, -1)
            first = max(after + 1, self.excused_below)
            missed = [each for each in range(first, offset) if not key or self.keys[each] == key]
            assert offset > after or offset < self.excused_below, f"offset {offset} came after {after}"
            assert not missed, f"offset {offset} came before {missed}"
            self.newest[key] = max(offset, after)
        self.seen.add(offset)


class Reader:
    """One stream of a consumer, read by a task until it ends."""

    def __init__(self, line: ConsumeLine, model: Model, others: "dict[str, Reader]", progress: asyncio.Event) -> None:
        self.unanswered: set[int] = set()
        self.over = False
        self.fault: AssertionError | None = None
        self._line = line
        self._model = model
        self._others = others
        self._progress = progress
        self._asked: dict[int, set[int]] = {}
        """Acknowledgements that are not confirmed, by their number."""
        self._sequence = 0

    async def read(self) -> None:
        try:
            while not self.over:
                answer = await self._line.answer()
                if isinstance(answer, ConsumeBatches):
                    others = [each for each in self._others.values() if each is not self and not each.over]
                    for batch in answer.batches:
                        for offset in range(batch.base_offset + batch.first, batch.base_offset + batch.end):
                            self._model.came(offset, others)
                            self.unanswered.add(offset)
                elif isinstance(answer, ConsumeConfirmed):
                    self._model.confirmed |= self._asked.pop(answer.sequence, set())
                self._progress.set()
        except DanubeError:
            pass
        except AssertionError as fault:
            self.fault = fault
        self.cut()

    def cut(self) -> None:
        self.over = True
        self._model.excused_below = len(self._model.keys)
        self.unanswered.clear()
        self._model.in_doubt.update(*self._asked.values())
        self._line.close()
        self._progress.set()

    async def acknowledge(self, offsets: set[int], *, nacked: OffsetRange | None = None, credit: int = MIB) -> None:
        """Acknowledge some, refuse others, and give credit."""
        self._sequence += 1
        refused = set() if nacked is None else set(range(*nacked)) & self.unanswered
        self._asked[self._sequence] = offsets
        self.unanswered -= offsets | refused
        update = ConsumeUpdate(
            sequence=self._sequence,
            credit_bytes=credit,
            generation=self._line.generation,
            answers_seen=self._line.answers_seen,
            acknowledged=tuple(OffsetRange(each, each + 1) for each in sorted(offsets)),
            nacked=() if nacked is None else (NackedRange(nacked.start, nacked.end, 0.0, ""),),
        )
        try:
            await self._line.stream.send(consume.update_request(update))
        except DanubeError:
            self.cut()


class Course:
    """One course of events, by a seed."""

    def __init__(self, seed: int) -> None:
        self.chance = Random(seed)
        kinds = list(KINDS)
        self.model = Model(kinds[seed % len(kinds)])
        self.readers: dict[str, Reader] = {}
        self.progress = asyncio.Event()
        self.scope = TaskScope("course")
        self._sequences = {"p0": 0, "p1": 0}

    async def run(self, folder: Path) -> None:
        for life in range(LIVES):
            async with running_broker(folder, **SETTINGS) as cell:
                channel = cell.carrier.connect(cell.broker.addresses.broker)
                for _ in range(STEPS):
                    await self._step(cell, channel)
                    self._check()
                if life == LIVES - 1:
                    await self._finish(channel)
                self._cut_all()
                await channel.close()
        await self.scope.close()
        assert self.model.seen == set(range(len(self.model.keys)))

    async def _step(self, cell: Cell, channel: Channel) -> None:
        match self.chance.randrange(8):
            case 0 | 1:
                await self._publish(channel)
            case 2:
                await self._open(channel)
            case 3 | 4:
                await self._answer()
            case 5:
                if self.readers:
                    self.chance.choice(list(self.readers.values())).cut()
            case 6 if self.model.keys and self.chance.random() < 0.4:
                await cell.broker.moves.unload(TOPIC)
                self._cut_all()  # their ends may still be on the way when others get what they had
                await cell.broker.moves.open_again(TOPIC)
            case _:
                for _ in range(self.chance.randrange(50)):
                    await asyncio.sleep(0)

    async def _publish(self, channel: Channel) -> None:
        producer, count = self.chance.choice(["p0", "p1"]), self.chance.randint(1, 20)
        line = await StreamPeer(channel).opened(TOPIC, producer)
        await line.send(0, payload_batch(TOPIC, [b"x" * self.chance.choice([1, 1_000])] * count, producer=producer))
        self.model.keys += [producer] * count
        assert await line.stored(1) == [len(self.model.keys) - count]
        line.close()

    async def _open(self, channel: Channel) -> None:
        """Open a stream of a consumer, in place of the one it has."""
        if not self.model.keys:
            return
        name = f"c{self.chance.randrange(KINDS[self.model.kind])}"
        if name in self.readers:
            self.readers.pop(name).cut()
        try:
            credit = self.chance.choice([1, 2_000, MIB])
            line = await StreamPeer(channel).consuming(TOPIC, name, type=self.model.kind, credit_bytes=credit)
        except DanubeError:
            return  # the broker has not seen yet that the stream before is cut, or the topic is on its way
        reader = self.readers[name] = Reader(line, self.model, self.readers, self.progress)
        self.scope.spawn(reader.read(), name)

    async def _answer(self) -> None:
        for reader in self.readers.values():
            if reader.over:
                continue
            some = {each for each in sorted(reader.unanswered) if self.chance.random() < 0.6}
            rest = sorted(reader.unanswered - some)
            nacked = OffsetRange(rest[0], rest[0] + 1) if rest and self.chance.random() < 0.3 else None
            await reader.acknowledge(some, nacked=nacked, credit=self.chance.choice([0, 500, MIB]))

    async def _finish(self, channel: Channel) -> None:
        """Open what is closed, and acknowledge all that comes, until nothing is left."""
        async with asyncio.timeout(PATIENCE_S):
            while not self.model.is_done:
                self.progress.clear()
                if all(each.over for each in self.readers.values()):
                    await self._open(channel)
                    await asyncio.sleep(0)
                    continue
                for reader in [each for each in self.readers.values() if not each.over]:
                    await reader.acknowledge(set(reader.unanswered))
                await self.progress.wait()
                self._check()

    def _check(self) -> None:
        for reader in self.readers.values():
            if reader.fault is not None:
                raise reader.fault

    def _cut_all(self) -> None:
        for reader in self.readers.values():
            reader.cut()
        self._check()
        self.readers.clear()


async def course(seed: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        this = Course(seed)
        try:
            await this.run(Path(folder) / "data")
        except (AssertionError, TimeoutError) as error:
            model = this.model
            left = sorted(set(range(len(model.keys))) - model.confirmed)
            raise AssertionError(f"seed {seed}, {model.kind}: {error}; not confirmed: {left[:20]}") from error


@pytest.mark.parametrize("seed", range(8))
async def test_every_message_comes_and_in_order_where_that_is_promised(seed: int) -> None:
    await course(seed)


@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(100, 300))
async def test_every_message_comes_and_in_order_at_length(seed: int) -> None:
    await course(seed)
