"""Protocol of a flow: the order in which messages are sent, by offset or by key."""

from collections.abc import Iterator
from typing import Protocol

from danube.broker.dispatch.events import Instruction, KeyRun
from danube.broker.dispatch.in_flight import AttachedConsumer, Deliveries


class Flow(Protocol):
    """Sends open messages to consumers. It keeps the deliveries and moves the progress that it was made with."""

    deliveries: Deliveries
    due_s: float
    """The time at which `expire` has something to do; infinity for never."""
    unclaimed: int
    """Messages passed over because no consumer takes their key."""

    def attach(self, consumer: AttachedConsumer, filters: tuple[str, ...]) -> None:
        """A consumer joins; raises InvalidRequestError, having changed nothing, for filters that it may not have."""

    def detach(self, consumer: AttachedConsumer, now_s: float) -> None:
        """A consumer leaves: what it had is ready again."""

    def refresh(self, consumer: AttachedConsumer) -> None:
        """A consumer may have room, or none, that it did not have before."""

    def acknowledge(self, start: int, end: int) -> None:
        """The sent messages of `[start, end)` are acknowledged."""

    def finish(self, start: int, end: int) -> None:
        """All open messages of `[start, end)`, which were sent, are acknowledged."""

    def skip(self, start: int, end: int) -> None:
        """All of `[start, end)` counts as acknowledged, sent or not."""

    def seek(self, position: int) -> None:
        """Nothing is open; continue from here."""

    def expire(self, now_s: float) -> None:
        """Apply the passing of time, but for deliveries."""

    def keys_read(self, runs: tuple[KeyRun, ...]) -> None:
        """Keys of messages to come."""

    def send(self, deadline_s: float, *, is_stopped: bool = False) -> list[Instruction]:
        """Hand out what can be handed out, to be answered by then; nothing new while stopped."""

    def problems(self) -> Iterator[str]:
        """Violated invariants."""
