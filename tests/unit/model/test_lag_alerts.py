"""Incidents of a subscription: when one begins and ends, its cause, and what is usual."""

from dataclasses import replace

from danube.model.lag.alerts import AlertPolicy, Incident, IncidentCause, incidents_of
from danube.model.lag.seasonal import hour_of_week, usual_lag_s
from danube.model.lag.verdict import LagCause, LagRule, LagStatus, LagVerdict

STEP_MS = 30_000
T0_MS = 1_750_000_000_000
QUIET = LagVerdict(
    status=LagStatus.OK, rule=LagRule.ALLOWED_LAG, consumers=1, lag_messages=0, lag_s=0.0, head=100, position=100,
    start_offset=0, retention_margin=100, messages_lost=0, arrival_rate=5.0, consume_rate=5.0, arrived=225,
)  # fmt: skip


def behind(lag_s: float, **more: object) -> LagVerdict:
    fields = {"status": LagStatus.STOP, "rule": LagRule.NO_COMMITS, "cause": LagCause.NOBODY_READS, **more}
    return replace(QUIET, lag_s=lag_s, lag_messages=round(5 * lag_s), consumers=0, **fields)  # type: ignore[arg-type]


def found(*verdicts: LagVerdict, step_ms: int = STEP_MS) -> list[Incident]:
    timed = [(T0_MS + step_ms * number, one) for number, one in enumerate(verdicts)]
    return list(incidents_of(timed, AlertPolicy.for_step(step_ms / 1_000)))


def test_an_incident_begins_with_its_first_evidence_and_ends_when_the_lag_is_young() -> None:
    rise = [behind(30.0 * number) for number in range(1, 11)]
    (one,) = found(*[QUIET] * 20, *rise, QUIET)
    assert (one.cause, one.peak_lag_s, one.peak_lag_messages) == (IncidentCause.CONSUMER_GONE, 300.0, 1_500)
    assert one.began_ms == T0_MS + STEP_MS * 19  # the oldest unread message is as old as that
    assert one.ended_ms == T0_MS + STEP_MS * 30
    assert "the oldest is 1 m 30 s old; 5.0/s arrive" in one.evidence


def test_a_reader_at_set_times_is_no_incident_from_its_third_visit_on_until_it_is_late() -> None:
    away = [behind(30.0 * number) for number in range(1, 115)]
    hour = [*away, *[QUIET] * 6]
    assert [one.chain for one in found(*[QUIET] * 20, *hour * 6)] == ["consumer_gone"] * 3
    longer = [behind(30.0 * number) for number in range(1, 150)]
    *_, late = found(*[QUIET] * 20, *hour * 6, *longer)
    assert (late.chain, late.ended_ms) == ("consumer_gone", None)
    assert late.began_ms == T0_MS + STEP_MS * (20 + 6 * 120 - 1)


def test_a_consumer_that_leaves_now_and_then_or_reads_most_of_the_time_is_one_each_time() -> None:
    visits = [[*[behind(30.0 * number) for number in range(1, many)], *[QUIET] * 6] for many in (40, 80, 60, 30, 90)]
    assert len(found(*[QUIET] * 20, *(one for visit in visits for one in visit))) == 5
    crashes = [*[behind(30.0 * number) for number in range(1, 15)], *[QUIET] * 100]
    assert len(found(*[QUIET] * 20, *crashes * 5)) == 5


def test_the_peaks_of_an_incident_are_those_of_its_whole_time() -> None:
    rise = [behind(30.0 * number) for number in range(1, 11)]
    few_and_old = replace(behind(600.0), lag_messages=32)
    (one,) = found(*[QUIET] * 20, *rise, few_and_old, QUIET)
    assert (one.peak_lag_s, one.peak_lag_messages) == (600.0, 1_500)


def test_lag_that_is_young_or_usual_or_there_from_the_start_is_none() -> None:
    assert found(*[QUIET] * 20, *[behind(55.0)] * 20) == []
    teeth = [behind(30.0 * number, status=LagStatus.OK) for number in range(8)]
    assert found(*teeth * 6) == []
    assert found(*[behind(500.0)] * 10) == []


def test_one_bad_moment_is_none_and_silence_of_a_broker_is_one_at_once() -> None:
    assert found(*[QUIET] * 20, behind(100.0), QUIET) == []
    silent = replace(QUIET, status=LagStatus.UNKNOWN, rule=LagRule.SILENT)
    silent = replace(silent, observed_ms=T0_MS + STEP_MS * 15)
    (one,) = found(*[QUIET] * 20, silent, silent)
    assert (one.cause, one.began_ms, one.ended_ms) == (IncidentCause.BROKER_DOWN, T0_MS + STEP_MS * 15, None)
    assert "no telemetry for" in one.evidence
    idle = replace(QUIET, arrived=0, arrival_rate=0.0)
    assert found(*[idle] * 20, replace(silent, arrived=None)) == []


def test_the_root_is_the_first_cause_and_the_chain_tells_what_followed() -> None:
    hung = {"status": LagStatus.STALL, "cause": LagCause.STUCK, "silent_offset": 7, "silent_consumer": "c"}
    stuck = [behind(30.0 * number, **hung) for number in range(1, 9)]
    blocked = [behind(30.0 * number, **{**hung, "cause": LagCause.BLOCKED}, blocked=3) for number in range(9, 12)]
    lost = behind(360.0, **hung, blocked=3, messages_lost=40)
    (one,) = found(*[QUIET] * 20, *stuck, *blocked, lost)
    assert (one.cause, one.chain) == (IncidentCause.CONSUMER_STUCK, "consumer_stuck -> blocked -> data_loss")
    assert (one.offset, one.consumer, one.messages_lost) == (7, "c", 40)


def test_a_consumer_that_had_gone_before_the_first_moment_is_told_of() -> None:
    (one,) = found(*[behind(500.0 + 30.0 * number) for number in range(20)])
    assert (one.cause, one.began_ms, one.ended_ms) == (IncidentCause.CONSUMER_GONE, T0_MS - 500_000, None)
    steady = [behind(500.0, status=LagStatus.WARN) for _ in range(40)]
    assert found(*steady) == []


def test_moments_that_are_far_apart_name_the_cause_too() -> None:
    (one,) = found(*[QUIET] * 20, behind(600.0), behind(1_200.0), step_ms=600_000)
    assert (one.chain, one.began_ms) == ("consumer_gone", T0_MS + 19 * 600_000)


def test_what_retention_deletes_while_nobody_has_ever_read_has_its_root() -> None:
    lost = [replace(behind(100.0), messages_lost=10 * number, lost=10) for number in range(1, 5)]
    (one,) = found(behind(50.0), *lost)
    assert (one.chain, one.messages_lost) == ("consumer_gone -> data_loss", 40)


def test_what_was_lost_before_is_not_lost_again() -> None:
    before = replace(QUIET, messages_lost=500, lost=0)
    lost = [replace(behind(30.0 * number), messages_lost=500 + 10 * number, lost=10) for number in range(1, 9)]
    (one,) = found(*[before] * 20, *lost)
    assert (one.chain, one.messages_lost) == ("consumer_gone -> data_loss", 80)


def test_the_deadline_is_when_the_start_of_what_is_kept_reaches_the_position() -> None:
    """10 messages a second are trimmed and none is read; 3,000 are kept below the position at the worst moment."""
    rows = [
        behind(
            30.0 * number,
            start_offset=300 * number,
            position=6_000,
            retention_margin=6_000 - 300 * number,
            consume_rate=0.0,
        )
        for number in range(1, 11)
    ]
    (one,) = found(*[QUIET] * 20, *rows)
    assert one.retention_deadline_s == 300.0


def test_the_usual_lag_of_an_hour_is_the_median_of_its_weeks_and_a_margin() -> None:
    week_ms = 7 * 86_400_000
    peaks = [100.0, 110.0, 120.0]
    verdicts = [(T0_MS + week * week_ms, behind(peak)) for week, peak in enumerate(peaks)]
    assert usual_lag_s(verdicts) == {hour_of_week(T0_MS): 110.0 + 3.5 * 1.4826 * 10.0}
    assert usual_lag_s(verdicts[:2]) == {}
    assert hour_of_week(1_749_427_200_000) == 0  # Monday, 9 June 2025, 00:00 UTC
