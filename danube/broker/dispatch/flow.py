"""What the engine asks of a way to hand messages out; one for those types that go by offsets, one that goes by keys."""

from collections.abc import Iterator
from typing import Protocol

from danube.broker.dispatch.events import KeyRun
from danube.broker.dispatch.in_flight import AttachedConsumer, Deliveries
from danube.broker.dispatch.instructions import Instruction


class Flow(Protocol):
    """Which open messages go to whom. It keeps the deliveries and moves the progress that it was made with."""

    deliveries: Deliveries
    due_s: float
    """When `expire` has something to do; infinity for never."""
    unclaimed: int
    """Messages passed over because no consumer takes their key."""

    def attach(self, consumer: AttachedConsumer, filters: tuple[str, ...]) -> None:
        """A consumer joins; raises InvalidRequestError, having changed nothing, for filters that it may not have."""

    def detach(self, consumer: AttachedConsumer, now_s: float) -> None:
        """A consumer leaves: what it had is ready again."""

    def refresh(self, consumer: AttachedConsumer) -> None:
        """A consumer may have room, or none, that it did not have before."""

    def acknowledge(self, start: int, end: int) -> None:
        """What was sent of `[start, end)` is done with; what was not is not."""

    def finish(self, start: int, end: int) -> None:
        """All that is open of `[start, end)`, which was sent, is done with."""

    def skip(self, start: int, end: int) -> None:
        """All of `[start, end)` is done with, sent or not, taken up or not."""

    def seek(self, position: int) -> None:
        """Nothing is open; go on from here."""

    def expire(self, now_s: float) -> None:
        """Let time do its work, but for deliveries."""

    def keys_read(self, runs: tuple[KeyRun, ...]) -> None:
        """Keys of messages to come."""

    def send(self, deadline_s: float, *, is_stopped: bool = False) -> list[Instruction]:
        """Hand out what can be handed out, to be answered by then; nothing new while stopped."""

    def problems(self) -> Iterator[str]:
        """What is not as it must be; nothing, unless there is a fault in here."""
