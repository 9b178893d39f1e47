"""The rules of alerts on labelled incidents: they find them, name their causes, and raise no false alarm."""

import pytest

from danube.model.lag.alerts import AlertPolicy, incidents_of
from danube.model.lag.history import Times, judge_history
from danube.model.lag.records import observations_of
from danube.model.lag.rules import judge
from danube.model.lag.verdict import LagMethod, LagPolicy
from danube.model.records.telemetry import SubscriptionReading, decode_record, encode_record
from spark_analytics.incidents.backtest import RULES, all_kinds, backtest, totals
from spark_analytics.incidents.kinds import BENIGN, INCIDENTS, START_MS, scenario

TUNED_ON = range(10)
JUDGED_ON = range(1_000, 1_050)
"""Seeds that no number in the rules was chosen by."""


def test_there_are_more_than_a_dozen_kinds_and_each_seed_is_the_same_each_time() -> None:
    assert len(INCIDENTS) >= 12
    assert not set(INCIDENTS) & set(BENIGN)
    assert scenario("rewound", 3).records == scenario("rewound", 3).records
    assert scenario("rewound", 3).records != scenario("rewound", 4).records


def test_records_are_those_of_real_brokers() -> None:
    records = scenario("data loss", 1).records
    assert [decode_record(encode_record(*record)) for record in records[::50]] == records[::50]
    assert all(isinstance(reading, SubscriptionReading) for _, reading in records)


@pytest.mark.parametrize("kind", ["consumer gone", "broker down", "periodic consumer", "clock step"])
def test_rules_find_an_incident_and_raise_no_false_alarm(kind: str) -> None:
    score = backtest([kind], [1_000])["ours", kind]
    assert (score.false, score.missed, score.found, score.named) == (0, 0, *[int(kind in INCIDENTS)] * 2)


@pytest.mark.parametrize("kind", ["consumer gone", "poison message", "broker down", "data loss", "consumer slow"])
def test_incidents_have_one_name_and_begin_with_their_evidence_whatever_the_step(kind: str) -> None:
    course = scenario(kind, 1_001)
    (observations,) = observations_of(course.records, course.end_ms)[0].values()
    (label,) = course.labels
    chains = set()
    for step_ms in (30_000, 60_000, 300_000):
        times = Times(first_ms=START_MS + step_ms, last_ms=course.end_ms, step_ms=step_ms, close_ms=30_000)
        verdicts = judge_history(observations, times, LagPolicy())
        (found,) = incidents_of(verdicts, AlertPolicy.for_step(step_ms / 1_000))
        chains.add(found.chain)
        assert abs(found.began_ms - label.began_ms) <= 5_000
        assert (found.messages_lost > 0) is (kind == "data loss")
    assert chains == {"consumer_slow -> data_loss" if kind == "data loss" else label.cause}


@pytest.mark.nightly
@pytest.mark.timeout(3_600)
def test_precision_and_recall_are_at_least_95_percent_on_seeds_that_the_rules_were_not_tuned_on() -> None:
    scores = backtest(all_kinds(), JUDGED_ON)
    found = totals(scores)
    ours = found["ours"]
    assert min(ours.precision, ours.recall) >= 0.95
    for name in RULES:
        if name != "ours":
            assert found[name].precision < ours.precision
            assert found[name].recall < ours.recall
    named = {kind: scores["ours", kind].named for kind in INCIDENTS}
    assert all(count >= 0.9 * len(JUDGED_ON) for count in named.values()), named


@pytest.mark.parametrize("kind", ["idle", "batch producer", "data loss"])
def test_time_lag_is_within_1_percent_of_the_truth_on_idle_bursty_and_trimmed_topics(kind: str) -> None:
    course = scenario(kind, 5)
    (observations,) = observations_of(course.records, course.end_ms)[0].values()
    judged = 0
    for at_ms in range(START_MS + 60_000, course.end_ms, 65_000):
        verdict = judge(observations, at_ms, LagPolicy())
        assert verdict is not None
        if verdict.lag_messages:
            assert verdict.lag_method is LagMethod.MEASURED
            assert verdict.lag_s == pytest.approx(course.true_lag_s["/default/orders", at_ms], rel=0.01)
            judged += 1
    assert judged > (5 if kind == "data loss" else 0)
