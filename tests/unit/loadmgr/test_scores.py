"""Scores and imbalance, by cases worked out by hand."""

import math

import pytest

from danube.loadmgr.load import BrokerLoad, TopicLoad, capacity_of, demands_of, own_shares, plausible
from danube.loadmgr.score import Band, Strategy, imbalance_of, score_of, status_of
from danube.model.limits.balance import OWN_CORES


@pytest.mark.parametrize(
    ("scores", "cv", "band"),
    [
        ([], 0.0, Band.WELL_BALANCED),
        ([50.0], 0.0, Band.WELL_BALANCED),
        ([0.0, 0.0], 0.0, Band.WELL_BALANCED),
        ([50.0, 50.0], 0.0, Band.WELL_BALANCED),
        ([60.0, 40.0], 0.2, Band.BALANCED),
        ([65.0, 35.0], 0.3, Band.IMBALANCED),
        ([90.0, 10.0], 0.8, Band.SEVERE),
        ([30.0, 60.0, 90.0], math.sqrt(600) / 60, Band.SEVERE),
    ],
)
def test_the_imbalance_is_the_deviation_of_the_scores_by_their_mean(scores: list[float], cv: float, band: Band) -> None:
    found = imbalance_of(scores)
    assert found.cv == pytest.approx(cv)
    assert found.band is band


def test_the_peak_is_compared_with_the_average() -> None:
    assert imbalance_of([30.0, 60.0, 90.0]).peak_to_average == 1.5
    assert imbalance_of([]).peak_to_average == 1.0


@pytest.mark.parametrize(
    ("strategy", "score"), [(Strategy.FAIR, 10.0), (Strategy.BALANCED, 70.1), (Strategy.WEIGHTED_LOAD, 31.6)]
)
def test_a_broker_is_scored_by_its_topics_its_busiest_resource_or_all_of_them(strategy: Strategy, score: float) -> None:
    assert score_of((0.2, 0.9, 0.1, 0.7), 10, strategy) == pytest.approx(score)


def test_brokers_far_from_the_mean_are_told() -> None:
    assert status_of({1: 90.0, 2: 50.0, 3: 10.0}) == {1: "overloaded", 2: "normal", 3: "underloaded"}
    assert set(status_of({1: 50.0, 2: 52.0}).values()) == {"normal"}


def test_the_cpu_of_a_broker_is_shared_out_by_the_work_of_its_topics() -> None:
    topics = (
        TopicLoad(topic="/a/x", messages_per_s=3_000, bytes_per_s=0, stored_bytes=10, producers=1, consumers=2),
        TopicLoad(topic="/a/y", messages_per_s=0, bytes_per_s=4_096_000),
    )
    report = BrokerLoad(broker_id=1, measured_ms=0, cores=2, cpu=0.2, disk_bytes=100, disk_used_bytes=50, topics=topics)
    demands = demands_of(report, carries_logs=True)
    assert demands["/a/x"].cores == pytest.approx((0.4 - OWN_CORES) * 0.75)
    assert demands["/a/y"].cores == pytest.approx((0.4 - OWN_CORES) * 0.25)
    assert (demands["/a/x"].clients, demands["/a/x"].carried_bytes) == (3, 10)
    assert own_shares(report, demands) == pytest.approx((OWN_CORES / 2, 0.0, 0.0, 0.4))
    assert demands["/a/x"].shares(capacity_of(report)) == pytest.approx(((0.2 - OWN_CORES / 2) * 0.75, 0.0, 0.0, 0.1))


def test_a_broker_that_is_busy_with_itself_does_not_blame_its_topics() -> None:
    report = BrokerLoad(broker_id=1, measured_ms=0, cpu=0.9, topics=(TopicLoad(topic="/a/x", messages_per_s=1),))
    assert demands_of(report, carries_logs=False)["/a/x"].cores <= 0.001


@pytest.mark.parametrize("absurd", [-1.0, math.nan, math.inf, 1e18])
def test_numbers_that_cannot_be_count_as_nothing(absurd: float) -> None:
    topic = TopicLoad(topic="/a/x", messages_per_s=absurd, bytes_per_s=absurd)
    report = plausible(
        BrokerLoad(broker_id=1, measured_ms=0, cores=absurd, cpu=absurd, network_bytes_per_s=absurd, topics=(topic,))
    )
    assert (report.cores, report.cpu, report.topics[0].cost) == (1.0, 0.0, 0.0)
    assert own_shares(report, demands_of(report, carries_logs=True)) == (0.0, 0.0, 0.0, 0.0)
