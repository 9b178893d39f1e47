"""Failures of connectors: those a connector raises, and their kinds, which decide what a task does. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from danube.model.errors import DanubeError, PayloadInvalidError, SettingsError, SubscriptionBusyError, TopicHeldError
from danube.model.limits.faces import CONNECT_REASON_CHARS_MAX


class OtherSideError(Exception):
    """The other side is away, slow or full: the same batch may succeed later, after `retry_after_s` if it said so."""

    def __init__(self, reason: str, retry_after_s: float = 0.0) -> None:
        super().__init__(reason)
        self.retry_after_s = retry_after_s


class RefusedError(Exception):
    """Records that the other side can never take: they go to the dead letters.

    Without offsets, one of the batch, whichever it is: the batch is halved until it is found.
    """

    def __init__(self, reason: str, offsets: Iterable[int] = ()) -> None:
        super().__init__(reason)
        self.reason = reason
        self.offsets = frozenset(offsets)


class StandbyError(Exception):
    """Nothing is wrong, and there is nothing to do: another runner has the place, or the topic is not there yet."""


class FailureKind(StrEnum):
    """Kind of a failure."""

    OTHER_SIDE = "other_side"
    """Waits: retried in place for a while, then by a task that begins anew."""
    REFUSED = "refused"
    """Of a record: dead letters at once."""
    UNKNOWN = "unknown"
    """Bisected: the record that fails alone, again and again, goes to the dead letters."""
    STANDBY = "standby"
    """Of a place that is taken: asked for again."""
    CONFIGURATION = "configuration"
    """Of the file: only a person can mend it."""


def kind_of(error: BaseException) -> FailureKind:
    """The kind of a failure."""
    if isinstance(error, SettingsError):
        return FailureKind.CONFIGURATION
    if isinstance(error, RefusedError | PayloadInvalidError):
        return FailureKind.REFUSED
    if isinstance(error, StandbyError | SubscriptionBusyError | TopicHeldError):
        return FailureKind.STANDBY
    if isinstance(error, OtherSideError | OSError | TimeoutError | DanubeError):
        return FailureKind.OTHER_SIDE
    return FailureKind.UNKNOWN


def reason_of(error: BaseException) -> str:
    """The failure as one short sentence, for dead letters, states and the log."""
    text = " ".join(str(error).split()) or "no reason was given"
    named = text if isinstance(error, DanubeError | RefusedError | OtherSideError | StandbyError) else None
    return (named or f"{type(error).__name__}: {text}")[:CONNECT_REASON_CHARS_MAX]


def retry_after_s_of(error: BaseException) -> float:
    """Seconds for which the other side wants to be left alone."""
    return error.retry_after_s if isinstance(error, OtherSideError) else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Backoff:
    """Delays that double from `first_s` to `longest_s`, each times a random 0.5 to 1.5 as the original's."""

    first_s: float
    longest_s: float

    def delay_s(self, failures: int, chance: float) -> float:
        """The delay after so many failures (from 1), with a random number from 0 to 1."""
        steps = min(max(failures - 1, 0), 32)
        return min(self.first_s * 2.0**steps, self.longest_s) * (0.5 + chance)
