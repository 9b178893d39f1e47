"""Metadata of a simulated cluster: one sequence of changes, and a line from each machine to it.

Each machine has a real `ReplicatedStore` with a copy of its own. The line makes the copy late, skips to a snapshot,
and carries changes late, twice or never; and it is cut in one direction or both.
"""

import asyncio
import random
from collections.abc import Callable
from contextvars import Context

from danube.metadata.records import keys
from danube.metadata.records.record_format import decode_topic_storage
from danube.metadata.replication.command_format import decode_request
from danube.metadata.replication.sequencer import Follower, NotOrderedError
from danube.metadata.state import State, apply
from danube.metadata.store import Changed
from danube.model.errors import MetadataError
from lab.cluster.machine import Machine
from lab.kernel.time import loop_s

NEAR_S = 0.003
_LATE_S = 25.0  # for a change on its way, at most: longer than an owner waits for the next one
_BEHIND_S = 4.0  # for a copy
_DEAF_S_MAX = 15.0  # for a line that carries changes, late, and brings nothing
_SILENT_S = 1.0  # until a machine that is cut off gives up
_LOOK_S = 0.1  # between two looks at whether a line is whole again
_LEAP = 0.3  # of the copies that are behind
_NOWHERE = Context()  # what is on its way is no machine's


class Sequence:
    """The changes of all machines in their order. Whoever keeps it does not fail."""

    def __init__(self, on_owner: Callable[[int, int, int], None]) -> None:
        """`on_owner` is told of each change of an ownership: topic, epoch, owner."""
        self.requests: list[bytes] = []
        self.state = State()
        self.grown = asyncio.Event()
        self._on_owner = on_owner

    def add(self, request: bytes) -> None:
        self.requests.append(request)
        for change in apply(self.state, decode_request(request).command).changes:
            if isinstance(change, Changed) and change.entry.key.startswith(f"{keys.STORED_TOPICS}/"):
                record = decode_topic_storage(change.entry)
                self._on_owner(record.topic_id, record.epoch, record.owner)
        self.grown.set()
        self.grown = asyncio.Event()


class Trouble:
    """Shares of the changes, and of the steps of a copy, to which something happens."""

    def __init__(self, chance: random.Random) -> None:
        self.late, self.twice, self.never = (chance.choice([0.0, 0.02, 0.1]) for _ in range(3))
        self.behind, self.deaf = (chance.choice([0.0, 0.02, 0.2]) for _ in range(2))

    def end(self) -> None:
        self.late = self.twice = self.never = self.behind = self.deaf = 0.0


class Line:
    """A `Sequencer`: a machine's line to the sequence."""

    def __init__(self, sequence: Sequence, machine: Machine, trouble: Trouble) -> None:
        self.sends = self.hears = True
        self._sequence = sequence
        self._machine = machine
        self._chance = machine.chance
        self._trouble = trouble
        self._position = 0
        self._deaf_until_s = 0.0

    def mend(self) -> None:
        """Be whole again."""
        self.sends = self.hears = True
        self._deaf_until_s = 0.0

    async def start(self, follower: Follower) -> None:
        self._follower = follower
        await self.barrier()
        self._following = self._machine.spawn(self._follow())

    @property
    def leadership(self) -> int:
        return 1

    async def submit(self, request: bytes, _leadership: int | None = None) -> None:
        loop, chance, trouble = asyncio.get_running_loop(), self._chance, self._trouble
        await asyncio.sleep(chance.uniform(0.0, NEAR_S))
        if not self.sends:
            await asyncio.sleep(_SILENT_S)
            if chance.random() < 0.5:
                raise NotOrderedError("the metadata cannot be reached")
            return
        is_late = chance.random() < trouble.late or not self._is_whole
        late_s = chance.uniform(0.0, _LATE_S) if is_late else 0.0
        for _ in range(0 if chance.random() < trouble.never else 2 if chance.random() < trouble.twice else 1):
            if late_s:
                loop.call_later(late_s, self._sequence.add, request, context=_NOWHERE)
            else:
                self._sequence.add(request)
            late_s += chance.uniform(0.0, _LATE_S)

    async def barrier(self) -> None:
        await asyncio.sleep(self._chance.uniform(0.0, NEAR_S))
        if not (self.sends and self._is_whole):
            await asyncio.sleep(_SILENT_S)
            raise MetadataError("the metadata cannot be reached")
        self._catch_up()
        if self._chance.random() < self._trouble.deaf:  # between a look and the change that goes by it
            self._deaf_until_s = loop_s() + self._chance.uniform(0.0, _DEAF_S_MAX)

    @property
    def _is_whole(self) -> bool:
        return self.hears and loop_s() >= self._deaf_until_s

    async def close(self) -> None:
        self._following.cancel()

    async def _follow(self) -> None:
        chance = self._chance
        while True:
            if self._position == len(self._sequence.requests):
                await self._sequence.grown.wait()
            is_behind = chance.random() < self._trouble.behind
            await asyncio.sleep(chance.uniform(0.0, _BEHIND_S if is_behind else NEAR_S))
            while not self._is_whole:  # noqa: ASYNC110 - it is set from many places
                await asyncio.sleep(_LOOK_S)
            if is_behind and chance.random() < _LEAP and self._position < len(self._sequence.requests):
                self._position = len(self._sequence.requests)
                self._follower.reset(self._position, self._sequence.state.snapshot())
            self._catch_up()

    def _catch_up(self) -> None:
        while self._position < len(self._sequence.requests):
            self._position += 1
            self._follower.apply(self._position, [self._sequence.requests[self._position - 1]])
