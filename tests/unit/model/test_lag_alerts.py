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


def found(*verdicts: LagVerdict) -> list[Incident]:
    timed = [(T0_MS + STEP_MS * number, one) for number, one in enumerate(verdicts)]
    return list(incidents_of(timed, AlertPolicy()))


def test_an_incident_begins_with_the_first_bad_moment_and_ends_when_the_lag_is_young() -> None:
    rise = [behind(30.0 * number) for number in range(1, 11)]
    (one,) = found(*[QUIET] * 20, *rise, QUIET)
    assert (one.cause, one.peak_lag_s, one.peak_lag_messages) == (IncidentCause.CONSUMER_GONE, 300.0, 1_500)
    assert one.began_ms == T0_MS + STEP_MS * 21  # the first lag of 60 s
    assert one.ended_ms == T0_MS + STEP_MS * 30
    assert "the oldest for 90 s, 5.0/s arrive" in one.evidence


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
    (one,) = found(*[QUIET] * 20, silent, silent)
    assert (one.cause, one.ended_ms, one.evidence) == (
        IncidentCause.BROKER_DOWN,
        None,
        "its broker published no telemetry",
    )
    idle = replace(QUIET, arrived=0, arrival_rate=0.0)
    assert found(*[idle] * 20, replace(silent, arrived=None)) == []


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
