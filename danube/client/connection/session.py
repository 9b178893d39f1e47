"""One producer's or consumer's attachment to the broker of its topic, as a state machine without I/O.

What happened goes in as an event, with the time; what to do next comes out as one instruction. `attachment.py` carries
instructions out. These are all the arrows; an event that comes in another state is a fault of the caller.

    state         event          next
    IDLE          Opened         LOOKING_UP
    LOOKING_UP    Located        ATTACHING
    LOOKING_UP    NotLocated     ATTACHING (a new topic is attached to where it was asked for), WAITING or IDLE
                                 (the topic that a producer was attached to is gone)
    ATTACHING     Attached       ATTACHED
    ATTACHING     Refused        WAITING, or IDLE (given up)
    WAITING       DelayEnded     LOOKING_UP
    ATTACHED      Lost           LOOKING_UP, WAITING (lost again soon after), or IDLE (given up)

Between losses soon after one another the pauses grow, until the session gives up. An attachment that held for
`CLIENT_SETTLED_S`, or on which anything was received, stored or acknowledged, starts the count anew.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from enum import Enum

from danube.client.connection.paths import BrokerAddress
from danube.client.connection.retry import Failure, Failures, RetryPolicy, delay_before_retry, delay_s, is_exhausted
from danube.model.errors import (
    BrokerUnreachableError,
    ConsumerReplacedError,
    DanubeError,
    DeadlineExceededError,
    NotFoundError,
    TopicDeletedError,
    TopicNotFoundError,
    TopicNotServedError,
)
from danube.model.limits.broker import CLIENT_SETTLED_S
from danube.model.limits.moves import CLIENT_TAKEOVER_PAUSE_S, CLIENT_TAKEOVER_S
from danube.runtime.rng import Rng

_UNREACHABLE = (BrokerUnreachableError, DeadlineExceededError)


class State(Enum):
    """The state of a session."""

    IDLE = "idle"
    """Not begun, or given up: `Opened` begins anew."""
    LOOKING_UP = "looking up"
    ATTACHING = "attaching"
    WAITING = "waiting"
    ATTACHED = "attached"


@dataclass(frozen=True, slots=True)
class Opened:
    """The application wants to be attached."""


@dataclass(frozen=True, slots=True)
class Located:
    """The lookup found the topic's broker."""

    address: BrokerAddress


@dataclass(frozen=True, slots=True)
class NotLocated:
    """The lookup failed."""

    error: DanubeError


@dataclass(frozen=True, slots=True)
class Attached:
    """The broker gave an id."""

    member_id: int


@dataclass(frozen=True, slots=True)
class Refused:
    """Attaching failed."""

    error: DanubeError


@dataclass(frozen=True, slots=True)
class DelayEnded:
    """The time asked for by `Delay` is over."""


@dataclass(frozen=True, slots=True)
class Lost:
    """The attachment is of no use any more."""

    error: DanubeError | None
    """None when the broker itself ended it in good order."""
    was_of_use: bool = False
    """True if a message was received on it, or the broker confirmed one that was sent or acknowledged."""


Event = Opened | Located | NotLocated | Attached | Refused | DelayEnded | Lost


@dataclass(frozen=True, slots=True)
class Link:
    """An attachment that holds."""

    address: BrokerAddress
    member_id: int
    """The producer's or consumer's id on that broker."""
    number: int
    """Of this attachment, counted by the session from 1: distinguishes its loss from that of an older one."""


@dataclass(frozen=True, slots=True)
class LookUp:
    """Ask the broker at this URL who serves the topic."""

    url: str


@dataclass(frozen=True, slots=True)
class Attach:
    """Create the producer, or subscribe, at this broker."""

    address: BrokerAddress
    may_create: bool = False
    """True if a topic that is not there may be created: the application has asked, and was not attached since."""


@dataclass(frozen=True, slots=True)
class Delay:
    """Let this much time pass."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Hold:
    """Use this link until it is lost."""

    link: Link


@dataclass(frozen=True, slots=True)
class Abandon:
    """Report the error to the application: further tries do not help."""

    error: DanubeError


Instruction = LookUp | Attach | Delay | Hold | Abandon


class Session:
    """Decides how to get and stay attached; `first` bounds tries before the first attachment, `again` later ones."""

    def __init__(
        self, service_url: str, *, first: RetryPolicy, again: RetryPolicy, rng: Rng, creates: bool = False
    ) -> None:
        """`creates` says that attaching creates a topic that is not there."""
        self.state = State.IDLE
        self.may_create = creates
        """False once attached, until the application asks again: a topic that is deleted then is not made anew."""
        self._creates = creates
        self._service_url = service_url
        self._asked_url = service_url
        self._address = BrokerAddress.direct(service_url)
        self._sent_to: str | None = None  # where the service URL, which answers, says that the topic is
        self._first = first
        self._again = again
        self._rng = rng
        self._attachments = 0
        self._failures = Failures()
        self._attached_at_s = 0.0
        self._losses = 0
        self._losing_since_s = 0.0

    def handle(self, event: Event, now_s: float) -> Instruction:
        """Handle an event at monotonic time `now_s`; answers the next instruction."""
        match self.state, event:
            case State.IDLE, Opened():
                return self._opened()
            case State.LOOKING_UP, Located(address):
                return self._located(address)
            case State.LOOKING_UP, NotLocated(error):
                return self._not_located(error, now_s)
            case State.ATTACHING, Attached(member_id):
                return self._attached(member_id, now_s)
            case State.ATTACHING, Refused(error):
                return self._abandon(error) if self._is_gone(error) else self._failed(error, now_s)
            case State.WAITING, DelayEnded():
                return self._look_up()
            case State.ATTACHED, Lost():
                return self._lost(event, now_s)
        raise RuntimeError(f"a session that is {self.state.value} knows no arrow for {event}")

    def _opened(self) -> Instruction:
        self._failures.clear()
        self._losses = 0
        return self._look_up()

    def _look_up(self) -> Instruction:
        self.state = State.LOOKING_UP
        return LookUp(self._asked_url)

    def _located(self, address: BrokerAddress) -> Instruction:
        if self._asked_url == self._service_url:
            self._sent_to = address.connect_url
        self._address = address
        return self._attach()

    def _attach(self) -> Instruction:
        self.state = State.ATTACHING
        return Attach(self._address, self.may_create)

    def _not_located(self, error: DanubeError, now_s: float) -> Instruction:
        """A lookup that the broker refused says less than attaching will: a new topic is created by attaching.

        The original answers NOT_FOUND for a topic that is on its way to another broker, too.
        """
        if self._is_gone(error):
            return self._abandon(error)
        if self._creates and not self.may_create and isinstance(error, NotFoundError):
            error = TopicNotServedError(f"no broker serves the topic, or it was deleted: {error}")
        if self._asked_url == self._service_url:
            self._sent_to = None
        if error.retryable:
            return self._failed(error, now_s)
        self._address = BrokerAddress.direct(self._asked_url)
        return self._attach()

    def _is_gone(self, error: DanubeError) -> bool:
        """Tell whether the topic was deleted since a producer was attached to it."""
        return self._creates and not self.may_create and isinstance(error, TopicNotFoundError)

    def _failed(self, error: DanubeError, now_s: float) -> Instruction:
        if isinstance(error, _UNREACHABLE):
            known = self._address.connect_url  # take turns with the service URL: either may be down
            self._asked_url = known if self._asked_url == self._service_url else self._service_url
        failure = self._failures.add(error, now_s)
        delay = delay_before_retry(self._policy_for(failure), failure, self._rng.uniform(0, 1))
        if delay is not None:
            return self._wait(delay)
        return self._abandon(final_error(self._service_url, failure, self._sent_to))

    def _attached(self, member_id: int, now_s: float) -> Instruction:
        self.state = State.ATTACHED
        self.may_create = False
        self._asked_url = self._service_url
        self._attachments += 1
        self._failures.clear()
        self._attached_at_s = now_s
        return Hold(Link(self._address, member_id, self._attachments))

    def _lost(self, loss: Lost, now_s: float) -> Instruction:
        error = loss.error or BrokerUnreachableError("the broker ends each stream at once")
        if isinstance(error, ConsumerReplacedError):
            return self._abandon(error)  # coming back would throw the other one out
        if now_s - self._attached_at_s >= CLIENT_SETTLED_S:
            self._losses = 0
        if self._losses == 0:
            self._losing_since_s = now_s
            self._losses = 1
            return self._look_up()
        if not may_reattach_after(error) and not self.may_create:
            return self._abandon(error)
        return self._lost_soon_after_use(now_s) if loss.was_of_use else self._lost_again(error, now_s)

    def _lost_soon_after_use(self, now_s: float) -> Instruction:
        """As a second loss: a broker that breaks each connection after one message is not called without a pause."""
        self._losing_since_s = now_s
        self._losses = 2
        return self._pause()

    def _lost_again(self, error: DanubeError, now_s: float) -> Instruction:
        self._losses += 1
        failure = Failure(error=error, attempt=self._losses - 1, elapsed_s=now_s - self._losing_since_s)
        return self._abandon(error) if is_exhausted(self._again, failure) else self._pause()

    def _pause(self) -> Instruction:
        return self._wait(delay_s(self._again, self._losses - 1, self._rng.uniform(0, 1)))

    def _wait(self, delay: float) -> Instruction:
        self.state = State.WAITING
        return Delay(delay)

    def _abandon(self, error: DanubeError) -> Instruction:
        self.state = State.IDLE
        if self._is_gone(error):
            error = TopicDeletedError(f"the topic was deleted, create() makes it anew: {error}")
        return Abandon(error)

    def _policy_for(self, failure: Failure) -> RetryPolicy:
        """While a takeover may be under way, pauses stay short, and a topic that is being opened is waited for."""
        policy = self._again if self._attachments else self._first
        is_waited_for = isinstance(failure.error, TopicNotServedError)
        if is_waited_for and policy.total_s is None:
            policy = replace(policy, total_s=CLIENT_TAKEOVER_S)
        if failure.elapsed_s < CLIENT_TAKEOVER_S and (self._attachments or is_waited_for):
            longest_s = max(policy.delay_step_s, CLIENT_TAKEOVER_PAUSE_S)
            policy = replace(policy, delay_max_s=min(policy.delay_max_s, longest_s))
        return policy


def may_reattach_after(error: DanubeError) -> bool:
    """Tell whether another attachment may succeed after one that ended with this error."""
    return error.retryable or isinstance(error, NotFoundError)


def final_error(service_url: str, failure: Failure, sent_to: str | None = None) -> DanubeError:
    """The error that the application gets after the last failure; for an unreachable broker it names the address.

    `sent_to` is the address to which the broker at the service URL sends clients, if it answers.
    """
    if not isinstance(failure.error, _UNREACHABLE):
        return failure.error
    tries = f"{failure.attempt} tries in {failure.elapsed_s:.1f} s" if failure.attempt > 1 else "one try"
    if sent_to not in {None, service_url}:
        return BrokerUnreachableError(f"{redirect(service_url, sent_to, tries)}; the last error was: {failure.error}")
    return BrokerUnreachableError(
        f"no broker answers at {service_url} ({tries}): check that it runs there and that the address is right; "
        f"the last error was: {failure.error}"
    )


def redirect(asked_url: str, sent_to: str | None, tries: str) -> str:
    """The text for a broker that answers and names another one that does not."""
    return (
        f"the broker at {asked_url} answers and sends clients to the advertised address {sent_to}, where no broker"
        f" answers ({tries}): check that one runs there and that this machine resolves and reaches that address, or"
        " start that broker with an --advertised-addr which clients reach"
    )


@contextmanager
def naming_redirect(asked_url: str, address: BrokerAddress) -> Iterator[None]:
    """Wrap calls to the broker that a lookup named. Raises BrokerUnreachableError that says which broker named it."""
    try:
        yield
    except BrokerUnreachableError as error:
        if address.connect_url == asked_url:
            raise
        where = redirect(asked_url, address.connect_url, "one try")
        raise BrokerUnreachableError(f"{where}; the error was: {error}") from error
