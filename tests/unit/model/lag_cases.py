"""Histories worked by hand, with the verdict that each must get: here and from Spark (`tests/spark/jobs`).

Looks are 5 s apart and all cases are judged at second 50, so the window is the looks at 5, 10, ... 50 (45 s), and
commits are looked for from second -45 on. Append times are seconds of the same clock.
"""

from collections.abc import Sequence

from danube.model.lag.verdict import EtaReason, LagCause, LagMethod, LagRule, LagStatus, Observation
from tests.unit.model.lag_histories import (
    AT_S,
    OK,
    POLICY,
    REWIND,
    STALL,
    STOP,
    T0_MS,
    UNKNOWN,
    WARN,
    Case,
    case_of,
    each_5_s,
    ms,
    rising,
    seen,
)
from tests.unit.model.told_lag_cases import TOLD_CASES

__all__ = ["AT_S", "CASES", "GONE", "POLICY", "T0_MS", "Case", "each_5_s", "ms", "named", "rising", "seen"]

STATUS_CASES = [
    # heads 100..190 and everything read; one record at second 50 says all there is to say of the present.
    case_of(
        "nothing waits",
        each_5_s(rising(100, 10), rising(100, 10)),
        OK,
        LagRule.ALLOWED_LAG,
        lag_messages=0,
        lag_s=0.0,
        lag_method=LagMethod.MEASURED,
        eta_s=0.0,
        eta_reason=None,
        arrival_rate=90 / 45,
        consume_rate=90 / 45,
        cause=None,
    ),
    # head 10, 20, ... 100, position 0, nobody attached: no commit at all. 90 arrive in 45 s, none is read.
    case_of(
        "nobody ever read",
        each_5_s(rising(10, 10), [0] * 10, consumers=0, oldest_s=2),
        STOP,
        LagRule.NO_COMMITS,
        cause=LagCause.NOBODY_READS,
        lag_messages=100,
        lag_s=48.0,
        lag_method=LagMethod.MEASURED,
        arrival_rate=2.0,
        consume_rate=0.0,
        rate_window_s=45.0,
        eta_s=None,
        eta_reason=EtaReason.NOTHING_CONSUMED,
        commits=0,
        commit_age_s=None,
        looks=10,
    ),
    # Commits at the looks -45 ... 0, the consumer gone at 1: 50 - 0 > 0 - -45.
    case_of(
        "the consumer left 50 s ago",
        [
            *each_5_s(rising(10, 10), rising(5, 10), first_s=-45),
            seen(1, 110, 95, consumers=0),
            seen(6, 120, 95, consumers=0),
        ],
        STOP,
        LagRule.NO_COMMITS,
        commits=10,
        commit_age_s=50.0,
        cause=LagCause.NOBODY_READS,
    ),
    # The same, gone at 6: the newest commit is at 5, 45 s ago, and the oldest of the ten at -40: 45 > 45 does not hold.
    # The lag stood at 5 all the time it read, and nothing says how old that is.
    case_of(
        "the consumer left 45 s ago",
        [*each_5_s(rising(10, 10, 11), rising(5, 10, 11), first_s=-45), seen(6, 120, 105, consumers=0)],
        WARN,
        LagRule.LAG_NEVER_FELL,
    ),
    # Burrow's PR 338. Idle and read up to 5; the first message comes at 40: heads before it were at the position.
    case_of(
        "an idle topic's first message",
        [seen(0, 5, 5, consumers=0), seen(40, 6, 5, consumers=0, oldest_s=40)],
        OK,
        LagRule.FEW_COMMITS,
        lag_messages=1,
        lag_s=10.0,
        cause=LagCause.NOBODY_READS,
    ),
    # Position 100, 110, 120, 130, then a seek to 50: 60, 70, 80, 90, 100, 105 never reach 130 again.
    case_of(
        "a seek back",
        each_5_s([200] * 10, [100, 110, 120, 130, 60, 70, 80, 90, 100, 105]),
        REWIND,
        LagRule.WENT_BACK,
        cause=LagCause.REWOUND,
        acknowledged=45,
        consume_rate=45 / 25,
    ),
    # The same seek, and position 130 is reached again: the lag, 200 - 135, fell.
    case_of(
        "a seek back that was made good",
        each_5_s([200] * 10, [100, 110, 120, 130, 60, 80, 100, 120, 130, 135]),
        OK,
        LagRule.LAG_FELL,
    ),
    # REWIND comes before the pardon for a lag of 0, as in Burrow's code and not as in older descriptions of it.
    case_of(
        "a seek back from the end",
        each_5_s([100] * 10, [100, 100, 100, 100, 20, 30, 40, 50, 60, 70]),
        REWIND,
        LagRule.WENT_BACK,
    ),
    # Lags 0 0 0 0 0 10 20 30 40 50.
    case_of(
        "was at the end within the window",
        each_5_s([100, 100, 100, 100, 100, 110, 120, 130, 140, 150], [100] * 10),
        OK,
        LagRule.CAUGHT_UP_ONCE,
    ),
    # Somebody is there, ten messages are with it, and position 40 for all ten looks.
    case_of(
        "stuck",
        each_5_s(rising(50, 1), [40] * 10, in_flight=10, oldest_s=1),
        STALL,
        LagRule.POSITION_STILL,
        cause=LagCause.STUCK,
        acknowledged=0,
        in_flight=10,
    ),
    # Lags 10, 20, ... 100: never fell. 20 x 9 = 180 arrive and 90 are read in 45 s.
    case_of(
        "too slow",
        each_5_s(rising(20, 20), rising(10, 10), oldest_s=20),
        WARN,
        LagRule.LAG_NEVER_FELL,
        cause=LagCause.TOO_SLOW,
        arrival_rate=4.0,
        consume_rate=2.0,
        eta_s=None,
        eta_reason=EtaReason.FALLS_BEHIND,
    ),
    # Burrow#223. A lag of 200 that stands, at 1000 messages a second: the oldest unread is a fifth of a second old.
    case_of(
        "a trivial lag",
        each_5_s(rising(5_200, 5_000), rising(5_000, 5_000), oldest_s=49.8),
        OK,
        LagRule.YOUNG_LAG,
        lag_s=0.2,
    ),
    # Lags 100, 90, ... 10; 90 arrive and 180 are read in 45 s; 10 more take 10 * 45 / (180 - 90) = 5 s.
    case_of(
        "catching up",
        each_5_s(rising(110, 10), rising(10, 20), oldest_s=30),
        OK,
        LagRule.LAG_FELL,
        cause=LagCause.CATCHING_UP,
        lag_messages=10,
        eta_s=5.0,
        eta_reason=None,
    ),
    # Four looks of ten: less than half of the window.
    case_of(
        "a short history",
        each_5_s(rising(10, 10, 4), [0] * 4, first_s=35, oldest_s=34),
        UNKNOWN,
        LagRule.SHORT_HISTORY,
        looks=4,
        lag_messages=40,
        lag_s=16.0,
        arrival_rate=2.0,
    ),
    case_of(
        "one record",
        [seen(50, 9, 4)],
        UNKNOWN,
        LagRule.SHORT_HISTORY,
        looks=1,
        arrival_rate=None,
        eta_reason=EtaReason.NO_RATES,
    ),
    # A full round comes each 60 s: 121 s without a record, and it is not known any more.
    case_of(
        "silent",
        [seen(-71, 10, 4, oldest_s=-80)],
        UNKNOWN,
        LagRule.SILENT,
        lag_messages=6,
        lag_s=130.0,
        arrival_rate=None,
        looks=0,
    ),
    # 119 s without one: silence says that nothing changed.
    case_of(
        "quiet", [seen(-69, 10, 4, consumers=0)], STOP, LagRule.NO_COMMITS, looks=10, lag_messages=6, arrival_rate=0.0
    ),
    case_of(
        "not reliable",
        [seen(40, 0, 0, kept=False, head_s=None)],
        LagStatus.NOT_KEPT,
        LagRule.NOT_RELIABLE,
        lag_messages=None,
        lag_s=None,
        head=None,
        eta_reason=EtaReason.NOT_KEPT,
    ),
    # Three commits, the first at 40: the consumer has just come.
    case_of(
        "just begun",
        [seen(0, 100, 0, consumers=0), seen(40, 100, 0), seen(45, 100, 10), seen(50, 100, 30)],
        OK,
        LagRule.FEW_COMMITS,
        commits=3,
        cause=LagCause.CATCHING_UP,
        eta_s=70 * 45 / 30,
    ),
]

METHOD_CASES = [
    # Offset 104 stands between offset 99 (second 10) and offset 109 (second 20): 20 - (109 - 104) * 10 / 10 = 15.
    case_of(
        "interpolated",
        [seen(10, 100, 90), seen(20, 110, 95), seen(50, 130, 104, head_s=40)],
        WARN,
        LagRule.LAG_NEVER_FELL,
        lag_s=35.0,
        lag_method=LagMethod.INTERPOLATED,
    ),
    # Offset 80 stands before the first known one, 99: along 99..129 (10 s..40 s) it was 40 - (129 - 80) * 30 / 30 = -9.
    case_of(
        "extrapolated",
        [seen(10, 100, 70), seen(50, 130, 80, head_s=40)],
        WARN,
        LagRule.LAG_NEVER_FELL,
        lag_s=59.0,
        lag_method=LagMethod.EXTRAPOLATED,
    ),
    # Offset 60 is 39 before the first known one, and what is known is 30 long: too far to tell.
    case_of(
        "too far to extrapolate",
        [seen(10, 100, 50), seen(50, 130, 60, head_s=40)],
        WARN,
        LagRule.LAG_NEVER_FELL,
        lag_s=None,
        lag_method=LagMethod.UNKNOWN,
    ),
    case_of(
        "no append time at all",
        [seen(5, 100, 90, head_s=None), seen(50, 110, 95, head_s=None)],
        WARN,
        LagRule.LAG_NEVER_FELL,
        lag_s=None,
        lag_method=LagMethod.UNKNOWN,
    ),
    # Appended after the record was read, by a clock that runs ahead: not -3.
    case_of("a clock ahead", [seen(0, 5, 5), seen(45, 6, 5, oldest_s=53)], OK, LagRule.CAUGHT_UP_ONCE, lag_s=0.0),
]

CAUSE_CASES = [
    # The message at 40 failed too often: nothing is sent any more, though a consumer is there. It is no NOT_SENT.
    case_of(
        "blocked",
        each_5_s([60] * 10, [40] * 10, blocked=1),
        STALL,
        LagRule.POSITION_STILL,
        cause=LagCause.BLOCKED,
        blocked=1,
    ),
    # A consumer would not help: what blocks comes before who is there.
    case_of(
        "blocked and nobody there",
        each_5_s([60] * 10, [40] * 10, blocked=3, consumers=0),
        STOP,
        LagRule.NO_COMMITS,
        cause=LagCause.BLOCKED,
        blocked=3,
    ),
    # It was blocked until 45, and what blocked was skipped: what counts is how it stands now. One message is no trend.
    case_of(
        "no longer blocked",
        [*each_5_s([60] * 9, [40] * 9, blocked=1), seen(50, 60, 41, blocked=0, in_flight=1)],
        WARN,
        LagRule.LAG_NEVER_FELL,
        cause=LagCause.CATCHING_UP,
        blocked=0,
    ),
    # The message at 40 comes back again and again: 6 times in the window, and nothing is acknowledged.
    case_of(
        "poison",
        [*each_5_s([60] * 9, [40] * 9, in_flight=1), seen(50, 60, 40, in_flight=1, nacked=6, redelivered=6)],
        STALL,
        LagRule.POSITION_STILL,
        cause=LagCause.POISON,
        nacked=6,
        redelivered=6,
    ),
    # The broker started anew at 50, so its counters did: 2 within the window, not 2 - 90.
    case_of(
        "counters that began again",
        [
            *each_5_s([60] * 9, [40] * 9, nacked=90, redelivered=90),
            seen(50, 60, 40, start_id="s2", sequence=1, nacked=2, redelivered=2),
        ],
        STALL,
        LagRule.POSITION_STILL,
        nacked=2,
        redelivered=2,
        cause=LagCause.POISON,
    ),
    case_of(
        "back-off",
        each_5_s([60] * 10, [40] * 10, in_flight=1, waiting=4),
        STALL,
        LagRule.POSITION_STILL,
        cause=LagCause.BACK_OFF,
        waiting=4,
    ),
    case_of("nothing is sent", each_5_s([60] * 10, [40] * 10), STALL, LagRule.POSITION_STILL, cause=LagCause.NOT_SENT),
    # The position stands at 40 and others pass it: 9 acknowledged beyond, so it is no STUCK; 18 arrive.
    case_of(
        "passed by others",
        [seen(5 + 5 * n, 60 + 2 * n, 40, beyond=n, in_flight=5) for n in range(10)],
        STALL,
        LagRule.POSITION_STILL,
        cause=LagCause.TOO_SLOW,
        acknowledged=9,
        lag_messages=29,
    ),
]

RETENTION_CASES = [
    # 1000..1200 are kept, 1150 is next: 150 from the edge, and 50 of 200 are unread.
    case_of(
        "within what is kept",
        each_5_s([1_200] * 10, rising(1_060, 10), start_offset=1_000),
        OK,
        LagRule.LAG_FELL,
        retention_margin=150,
        retention_ratio=0.25,
        messages_lost=0,
    ),
    # 1100..1200 are kept, 1050 is next: 50 were deleted unread; (1200 - 1050) / 100.
    case_of(
        "deleted unread",
        [seen(0, 1_200, 1_050, start_offset=1_000), seen(50, 1_200, 1_050, start_offset=1_100)],
        STALL,
        LagRule.POSITION_STILL,
        retention_margin=-50,
        retention_ratio=1.5,
        messages_lost=50,
    ),
]

IDENTITY_CASES = [
    # Deleted at 40 and created again: what was before it counts for nothing, and its offsets begin at 0.
    case_of(
        "a topic created again",
        [*each_5_s(rising(100, 10, 8), rising(50, 10, 8)), seen(45, 3, 0, topic_id="8"), seen(50, 4, 0, topic_id="8")],
        UNKNOWN,
        LagRule.SHORT_HISTORY,
        looks=2,
        head=4,
        arrived=1,
    ),
    case_of(
        "a subscription created again",
        [*each_5_s([100] * 9, [50] * 9), seen(50, 100, 0, subscription_id="71")],
        UNKNOWN,
        LagRule.SHORT_HISTORY,
        looks=1,
    ),
    # The topic moved at 32: the old owner says so at 34, later than the new one's first word. The lag stays 10.
    case_of(
        "moved to another broker",
        [
            *each_5_s(rising(100, 10, 6), rising(90, 10, 6)),
            seen(32, 155, 145, broker_id="2", start_id="s9", sequence=4),
            seen(34, 150, 140, gone=True),
        ],
        WARN,
        LagRule.LAG_NEVER_FELL,
        head=155,
        lag_messages=10,
        looks=10,
    ),
    # A record twice, and out of order: one history.
    case_of(
        "delivered twice",
        [
            *reversed(each_5_s(rising(20, 20), rising(10, 10), oldest_s=20)),
            *each_5_s(rising(20, 20), rising(10, 10), oldest_s=20),
        ],
        WARN,
        LagRule.LAG_NEVER_FELL,
        arrived=180,
        acknowledged=90,
    ),
    # The clock was set back by 30 s between the records 1 and 2: the order is that of the sequence.
    case_of(
        "a clock set back",
        [seen(60, 10, 5, sequence=1), seen(30, 20, 15, sequence=2), seen(50, 30, 30, sequence=3)],
        OK,
        LagRule.ALLOWED_LAG,
        position=30,
        looks=5,
    ),
    # What comes later is not known yet.
    case_of("the future", [seen(40, 9, 9), seen(51, 20, 9)], OK, LagRule.ALLOWED_LAG, head=9),
]

CASES = [*STATUS_CASES, *METHOD_CASES, *CAUSE_CASES, *TOLD_CASES, *RETENTION_CASES, *IDENTITY_CASES]

GONE = [*each_5_s([10] * 9, [5] * 9), seen(50, 10, 5, gone=True)]
"""Ends with the word of its only broker that it is gone."""


def named(observations: Sequence[Observation], number: int) -> list[Observation]:
    """The same history, of a broker of its own."""
    return [
        one._replace(broker_id=f"{one.broker_id}-{number}", start_id=f"{one.start_id}-{number}") for one in observations
    ]
