"""Numbers of telemetry as a cluster of the load manager: one definition, a table of hand-worked cases."""

import pytest

from danube.loadmgr.goal import Goal
from danube.loadmgr.load import TopicLoad
from danube.loadmgr.planner import Verdict
from spark_analytics.jobs.balance_moments import BrokerNumbers, TopicNumbers, judge_moment, proposal_rows


def topic(broker: str, name: str, rate: float) -> TopicNumbers:
    load = TopicLoad(topic=f"/default/{name}", messages_per_s=rate, producers=1, consumers=1)
    return TopicNumbers(broker_id=broker, partition_base="", load=load)


BROKERS = [BrokerNumbers(broker_id="1", cores_used=0.6), BrokerNumbers(broker_id="2", cores_used=0.2)]
TOPICS = [topic("1", "a", 3_000), topic("1", "b", 1_000), topic("1", "c", 2_000), topic("2", "d", 2_000)]


def test_scores_and_imbalance_are_those_worked_by_hand() -> None:
    """Broker 1 scores 100 * 0.6 + 3 * 0.01, broker 2 scores 100 * 0.2 + 0.01."""
    row = judge_moment(BROKERS, TOPICS, Goal())
    mean = (60.03 + 20.01) / 2
    assert row["cv"] == pytest.approx((60.03 - mean) / mean)
    assert row["peak_to_average"] == pytest.approx(60.03 / mean)
    assert (row["busiest_broker"], row["busiest_resource"], row["band"]) == ("1", "cpu", "severely imbalanced")
    assert row["cause"] == "CPU 60 %, of which /default/a 28 %"


def test_the_proposal_moves_what_evens_the_load_and_says_why() -> None:
    summary, moves = proposal_rows(BROKERS, TOPICS, Goal())
    assert (summary["verdict"], [(move["topic"], move["target"]) for move in moves]) == (
        Verdict.PLANNED,
        [("/default/c", "2")],
    )
    assert "scores 60 to 41 and 20 to 39" in moves[0]["reason"]


def test_numbers_that_are_unknown_or_absurd_do_no_harm() -> None:
    rows = [
        {"broker_id": "x", "cores_used": float("nan")},
        {"broker_id": "2", "cores_used": -1e30, "disk_free_bytes": None},
    ]
    brokers = [BrokerNumbers.of(row) for row in rows]
    row = judge_moment(brokers, [topic("9", "lost", 5.0)], Goal())
    assert (row["cv"], row["topics"], row["brokers"]) == (0.0, 0, 2)
    assert judge_moment([], [], Goal())["verdict"] == Verdict.ALONE
