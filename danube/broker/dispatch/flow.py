"""Flow: the order in which messages are sent, by offset or by key."""

from abc import ABC, abstractmethod
from collections.abc import Iterator

from danube.broker.dispatch.attached import AttachedConsumer
from danube.broker.dispatch.events import Instruction, KeyRun
from danube.broker.dispatch.in_flight import Deliveries
from danube.broker.dispatch.progress import Progress

NEVER_S = float("inf")


class Flow(ABC):
    """Sends open messages to consumers. It keeps the deliveries and moves the progress that it was made with."""

    def __init__(self, progress: Progress, deliveries: Deliveries) -> None:
        self._progress = progress
        self.deliveries = deliveries
        self.due_s = NEVER_S
        """The time at which `expire` has something to do; infinity for never."""
        self.unclaimed = 0
        """Messages passed over because no consumer takes their key."""

    @abstractmethod
    def attach(self, consumer: AttachedConsumer, filters: tuple[str, ...]) -> None:
        """A consumer joins; raises InvalidRequestError, having changed nothing, for filters that it may not have."""

    @abstractmethod
    def detach(self, consumer: AttachedConsumer, now_s: float) -> None:
        """A consumer leaves: what it had is ready again."""

    @abstractmethod
    def refresh(self, consumer: AttachedConsumer) -> None:
        """A consumer may have room, or none, that it did not have before."""

    def acknowledge(self, start: int, end: int) -> None:
        """The sent messages of `[start, end)` are acknowledged."""
        for span in self.deliveries.sent_spans(start, end):
            self.finish(*span)

    @abstractmethod
    def finish(self, start: int, end: int) -> None:
        """All open messages of `[start, end)`, which were sent, are acknowledged."""

    def skip(self, start: int, end: int) -> None:
        """All of `[start, end)` counts as acknowledged, sent or not."""
        self.deliveries.remove(start, end)
        self._progress.skip(start, end)

    def seek(self, position: int) -> None:
        """Nothing is open; continue from here."""
        self.deliveries.clear()
        self._progress.seek(position)

    def expire(self, now_s: float) -> None:  # noqa: B027 - nothing goes by time, as a rule
        """Apply the passing of time, but for deliveries."""

    def keys_read(self, runs: tuple[KeyRun, ...]) -> None:  # noqa: B027 - nothing goes by keys, as a rule
        """Keys of messages to come."""

    @abstractmethod
    def send(self, deadline_s: float, *, is_stopped: bool = False) -> list[Instruction]:
        """Hand out what can be handed out, to be answered by then; nothing new while stopped."""

    @abstractmethod
    def problems(self) -> Iterator[str]:
        """Violated invariants."""
