"""View of the balance: who is a place for topics, which topics may move, and the load of each. Pure.

A broker whose load is unknown is left out, with its topics: no plan takes it for idle.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from danube.broker.balance.reporting.reports import ReceivedReport
from danube.loadmgr.assigning import expected_demand
from danube.loadmgr.cluster_state import ClusterState, Place, PlacedTopic
from danube.loadmgr.load import Demand, TopicLoad, capacity_of, demands_of, own_shares
from danube.loadmgr.score import Strategy
from danube.metadata.records.cluster import BrokerDrain
from danube.model.calls.balance import BalanceRule, BrokerPlaceState, RuleKind
from danube.model.limits.balance import DISK_FULL_SHARE
from danube.model.ownership import NOBODY, StorageMode, TopicOwnership
from danube.model.text import time_of
from danube.model.topic import TopicName


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """Everything that a view is made of."""

    topics: Sequence[tuple[TopicName, TopicOwnership]]
    brokers: Mapping[int, BrokerDrain | None]
    """The brokers that run, each with its drain if it has one."""
    reports: Mapping[int, ReceivedReport]
    refused: Mapping[int, str] = field(default_factory=dict)
    """Reasons why reports of brokers were refused."""
    remembered: Mapping[str, Demand] = field(default_factory=dict)
    """Loads of topics as they were measured last, by topic."""
    rules: Sequence[BalanceRule] = ()
    failed: Mapping[int, int] = field(default_factory=dict)
    """Brokers that were lost, or failed to open a topic, a short while ago, and when they get topics again."""
    moved: frozenset[str] = frozenset()
    """Topics that have moved lately, and stay for a while."""
    strategy: Strategy = Strategy.BALANCED
    mode: StorageMode = StorageMode.LOCAL
    now_s: float
    """Monotonic time."""
    now_ms: int
    stale_s: float
    """A report that is older is unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerStatus:
    """A broker, as a place for topics."""

    state: BrokerPlaceState
    report: ReceivedReport | None = None
    is_known: bool = False
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class BalanceView:
    """Load of the cluster at one moment."""

    facts: Facts
    statuses: Mapping[int, BrokerStatus]
    places: Sequence[Place]
    topics: Sequence[PlacedTopic]
    """Topics of brokers whose load is known."""
    loads: Mapping[str, TopicLoad]
    """Measured loads, by topic."""
    ids: Mapping[str, int]
    """Topic ids, by topic."""

    def state(self, strategy: Strategy | None = None) -> ClusterState:
        """The state that planners begin with."""
        return ClusterState(self.places, self.topics, strategy or self.facts.strategy)


def view_of(facts: Facts) -> BalanceView:
    """The view of these facts."""
    statuses = {broker_id: _status_of(broker_id, facts) for broker_id in _broker_ids(facts)}
    fresh = {
        broker_id: one.report.load for broker_id, one in statuses.items() if one.is_known and one.report is not None
    }
    by_reporter = {
        broker_id: demands_of(load, carries_logs=facts.mode is StorageMode.LOCAL) for broker_id, load in fresh.items()
    }
    places = [
        Place(
            broker_id=broker_id,
            capacity=capacity_of(load),
            own=own_shares(load, by_reporter[broker_id]),
            takes_topics=statuses[broker_id].state is BrokerPlaceState.ACTIVE,
            waits_until=time_of(facts.failed[broker_id])
            if statuses[broker_id].state is BrokerPlaceState.FAILED
            else "",
        )
        for broker_id, load in fresh.items()
    ]
    loads = {one.topic: one for load in fresh.values() for one in load.topics}
    known = [demand for demands in by_reporter.values() for demand in demands.values()]
    expected, stays = expected_demand("", known), _Stays(facts, statuses)
    topics = []
    for name, one in facts.topics:
        broker_id = one.broker if one.broker in fresh else one.owner
        if broker_id not in fresh or one.is_pinned:
            continue  # the load of topics that a broker writes itself is that broker's own
        text = str(name)
        own = by_reporter[broker_id].get(text) or facts.remembered.get(text) or replace(expected, topic=text)
        topics.append(
            PlacedTopic(
                demand=own if one.is_reliable else _uncarried(own),
                broker_id=broker_id,
                group=str(one.base or ""),
                stays=stays.reason(name, one),
            )
        )
    ids = {str(name): one.topic_id for name, one in facts.topics}
    return BalanceView(facts=facts, statuses=statuses, places=places, topics=topics, loads=loads, ids=ids)


def _uncarried(demand: Demand) -> Demand:
    return replace(demand, stored_bytes=0, carried_bytes=0)


def _broker_ids(facts: Facts) -> list[int]:
    owners = {one.owner for _, one in facts.topics if not one.is_pinned} - {NOBODY}
    return sorted({*facts.brokers, *owners})


def _status_of(broker_id: int, facts: Facts) -> BrokerStatus:
    report = facts.reports.get(broker_id)
    age_s = facts.now_s - report.received_s if report else None
    note = facts.refused.get(broker_id) or (report.note if report else "")
    is_known = age_s is not None and age_s <= facts.stale_s
    state = BrokerPlaceState.ACTIVE
    if broker_id not in facts.brokers:
        state, is_known = BrokerPlaceState.MISSING, False
        note = f"Broker {broker_id} owns topics and does not run: start it, or remove it."
    elif facts.brokers[broker_id] is not None:
        state = BrokerPlaceState.DRAINED
    elif any(rule.kind is RuleKind.EXCLUDE_BROKER and rule.name == str(broker_id) for rule in facts.rules):
        state = BrokerPlaceState.EXCLUDED
    elif not is_known:
        state = BrokerPlaceState.UNKNOWN
        note = note or _unknown(age_s)
    elif report is not None and (report.load.refuses or _fill(report) >= DISK_FULL_SHARE):
        state = BrokerPlaceState.FULL
        note = note or f"Its disk is {100 * _fill(report):.0f} % full, or takes no messages: make room."
    elif broker_id in facts.failed:
        state = BrokerPlaceState.FAILED
        until = time_of(facts.failed[broker_id])
        note = note or f"It was lost, or failed to open a topic, a short while ago: it gets no topics until {until}."
    return BrokerStatus(state=state, report=report, is_known=is_known, note=note)


def _unknown(age_s: float | None) -> str:
    if age_s is None:
        return "It has not reported its load yet: its load is unknown, and it is left out of plans."
    return f"Its last load report is {age_s:.0f} s old: its load is unknown, and it is left out of plans."


def _fill(report: ReceivedReport) -> float:
    return report.load.disk_used_bytes / report.load.disk_bytes if report.load.disk_bytes else 0.0


class _Stays:
    """Reasons for which topics do not move."""

    def __init__(self, facts: Facts, statuses: Mapping[int, BrokerStatus]) -> None:
        self._facts = facts
        self._statuses = statuses
        self._pins = {rule.name for rule in facts.rules if rule.kind is RuleKind.PIN_TOPIC}
        self._namespaces = {rule.name for rule in facts.rules if rule.kind is RuleKind.EXCLUDE_NAMESPACE}

    def reason(self, name: TopicName, topic: TopicOwnership) -> str:
        """The reason for one topic; empty for none."""
        if not self._pins.isdisjoint({str(name), str(topic.base)}):
            return "it is pinned"
        if name.namespace in self._namespaces:
            return f"the namespace {name.namespace} is excluded"
        if topic.broker != topic.owner:
            return "it is on its way"
        state = self._statuses[topic.owner].state
        if state in {BrokerPlaceState.EXCLUDED, BrokerPlaceState.DRAINED}:
            return f"its broker is {state}"
        return "it has moved lately" if str(name) in self._facts.moved else ""
