"""Values of the lag rules: observations, the rules' parameters, and verdicts."""

from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar, NamedTuple

from danube.model.limits.broker import TELEMETRY_FULL_INTERVAL_S, TELEMETRY_INTERVAL_S
from danube.model.records.telemetry import SilentConsumer


class LagStatus(StrEnum):
    """Status of a subscription: Burrow's, and two more."""

    OK = "OK"
    WARN = "WARN"
    """Reads, and the lag never fell in the window."""
    STOP = "STOP"
    """Nobody has read for longer than was read before that, and messages wait."""
    STALL = "STALL"
    """Somebody is there and the position stood still for the whole window."""
    REWIND = "REWIND"
    """The position went back and has not come forward again."""
    UNKNOWN = "UNKNOWN"
    """Too little, or nothing recent, is known of it."""
    NOT_KEPT = "NOT_KEPT"
    """The topic is not reliable: nothing is kept, so nothing can lag."""


SEVERITY: dict[LagStatus, int] = {
    LagStatus.NOT_KEPT: 0,
    LagStatus.OK: 1,
    LagStatus.UNKNOWN: 2,
    LagStatus.WARN: 3,
    LagStatus.STOP: 4,
    LagStatus.STALL: 5,
    LagStatus.REWIND: 6,
}
"""The worst has the highest number: the order of Burrow's status constants."""


class LagRule(StrEnum):
    """Rule that gave the status; the first that fits, in this order."""

    NOT_RELIABLE = "not_reliable"
    NO_HISTORY = "no_history"
    SILENT = "silent"
    ALLOWED_LAG = "allowed_lag"
    DELETED_UNREAD = "deleted_unread"
    """Retention deleted unread messages; it comes last, where nothing else is worse. So do the next two."""
    MEMBER_SILENT = "member_silent"
    REDELIVERED = "redelivered"
    SHORT_HISTORY = "short_history"
    NO_COMMITS = "no_commits"
    FEW_COMMITS = "few_commits"
    WENT_BACK = "went_back"
    CAUGHT_UP_ONCE = "caught_up_once"
    POSITION_STILL = "position_still"
    YOUNG_LAG = "young_lag"
    LAG_NEVER_FELL = "lag_never_fell"
    LAG_FELL = "lag_fell"


class LagMethod(StrEnum):
    """Source of the time lag."""

    MEASURED = "measured"
    """The broker read the append time of the oldest unread message, or nothing is unread."""
    INTERPOLATED = "interpolated"
    EXTRAPOLATED = "extrapolated"
    UNKNOWN = "unknown"


class LagCause(StrEnum):
    """Cause of the lag; the first that fits, in this order."""

    DATA_LOSS = "data_loss"
    BLOCKED = "blocked"
    REWOUND = "rewound"
    NOBODY_READS = "nobody_reads"
    MEMBER_STUCK = "member_stuck"
    POISON = "poison"
    STORM = "storm"
    BACK_OFF = "back_off"
    STUCK = "stuck"
    THROTTLED = "throttled"
    NOT_SENT = "not_sent"
    TOO_SLOW = "too_slow"
    CATCHING_UP = "catching_up"


class EtaReason(StrEnum):
    """Reason for a missing catch-up time."""

    NOT_KEPT = "not_kept"
    NO_RATES = "no_rates"
    """Too little is known to compute any."""
    NOTHING_CONSUMED = "nothing_consumed"
    FALLS_BEHIND = "falls_behind"
    """As much arrives as is consumed, or more."""


class Observation(NamedTuple):
    """One subscription in one telemetry record (`docs/formats/telemetry.md`). A tuple: jobs make millions of them."""

    at_ms: int
    broker_id: str = ""
    start_id: str = ""
    sequence: int = 0
    gone: bool = False
    topic_id: str = ""
    subscription_id: str = ""
    kept: bool = True
    """False on a topic that is not reliable; all that follows but `consumers` is 0 then."""
    consumers: int = 0
    start_offset: int = 0
    head: int = 0
    position: int = 0
    acknowledged_beyond: int = 0
    lag_messages: int = 0
    in_flight: int = 0
    waiting: int = 0
    ready: int = 0
    redelivered: int = 0
    nacked: int = 0
    blocked: int | None = None
    """None from a broker that does not tell."""
    oldest_unread_append_ms: int | None = None
    head_append_ms: int | None = None
    acknowledged: int | None = None
    """A counter, as the next six; None from a broker that does not tell, as all that follow."""
    skipped: int | None = None
    expired: int | None = None
    trimmed: int | None = None
    seeks: int | None = None
    timed_out: int | None = None
    disconnected: int | None = None
    failures: int | None = None
    failed_offset: int | None = None
    failed_on: int | None = None
    dispatch_limit: int | None = None
    retention_deadline_ms: int | None = None
    retention_messages_left: int | None = None
    last_acknowledged_ms: int | None = None
    silent: tuple[SilentConsumer, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LagPolicy:
    """The numbers in the rules."""

    intervals: int = 10
    """Looks in the window: Burrow's default of `intervals`."""
    interval_s: float = TELEMETRY_INTERVAL_S
    """Between two looks: as often as brokers publish."""
    allowed_lag: int = 0
    """Messages that are no lag: Burrow's `allowed-lag` and its default."""
    minimum_complete: float = 0.5
    """Share of the window that must be known: Burrow's `minimum-complete`. It calls the rest OK; here it is UNKNOWN."""
    young_lag_s: float = 2 * TELEMETRY_INTERVAL_S
    """WARN is not raised while the oldest unread message is younger: a few messages on their way are no trouble
    (Burrow#223, a warning at a trivial lag)."""
    clears_s: ClassVar[float] = 600.0
    """A lag that falls is no trouble if nothing is unread within so long."""
    falling_share: ClassVar[float] = 0.8
    """Of the slopes between two looks, the share that must fall: mere noise has it once in a hundred looks."""
    steady_looks: ClassVar[int] = 3
    """A trend must hold at so many looks in a row to count: load that varies does not change the status."""
    storm_messages: ClassVar[int] = 10
    """Fewer failed messages in the window are no storm."""
    limited_share: ClassVar[float] = 0.8
    """Of its dispatch limit, the share at which a subscription is held back by it."""
    silent_after_s: float = 2 * TELEMETRY_FULL_INTERVAL_S
    """No record for so long, two full rounds, and nothing is known any more: `docs/formats/telemetry.md`."""
    history_s: float = 300.0
    """Older records are left out: the looks, and what they are filled with, need less."""

    @property
    def interval_ms(self) -> int:
        """Between two looks."""
        return round(self.interval_s * 1_000)

    @property
    def window_ms(self) -> int:
        """From the first look of the window to the last."""
        return (self.intervals - 1) * self.interval_ms


@dataclass(frozen=True, slots=True, kw_only=True)
class LagVerdict:
    """Lag of one subscription of one topic at a time. Null is unknown, never 0."""

    status: LagStatus
    rule: LagRule
    cause: LagCause | None = None
    broker_id: str | None = None
    """Broker of the newest record."""
    observed_ms: int | None = None
    """Time of the newest record."""
    consumers: int | None = None
    lag_messages: int | None = None
    lag_s: float | None = None
    """Age of the oldest unread message."""
    lag_method: LagMethod = LagMethod.UNKNOWN
    arrival_rate: float | None = None
    """Messages a second over `rate_window_s`, as is `consume_rate`."""
    consume_rate: float | None = None
    rate_window_s: float | None = None
    eta_s: float | None = None
    """Until nothing is unread, if both rates stay."""
    eta_reason: EtaReason | None = None
    start_offset: int | None = None
    position: int | None = None
    head: int | None = None
    retention_margin: int | None = None
    """Messages between the oldest that is kept and the position; negative: so many were deleted unread."""
    retention_ratio: float | None = None
    """Share of the stored messages that is unread; above 1 messages were lost."""
    messages_lost: int | None = None
    """Deleted by retention, unread, since the broker started."""
    in_flight: int | None = None
    waiting: int | None = None
    ready: int | None = None
    blocked: int | None = None
    looks: int = 0
    """Looks of the window that saw something."""
    commits: int = 0
    """Looks, the newest `intervals` of them, that saw a consumer or progress."""
    commit_age_s: float | None = None
    """Since the newest commit."""
    arrived: int | None = None
    """Messages within `rate_window_s`, as are the next three."""
    acknowledged: int | None = None
    nacked: int | None = None
    redelivered: int | None = None
    lost: int | None = None
    """Deleted by retention, unread, within the looks; null where its broker does not tell, as all that follow."""
    timed_out: int | None = None
    disconnected: int | None = None
    failures: int | None = None
    failed_offset: int | None = None
    failed_on: int | None = None
    silent_consumer: str | None = None
    silent_host: str | None = None
    silent_others: str | None = None
    """Two more at most, with their hosts: those that answered none in the window either."""
    silent_s: float | None = None
    """None of them answered for so long."""
    silent_in_flight: int | None = None
    """Messages that they have together; the next is the lowest of these."""
    silent_offset: int | None = None
    dispatch_limit: int | None = None
    retention_deadline_s: float | None = None
    """Until retention deletes unread messages, at these rates; null where it does not."""
