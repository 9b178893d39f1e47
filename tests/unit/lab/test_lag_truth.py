"""Lag verdicts beside the truth: real clients of one broker, and what the live analysis and the job say of them."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache

import pytest

from danube.model.lag.alerts import AlertPolicy, incidents_of
from danube.model.lag.evidence import evidence_of
from danube.model.lag.history import Times, judge_history
from danube.model.lag.records import observations_of
from danube.model.lag.verdict import LagPolicy
from lab.lag.__main__ import DOCUMENT
from lab.lag.course import Played, play
from lab.lag.courses import COURSES
from lab.lag.judge import numbers_off, rates_off, score_of
from lab.lag.situations import END_S, HOURLY_READS_S, HOURLY_S, TURN_S
from lab.lag.table import table_of
from lab.lag.truth import GRACE_S

FACES = ("live", "job")
AT_REST = "at rest"
AT_NIGHT = {*COURSES} - {AT_REST}
"""Too long for each day: half a minute is what the situations at rest take."""
CASES = [
    (course, one.name, face)
    for course, each in COURSES.items()
    for one in each.situations
    for face in (FACES if not each.skew_s else FACES[:1])  # a job goes by the broker's clock alone
]
AT_NIGHT_S = 600
pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("lag")]
RATES_WITHIN = 0.02
BEGINS_WITHIN_MS = 6_000
"""A round of telemetry, and a message or two."""
Courses = Callable[[str], Mapping[str, Played]]


@pytest.fixture(scope="module")
def course_of(tmp_path_factory: pytest.TempPathFactory) -> Courses:
    """What was played of a course; each is played once."""

    @cache
    def played(name: str) -> Mapping[str, Played]:
        return asyncio.run(play(tmp_path_factory.mktemp("lag"), COURSES[name]))

    return played


@pytest.fixture
def played(course_of: Courses) -> Mapping[str, Played]:
    return course_of(AT_REST)


@pytest.mark.parametrize(
    ("course", "name", "face"),
    [
        pytest.param(
            *case,
            marks=[
                *((pytest.mark.nightly, pytest.mark.timeout(AT_NIGHT_S)) if case[0] in AT_NIGHT else ()),
            ],
            id=", ".join(case),
        )
        for case in CASES
    ],
)
def test_verdict_is_as_the_truth_that_clients_staged(course_of: Courses, course: str, name: str, face: str) -> None:
    found = course_of(course)[name]
    looks = found.looks(face)
    score = score_of(looks, found.situation.truth)
    assert (score.wrong, score.precision, score.recall, score.flaps) == ((), 1.0, 1.0, 0)
    assert score.delay_s is not None
    assert score.delay_s <= GRACE_S
    assert [*numbers_off(looks, found.ledger)] == []


@pytest.mark.parametrize("name", [one.name for one in COURSES[AT_REST].situations if one.is_steady])
@pytest.mark.parametrize("face", FACES)
def test_rates_are_those_of_the_clients(played: Mapping[str, Played], name: str, face: str) -> None:
    found = played[name]
    assert [*rates_off(found.looks(face), found.ledger, RATES_WITHIN)] == []


def test_table_of_the_document_is_what_the_command_writes(played: Mapping[str, Played]) -> None:
    assert table_of(played) in DOCUMENT.read_text(), "python -m lab.lag --write"


def test_redeliveries_are_counted_and_a_slow_consumer_works_on_no_copies(played: Mapping[str, Played]) -> None:
    slow, storm = (played[name].job[-1].verdict for name in ("small prefetch", "redelivery storm"))
    assert slow is not None
    assert storm is not None
    assert (slow.redelivered, slow.nacked, slow.timed_out) == (0, 0, 0)
    assert storm.nacked is not None
    assert storm.nacked == pytest.approx(storm.redelivered, abs=8)  # a batch
    assert storm.nacked == pytest.approx(storm.arrived, abs=8)


def test_each_of_two_that_hang_is_named_with_what_it_has(played: Mapping[str, Played]) -> None:
    for face in FACES:
        found = played["two dead of a group"].looks(face)[-1].verdict
        assert found is not None
        told = evidence_of(found, LagPolicy(), 0)
        assert all(f"{name} at memory" in told for name in ("one", "two"))
        assert "three" not in told


@pytest.mark.nightly
def test_rates_go_by_the_clock_of_the_broker(course_of: Courses) -> None:
    for found in course_of("the clock is ahead").values():
        assert [*rates_off(found.live, found.ledger, RATES_WITHIN)] == []


@pytest.mark.parametrize(
    ("name", "chain", "consumer"),
    [
        ("gone", "consumer_gone", None),
        ("hung consumer", "consumer_stuck", "reader at memory"),
        ("one dead of a group", "consumer_stuck", "one at memory"),
        ("poison", "poison_message", None),
        ("blocked", "blocked", None),
        ("too slow", "consumer_slow", None),
        ("healthy", None, None),
    ],
)
@pytest.mark.parametrize("step_s", [10, 30, 60])
def test_an_incident_begins_with_its_evidence_and_has_one_name_whatever_the_step(
    played: Mapping[str, Played], name: str, chain: str | None, consumer: str | None, step_s: int
) -> None:
    found = played[name]
    (observations,) = observations_of(found.telemetry, found.began_ms + 1_000 * round(END_S))[0].values()
    first_ms, last_ms = found.began_ms + 1_000 * step_s, found.began_ms + 1_000 * round(END_S)
    times = Times(first_ms=first_ms, last_ms=last_ms, step_ms=1_000 * step_s, close_ms=30_000)
    policy = replace(AlertPolicy.for_step(step_s), known_s=60.0, burst_factor=3.0)  # the course is short
    incidents = list(incidents_of(judge_history(observations, times, LagPolicy()), policy))
    named = [(one.chain, one.consumer and one.consumer.partition(":")[0]) for one in incidents]
    assert named == ([(chain, consumer)] if chain else [])
    assert all(abs(one.began_ms - found.began_ms - 1_000 * TURN_S) < BEGINS_WITHIN_MS for one in incidents)


@pytest.mark.nightly
def test_topics_that_move_are_told_of_by_both_brokers(course_of: Courses) -> None:
    for found in course_of("topics move").values():
        assert len({stamp.broker_id for stamp, _ in found.telemetry}) == 2
        assert found.job[0].verdict is not None
        assert found.job[-1].verdict is not None
        assert found.job[0].verdict.broker_id != found.job[-1].verdict.broker_id


@pytest.mark.nightly
@pytest.mark.timeout(AT_NIGHT_S)
def test_an_hourly_job_is_no_incident_once_its_hours_are_known(course_of: Courses) -> None:
    found = course_of("an hourly job")["hourly job"]
    end_ms = found.began_ms + 1_000 * round(COURSES["an hourly job"].end_s)
    (observations,) = observations_of(found.telemetry, end_ms)[0].values()
    times = Times(first_ms=found.began_ms + 60_000, last_ms=end_ms, step_ms=60_000, close_ms=30_000)
    incidents = incidents_of(judge_history(observations, times, LagPolicy()), AlertPolicy.for_step(60))
    began_s = [(one.chain, round((one.began_ms - found.began_ms) / 1_000)) for one in incidents]
    before = [0.0, *(at_s + HOURLY_READS_S for at_s in HOURLY_S[:2])]
    assert [chain for chain, _ in began_s] == ["consumer_gone"] * 3
    assert [at_s for _, at_s in began_s] == pytest.approx(before, abs=60.0)  # a step
