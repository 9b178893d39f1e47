"""Cases of what brokers of today tell: what moved the position, why deliveries failed, and who is silent."""

from typing import Any

from danube.model.lag.verdict import EtaReason, LagCause, LagRule, Observation
from danube.model.records.telemetry import SilentConsumer
from tests.unit.model.lag_histories import (
    OK,
    REWIND,
    STALL,
    STOP,
    WARN,
    aged,
    case_of,
    ms,
    rising,
    seen,
)

TELLS: dict[str, Any] = {"acknowledged": 0, "skipped": 0, "expired": 0, "trimmed": 0, "seeks": 0, "timed_out": 0}
"""Numbers that a broker of today tells of a subscription that nothing happened to."""


def told(count: int = 10, **each: Any) -> list[Observation]:
    """A record for each look, `each` with its course over them: a value, or a list of ten."""
    rows = []
    for number in range(count):
        values = {**TELLS, **{name: one[number] if isinstance(one, list) else one for name, one in each.items()}}
        head, position = values.pop("head"), values.pop("position")
        rows.append(seen(5 + 5 * number, head, position, **aged(values, 5 * (number - count + 1))))
    return rows


TOLD_CASES = [
    # Nobody was ever there. Retention moved the position from 0 to 90, ten at a time: that is no reading.
    case_of(
        "retention deletes what nobody reads",
        told(
            head=rising(200, 10), position=rising(0, 10), start_offset=rising(0, 10), trimmed=rising(0, 10), consumers=0
        ),
        STOP,
        LagRule.NO_COMMITS,
        cause=LagCause.DATA_LOSS,
        lost=90,
        messages_lost=90,
        acknowledged=0,
        consume_rate=0.0,
        commit_age_s=None,
        eta_reason=EtaReason.NOTHING_CONSUMED,
    ),
    # 2 a second are read, 4 arrive, and 10 were deleted before they were read: 100 moved, 90 of them read.
    case_of(
        "retention overtakes a slow consumer",
        told(
            head=rising(200, 20),
            position=[*rising(0, 10, 9), 100],
            acknowledged=rising(0, 10),
            trimmed=[0] * 9 + [10],
            start_offset=[0] * 9 + [95],
            oldest_s=2,
        ),
        WARN,
        LagRule.LAG_NEVER_FELL,
        cause=LagCause.DATA_LOSS,
        lost=10,
        acknowledged=90,
        consume_rate=2.0,
    ),
    # It catches up by now, and 5 messages were deleted before it did: OK would hide that.
    case_of(
        "some were deleted on the way",
        told(
            head=200, position=rising(100, 10), acknowledged=[*rising(0, 10, 9), 85], trimmed=[0] * 9 + [5], oldest_s=2
        ),
        WARN,
        LagRule.DELETED_UNREAD,
        cause=LagCause.DATA_LOSS,
        lost=5,
        acknowledged=85,
    ),
    # It reads 10 of 20, so the message that is deleted first is the half of 45 s younger: 100 s / (1 - 0.5).
    case_of(
        "retention will delete unread messages",
        told(
            head=rising(200, 20),
            position=rising(0, 10),
            acknowledged=rising(0, 10),
            retention_deadline_ms=[ms(127.5 + 2.5 * number) for number in range(10)],
            oldest_s=2,
        ),
        WARN,
        LagRule.LAG_NEVER_FELL,
        cause=LagCause.TOO_SLOW,
        lost=0,
        retention_deadline_s=200.0,
    ),
    # Each message times out on one consumer, which answers nothing: silence, and no fault of the message.
    case_of(
        "a consumer hangs",
        told(
            head=rising(60, 1),
            position=40,
            in_flight=[5, 5, 5, 0, 5, 5, 5, 0, 5, 5],
            redelivered=rising(0, 1),
            timed_out=rising(5, 1),
            failures=2,
            failed_offset=40,
            failed_on=1,
            silent=(SilentConsumer("worker-1", "10.0.0.7:5000", ms(-30), 5, 40),),
            oldest_s=-30,
        ),
        STALL,
        LagRule.POSITION_STILL,
        cause=LagCause.STUCK,
    ),
    # The same message timed out on two consumers: it is the message.
    case_of(
        "a message hangs each consumer",
        told(
            head=60,
            position=40,
            consumers=2,
            in_flight=2,
            timed_out=rising(0, 1),
            failures=3,
            failed_offset=40,
            failed_on=2,
            oldest_s=-30,
        ),
        STALL,
        LagRule.POSITION_STILL,
        cause=LagCause.POISON,
    ),
    # It crashes each consumer that gets it, one in 5 s.
    case_of(
        "a message crashes each consumer",
        told(
            head=rising(60, 1),
            position=40,
            disconnected=rising(0, 1),
            failures=3,
            failed_offset=40,
            failed_on=2,
            in_flight=1,
            oldest_s=-30,
        ),
        STALL,
        LagRule.POSITION_STILL,
        cause=LagCause.POISON,
        disconnected=9,
    ),
    # 20 arrive, 20 are refused once each and acknowledged the second time.
    case_of(
        "each message is refused once",
        told(
            head=rising(60, 20),
            position=rising(50, 20),
            acknowledged=rising(0, 20),
            nacked=rising(0, 20),
            redelivered=rising(0, 20),
            in_flight=5,
            failures=1,
            failed_offset=50,
            oldest_s=49,
        ),
        WARN,
        LagRule.REDELIVERED,
        cause=LagCause.STORM,
        nacked=180,
        timed_out=0,
    ),
    # Each was refused once, came again and was acknowledged: nothing waits just now, and the storm goes on.
    case_of(
        "a storm with nothing that waits",
        told(
            head=rising(20, 20),
            position=rising(20, 20),
            acknowledged=rising(0, 20),
            nacked=rising(0, 20),
            redelivered=rising(0, 20),
        ),
        WARN,
        LagRule.REDELIVERED,
        cause=LagCause.STORM,
        nacked=180,
    ),
    # The same, but it ended a while ago.
    case_of(
        "a storm that is over",
        told(
            head=rising(20, 20),
            position=rising(20, 20),
            acknowledged=rising(0, 20),
            nacked=[*rising(0, 30, 6), 150, 150, 150, 150],
            redelivered=[*rising(0, 30, 6), 150, 150, 150, 150],
        ),
        OK,
        LagRule.ALLOWED_LAG,
        cause=None,
        nacked=150,
    ),
    # A burst of 300 came at 40, and 100 of it are read each 5 s: so many wait less than at 40.
    case_of(
        "a burst is read",
        told(
            head=[20] * 7 + [320] * 3,
            position=[20] * 7 + [40, 140, 240],
            acknowledged=[20] * 7 + [40, 140, 240],
            in_flight=5,
            oldest_s=30,
        ),
        OK,
        LagRule.CAUGHT_UP_ONCE,
        cause=LagCause.CATCHING_UP,
    ),
    # Of two consumers one answers nothing since -30; the other acknowledges 10 in 5 s, as much as arrives.
    case_of(
        "one member is dead",
        told(
            head=rising(160, 10),
            position=40,
            beyond=rising(10, 10),
            consumers=2,
            in_flight=10,
            acknowledged=rising(0, 10),
            silent=(SilentConsumer("worker-2", "10.0.0.8:5000", ms(-30), 10, 40),),
            oldest_s=-30,
        ),
        STALL,
        LagRule.POSITION_STILL,
        cause=LagCause.MEMBER_STUCK,
        silent_consumer="worker-2",
        silent_host="10.0.0.8:5000",
        silent_s=80.0,
    ),
    # Two of three answer nothing, since -30 and -10; the third has just been sent something.
    case_of(
        "two members are dead",
        told(
            head=rising(160, 10),
            position=40,
            beyond=rising(10, 10),
            consumers=3,
            in_flight=16,
            acknowledged=rising(0, 10),
            silent=(
                SilentConsumer("worker-2", "10.0.0.8:5000", ms(-30), 10, 50),
                SilentConsumer("worker-3", "10.0.0.9:5000", ms(-10), 5, 40),
                SilentConsumer("worker-1", "10.0.0.7:5000", ms(45), 1, 170),
            ),
            oldest_s=-30,
        ),
        STALL,
        LagRule.POSITION_STILL,
        cause=LagCause.MEMBER_STUCK,
        silent_consumer="worker-2",
        silent_others="worker-3 at 10.0.0.9:5000",
        silent_s=60.0,
        silent_in_flight=15,
        silent_offset=40,
    ),
    # The same, and the position moves on: the messages of the dead one time out and go to the other.
    case_of(
        "one member is dead and what it has goes to others",
        told(
            head=rising(60, 10),
            position=rising(50, 10),
            consumers=2,
            in_flight=10,
            acknowledged=rising(0, 10),
            silent=(SilentConsumer("worker-2", "10.0.0.8:5000", ms(-30), 9, 50),),
            oldest_s=45,
        ),
        WARN,
        LagRule.MEMBER_SILENT,
        cause=LagCause.MEMBER_STUCK,
    ),
    # 10 a second arrive and 5 may be sent. Nothing is in flight when it is looked at.
    case_of(
        "held back by its limit",
        told(head=rising(100, 50), position=rising(50, 25), acknowledged=rising(0, 25), dispatch_limit=5, oldest_s=20),
        WARN,
        LagRule.LAG_NEVER_FELL,
        cause=LagCause.THROTTLED,
        dispatch_limit=5,
    ),
    # A lag of 1,000 that falls by one in the window: it would clear in hours.
    case_of(
        "one message less",
        told(head=1_100, position=[100] * 9 + [101], acknowledged=[0] * 9 + [1], oldest_s=-200),
        WARN,
        LagRule.LAG_NEVER_FELL,
    ),
    # 10 in and 10 out, one in flight and a tenth of a second old: it is read at 2 a second.
    case_of(
        "healthy with one in flight",
        told(head=rising(101, 10), position=rising(100, 10), acknowledged=rising(0, 10), in_flight=1, oldest_s=49.9),
        OK,
        LagRule.YOUNG_LAG,
        cause=None,
        eta_s=0.5,
        eta_reason=None,
    ),
    # A seek to 0 at 30. Since then 100 a look are read and nothing arrives: 1,000 - 400 take 30 s.
    case_of(
        "after a seek",
        told(
            head=1_000,
            position=[990] * 5 + rising(0, 100, 5),
            acknowledged=[0] * 5 + rising(0, 100, 5),
            seeks=[0] * 5 + [1] * 5,
            oldest_s=0,
        ),
        REWIND,
        LagRule.WENT_BACK,
        consume_rate=20.0,
        eta_s=30.0,
    ),
]
