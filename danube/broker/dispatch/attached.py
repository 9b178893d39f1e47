"""Attached consumers of a subscription: their room, what they have, and when they answered last."""

from dataclasses import dataclass, field
from math import inf
from typing import TYPE_CHECKING

from danube.model.limits.stream import CONSUME_MESSAGES_MAX

if TYPE_CHECKING:
    from danube.broker.dispatch.in_flight import Delivery


@dataclass(slots=True, eq=False)
class AttachedConsumer:
    """A consumer with an open stream, as dispatch sees it."""

    consumer_id: int
    window: int
    """The most messages it may have unacknowledged."""
    quantum: int
    """Messages of one turn in a Shared subscription."""
    turn_left: int
    """Messages of its current turn that it has not had."""
    is_paused: bool = False
    in_flight: int = 0
    """Messages it has and has not acknowledged."""
    held: set["Delivery"] = field(default_factory=set)
    """The ranges they are in."""
    allowed: int = 0
    """The most that `in_flight` may be: more than a window that was made smaller meanwhile."""
    by_batch: bool = False
    """True if it is sent one range at a time, in a Shared subscription of one batch at most."""
    turn_max: int = CONSUME_MESSAGES_MAX
    """The most messages of that range."""
    reports: bool = False
    """True if it says what its application has."""
    asked_s: float | None = None
    """Monotonic time at which it was asked for that, and did not answer yet."""
    front: tuple[int, int] = (0, 0)
    """Number of the latest send of which it answered anything, and the offset up to which."""
    answered_s: float = -inf
    """Monotonic time of its last answer."""
    sign_s: float = 0.0
    """Of its last sign of life: an answer, or its first message since it had answered all."""
    owes: bool = False
    """True if it was sent something since its last answer."""

    @property
    def room(self) -> int:
        """The number of messages it may be sent now; none when 0 or less."""
        return 0 if self.is_paused else self.window - self.in_flight

    def change_window(self, window: int) -> None:
        """From now on; what it has, it keeps."""
        self.window = window
        self.allowed = max(window, self.in_flight)


@dataclass(frozen=True, slots=True)
class ConsumerView:
    """An attached consumer as metrics and administrators see it."""

    consumer_id: int
    window: int
    in_flight: int
    """Messages it has and has not acknowledged."""
    is_paused: bool
