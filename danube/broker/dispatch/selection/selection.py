"""Selection of a consumer in offset order: one class for each subscription type.

A new type is a class that keeps the `Selection` protocol and a line in `SELECTIONS`; `ordered.py` asks nothing else.
Key-Shared is not among them: there the key decides (`key_shared.py`).
"""

from collections.abc import Callable, Hashable, Iterator
from heapq import heapify, heappop, heappush, heapreplace
from typing import Generic, Protocol, TypeVar

from danube.broker.dispatch.attached import AttachedConsumer
from danube.model.limits.stream import CONSUME_TURN_MESSAGES
from danube.model.subscription import SubscriptionType

BatchEnd = Callable[[int], int | None]
"""The end of the stored batch that has this offset, from memory; None where it is not at hand."""


def unknown_end(_offset: int) -> int | None:
    """No batch is at hand."""
    return None


Turn = tuple[AttachedConsumer, int]
"""A consumer and how many messages it gets."""


class Selection(Protocol):
    """The rule of one subscription; it sees the consumers' room and is notified when that may have changed."""

    def attach(self, consumer: AttachedConsumer) -> None:
        """A consumer joins."""

    def detach(self, consumer: AttachedConsumer) -> None:
        """A consumer leaves."""

    def refresh(self, consumer: AttachedConsumer) -> None:
        """A consumer may have room, or none, that it did not have before."""

    def take(self, start: int, end: int) -> Turn | None:
        """The consumer of the first messages of `[start, end)`, which are then sent; None while none has room."""

    def problems(self) -> Iterator[str]:
        """Violated invariants."""


Member = TypeVar("Member", bound=Hashable)


class Rotation(Generic[Member]):
    """Takes turns among the members that are ready: first is who had no turn for the longest time.

    A member that was not ready for a while comes back to its place, so it gets at most the one turn that it missed.
    Each call costs O(log members), however many are not ready.
    """

    def __init__(self) -> None:
        self._turn = 0
        self._last_turns: dict[Member, int] = {}
        self._ready: set[Member] = set()
        self._heap: list[tuple[int, Member]] = []
        """Entries may be out of date: one counts if its member is ready and has not had a turn since."""

    def __iter__(self) -> Iterator[Member]:
        """All members, ready or not, as they came in."""
        return iter(self._last_turns)

    def is_ready(self, member: Member) -> bool:
        """Tell whether it may have a turn."""
        return member in self._ready

    @property
    def ready_count(self) -> int:
        """The number of members that are ready."""
        return len(self._ready)

    def add(self, member: Member) -> None:
        """Come in as the last, ready; nothing changes for one that is here."""
        if member not in self._last_turns:
            self._turn += 1
            self._last_turns[member] = self._turn
            self.resume(member)

    def remove(self, member: Member) -> None:
        """Leave, if it is here."""
        self._last_turns.pop(member, None)
        self._ready.discard(member)

    def resume(self, member: Member) -> None:
        """The member, if it is here, is ready."""
        if member in self._last_turns and member not in self._ready:
            self._ready.add(member)
            heappush(self._heap, (self._last_turns[member], member))
            self._tidy()

    def pause(self, member: Member) -> None:
        """The member is not ready."""
        self._ready.discard(member)

    def first(self) -> Member | None:
        """Consumer whose turn it is; None when none is ready."""
        heap = self._heap
        while heap:
            turn, member = heap[0]
            if member in self._ready and self._last_turns[member] == turn:
                return member
            heappop(heap)
        return None

    def pass_on(self) -> None:
        """The `first()` had its turn."""
        self._turn += 1
        member = self._heap[0][1]
        self._last_turns[member] = self._turn
        heapreplace(self._heap, (self._turn, member))

    def problems(self) -> Iterator[str]:
        """Violated invariants."""
        entries = set(self._heap)
        for member in self._ready:
            if (self._last_turns.get(member, 0), member) not in entries:
                yield f"{member} is ready and would never have a turn"

    def _tidy(self) -> None:
        """Build the heap anew when most of it is out of date."""
        if len(self._heap) > 2 * len(self._last_turns) + 16:
            self._heap[:] = [(self._last_turns[member], member) for member in self._ready]
            heapify(self._heap)


class FirstSelection:
    """All to the consumer that attached first; when it has left, the next one takes over at once.

    Exclusive and Failover: they differ in whom the subscription lets in.
    """

    def __init__(self, batch_end: BatchEnd = unknown_end) -> None:  # noqa: ARG002 - one consumer gets all batches
        self._consumers: list[AttachedConsumer] = []

    def attach(self, consumer: AttachedConsumer) -> None:
        self._consumers.append(consumer)

    def detach(self, consumer: AttachedConsumer) -> None:
        self._consumers.remove(consumer)

    def refresh(self, consumer: AttachedConsumer) -> None:
        """Nothing is kept here that depends on room."""

    def take(self, start: int, end: int) -> Turn | None:
        if not self._consumers:
            return None
        consumer = self._consumers[0]
        room = consumer.room
        return (consumer, min(room, end - start)) if room > 0 else None

    def problems(self) -> Iterator[str]:
        return iter(())


class SharedSelection:
    """Each in turn, a quantum at a time; who has no room, or is paused, is passed over and holds up nobody.

    The quantum of a consumer that is sent ranges is the rest of a stored batch.
    """

    def __init__(self, batch_end: BatchEnd = unknown_end) -> None:
        self._rotation: Rotation[AttachedConsumer] = Rotation()
        self._batch_end = batch_end

    def attach(self, consumer: AttachedConsumer) -> None:
        self._rotation.add(consumer)

    def detach(self, consumer: AttachedConsumer) -> None:
        self._rotation.remove(consumer)

    def refresh(self, consumer: AttachedConsumer) -> None:
        if consumer.room > 0:
            self._rotation.resume(consumer)
        else:
            self._rotation.pause(consumer)

    def take(self, start: int, end: int) -> Turn | None:
        consumer = self._rotation.first()
        if consumer is None:
            return None
        room = consumer.room
        count = min(room, end - start)
        if consumer.by_batch:
            self._rotation.pass_on()
            end = self._batch_end(start) or start + CONSUME_TURN_MESSAGES
            return consumer, min(count, end - start, consumer.turn_max)
        if self._rotation.ready_count > 1:
            count = min(count, consumer.turn_left)
        self._account(consumer, count, is_full=count == room)
        return consumer, count

    def problems(self) -> Iterator[str]:
        return self._rotation.problems()

    def _account(self, consumer: AttachedConsumer, count: int, *, is_full: bool) -> None:
        """Count its turn down; several at once, because it is alone, leave it where as many single ones would."""
        if is_full or count >= consumer.turn_left:
            self._rotation.pass_on()
        if is_full:
            consumer.turn_left = consumer.quantum
            self._rotation.pause(consumer)
        else:
            consumer.turn_left = (consumer.turn_left - count) % consumer.quantum or consumer.quantum


SELECTIONS: dict[SubscriptionType, Callable[[BatchEnd], Selection]] = {
    SubscriptionType.EXCLUSIVE: FirstSelection,
    SubscriptionType.FAILOVER: FirstSelection,
    SubscriptionType.SHARED: SharedSelection,
}
"""Makes a new selection for a subscription that does not go by keys."""
