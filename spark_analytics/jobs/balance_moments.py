"""One time of a cluster: numbers of telemetry as places and topics of `danube.loadmgr`, and its judgement. Pure."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from danube.loadmgr.cluster_state import ClusterState, Place, PlacedTopic
from danube.loadmgr.explain import cause_of, explain
from danube.loadmgr.goal import Goal
from danube.loadmgr.load import BrokerLoad, TopicLoad, capacity_of, demands_of, own_shares, plausible
from danube.loadmgr.planner import RebalancePlan, plan

Row = dict[str, Any]
MOMENT_SCHEMA = (
    "moment_ms BIGINT, cv DOUBLE, band STRING, peak_to_average DOUBLE, mean_score DOUBLE, highest_score DOUBLE,"
    " busiest_broker STRING, busiest_resource STRING, cause STRING, topics BIGINT, brokers BIGINT, verdict STRING,"
    " moves BIGINT, cv_after DOUBLE, summary STRING"
)
OPTIONAL = {"cores": 1.0, "network_bytes_per_s": 125e6, "memory_bytes": 0}
"""Fields that not every broker publishes, and what stands for them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerNumbers:
    """One broker at one time; what is unknown is what a small machine has."""

    broker_id: str
    cores_used: float
    cores: float = 1.0
    """A broker uses about one core at most, so one is assumed where telemetry does not say more."""
    memory_bytes: int = 0
    rss_bytes: int = 0
    network_bytes_per_s: float = 125e6
    disk_used_bytes: int = 0
    disk_free_bytes: int | None = None

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> "BrokerNumbers":
        """From a row of `broker_loads`."""
        free = row.get("disk_free_bytes")
        return cls(
            broker_id=str(row["broker_id"]),
            cores_used=_known(row.get("cores_used")),
            rss_bytes=int(_known(row.get("rss_bytes"))),
            disk_used_bytes=int(_known(row.get("disk_used_bytes"))),
            disk_free_bytes=None if free is None or math.isnan(free) else int(free),
            **{name: _known(row.get(name)) or default for name, default in OPTIONAL.items()},  # type: ignore[arg-type]
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicNumbers:
    """One topic on one broker at one time."""

    broker_id: str
    partition_base: str
    load: TopicLoad

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> "TopicNumbers":
        """From a row of `topic_loads`."""
        load = TopicLoad(
            topic=str(row["topic"]),
            messages_per_s=_known(row.get("messages_per_s")),
            bytes_per_s=_known(row.get("bytes_per_s")),
            producers=int(_known(row.get("producers"))),
            consumers=int(_known(row.get("consumers"))),
            stored_bytes=int(_known(row.get("stored_bytes"))),
        )
        return cls(broker_id=str(row["broker_id"]), partition_base=row.get("partition_base") or "", load=load)


def cluster_of(
    brokers: Sequence[BrokerNumbers], topics: Sequence[TopicNumbers]
) -> tuple[list[Place], list[PlacedTopic], dict[int, str]]:
    """Places and topics as the planner takes them, and the ids of brokers by their numbers there."""
    numbers = {one.broker_id: _number(one.broker_id, place) for place, one in enumerate(brokers)}
    on: dict[str, list[TopicNumbers]] = {one.broker_id: [] for one in brokers}
    for topic in topics:
        if topic.broker_id in on:
            on[topic.broker_id].append(topic)
    places, placed = [], list[PlacedTopic]()
    for one in brokers:
        report = plausible(_report(one, numbers[one.broker_id], on[one.broker_id]))
        demands = demands_of(report, carries_logs=True)
        places.append(Place(broker_id=report.broker_id, capacity=capacity_of(report), own=own_shares(report, demands)))
        bases = {topic.load.topic: topic.partition_base for topic in on[one.broker_id]}
        placed += [
            PlacedTopic(demand=demand, broker_id=report.broker_id, group=bases[name])
            for name, demand in demands.items()
        ]
    return places, placed, {number: broker_id for broker_id, number in numbers.items()}


def judge_moment(brokers: Sequence[BrokerNumbers], topics: Sequence[TopicNumbers], goal: Goal) -> Row:
    """Imbalance at one time, its busiest broker, and the plan that this time alone would give."""
    places, placed, names = cluster_of(brokers, topics)
    state = ClusterState(places, placed, goal.strategy)
    found, imbalance = plan(places, placed, goal), state.imbalance()
    busiest = max(state.broker_scores().values(), key=lambda one: one.score, default=None)
    return {
        "cv": imbalance.cv,
        "band": str(imbalance.band),
        "peak_to_average": imbalance.peak_to_average,
        "mean_score": imbalance.mean,
        "highest_score": imbalance.highest,
        "busiest_broker": names[busiest.broker_id] if busiest else None,
        "busiest_resource": str(busiest.busiest) if busiest else None,
        "cause": cause_of(busiest, state) if busiest else None,
        "topics": len(placed),
        "brokers": len(places),
        "verdict": str(found.verdict),
        "moves": len(found.moves),
        "cv_after": found.after.cv,
        "summary": explain(found, state).summary,
    }


def proposal_rows(
    brokers: Sequence[BrokerNumbers], topics: Sequence[TopicNumbers], goal: Goal
) -> tuple[Row, list[Row]]:
    """The plan for these loads: its summary, and a row for each move."""
    places, placed, names = cluster_of(brokers, topics)
    state = ClusterState(places, placed, goal.strategy)
    found = plan(places, placed, goal)
    words = explain(found, ClusterState(places, placed, goal.strategy))
    return _summary(found, words.summary, words.advice), [
        {
            "topic": move.topic,
            "source": names[move.source],
            "target": names[move.target],
            "source_score_before": move.source_scores[0],
            "source_score_after": move.source_scores[1],
            "target_score_before": move.target_scores[0],
            "target_score_after": move.target_scores[1],
            "carried_bytes": move.carried_bytes,
            "clients": move.clients,
            "reason": reason,
        }
        for move, reason in zip(found.moves, words.moves, strict=True)
        if state.topics
    ]


def _summary(found: RebalancePlan, summary: str, advice: Sequence[str]) -> Row:
    return {
        "verdict": str(found.verdict),
        "summary": summary,
        "advice": " ".join(advice),
        "cv_before": found.before.cv,
        "cv_after": found.after.cv,
        "moves": len(found.moves),
        "carried_bytes": found.carried_bytes,
        "clients": found.clients,
        "hot_topic": found.hot_topic,
    }


def _report(one: BrokerNumbers, number: int, topics: Sequence[TopicNumbers]) -> BrokerLoad:
    disk_bytes = 0 if one.disk_free_bytes is None else one.disk_used_bytes + one.disk_free_bytes
    return BrokerLoad(
        broker_id=number,
        measured_ms=0,
        cores=one.cores,
        cpu=one.cores_used / one.cores if one.cores > 0 else 0.0,
        memory=one.rss_bytes / one.memory_bytes if one.memory_bytes else 0.0,
        network_bytes_per_s=one.network_bytes_per_s,
        disk_bytes=disk_bytes,
        disk_used_bytes=one.disk_used_bytes,
        topics=tuple(topic.load for topic in topics),
    )


def _number(broker_id: str, place: int) -> int:
    """Ids of brokers are numbers; one that is none gets its place, below zero."""
    return int(broker_id) if broker_id.isdecimal() else -1 - place


def _known(value: float | None) -> float:
    return 0.0 if value is None or math.isnan(value) else value
