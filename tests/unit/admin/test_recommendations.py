"""Recommendations: each trouble with its evidence, since when, how sure, its meaning, and the next call."""

from dataclasses import replace

import pytest

from danube.admin.access import Guard
from danube.admin.execution import Session, execute
from danube.admin.operations import BY_NAME
from danube.admin.operations.analytics.lag import LagGroupRow, LagReport
from danube.admin.operations.analytics.recommendations import of_checks, of_groups, of_topics
from danube.admin.operations.analytics.troubles import CERTIFICATE, of_broker, of_connections, of_retention, of_states
from danube.admin.operations.cluster.health import Check, CheckStatus
from danube.admin.operations.operation import Call
from danube.admin.present import view_of
from danube.model.calls.admin import UNREACHABLE, BrokerState
from danube.model.calls.inspection import MetricSample
from danube.model.calls.positions import Connection
from danube.model.errors import TopicNotServedError
from danube.model.plans.plan import Caller, Face
from danube.model.policies import Limits, PoliciesView
from danube.model.topic import TopicName
from danube.testing.simulated.clock import SimClock
from tests.faces.seeded import EVENTS, ORDERS, seeded_gateway

_NOW_MS = 1_750_000_000_000


def group(**changes: object) -> LagGroupRow:
    plain = {
        "status": "OK", "topic": "/default/t", "subscription": "s", "lag_messages": 0, "lag_s": 0.0, "cause": None,
        "lag_method": "measured", "evidence": "fine", "retention_ratio": None, "worst_partition": "/default/t",
    }  # fmt: skip
    return LagGroupRow.model_construct(**{**plain, **changes})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("changes", "severity", "next_call"),
    [
        ({"status": "STOP", "cause": "nobody_reads"}, "critical", ("describe_topic", {"topic": "/default/t"})),
        ({"status": "WARN", "cause": "too_slow"}, "warning", ("describe_topic", {"topic": "/default/t"})),
        ({"status": "WARN"}, "warning", ("describe_topic", {"topic": "/default/t"})),
        (
            {"status": "STALL", "cause": "blocked", "worst_partition": "/default/t-part-1"},
            "critical",
            ("retry_blocked", {"topic": "/default/t-part-1", "subscription": "s"}),
        ),
        ({"retention_ratio": 1.5}, "critical", ("get_topic_policies", {"topic": "/default/t"})),
    ],
)
def test_a_group_in_trouble_names_the_next_call_which_takes_its_arguments(
    changes: dict[str, object], severity: str, next_call: tuple[str, dict[str, str]]
) -> None:
    (found,) = of_groups([group(lag_messages=1_234, lag_s=90.0, **changes)], _NOW_MS)
    assert (found.severity, found.next_tool, found.next_arguments) == (severity, *next_call)
    assert found.since_ms == _NOW_MS - 90_000
    assert "1,234 unread" in found.seen
    BY_NAME[found.next_tool].params.model_validate(found.next_arguments)


def test_an_age_that_is_guessed_makes_it_less_sure() -> None:
    methods = ("measured", "interpolated", "extrapolated", "unknown")
    found = of_groups([group(status="STOP", lag_method=each) for each in methods], _NOW_MS)
    assert [each.confidence for each in found] == ["high", "medium", "low", "low"]


def test_nothing_is_recommended_where_nothing_is_wrong() -> None:
    assert of_groups([group(), group(status="UNKNOWN"), group(status="NOT_KEPT")], _NOW_MS) == []
    assert of_checks([Check(name="leader", status=CheckStatus.OK, detail="broker 1 leads")]) == []


def test_a_check_that_is_not_ok_is_told_with_its_detail_and_the_next_call() -> None:
    (found,) = of_checks([Check(name="agreement", status=CheckStatus.WARNING, detail="1 of 3 members are away")])
    assert (found.severity, found.next_tool, found.seen) == ("warning", "cluster_status", "1 of 3 members are away")


# Of brokers, retention and connections

_DAY_MS = 86_400_000
_LOW = {"danube_storage_disk_level": 1}


def metric(name: str, value: float) -> MetricSample:
    return MetricSample(name=name, value=value)


@pytest.mark.parametrize(
    ("metrics", "severity", "subject", "next_tool", "seen"),
    [
        ({**_LOW, "danube_storage_disk_free_bytes": 2**30}, "warning", "disk", "get_metrics", "1.0 GiB free"),
        ({"danube_storage_disk_level": 2}, "critical", "disk", "get_metrics", "little room"),
        ({"danube_journal_stopped": 1}, "critical", "disk", "get_broker_logs", "stopped"),
        ({"danube_storage_refused_topics": 2}, "critical", "topics", "get_broker_logs", "2 topics"),
        ({"danube_storage_quarantined_topics": 1}, "warning", "topics", "get_broker_logs", "1 topic"),
        ({CERTIFICATE: (_NOW_MS + 29 * _DAY_MS) / 1_000}, "warning", "certificate", "get_metrics", "void in 29 d"),
        ({CERTIFICATE: (_NOW_MS + 2 * _DAY_MS) / 1_000}, "critical", "certificate", "get_metrics", "void in 2 d"),
        ({CERTIFICATE: (_NOW_MS - _DAY_MS) / 1_000}, "critical", "certificate", "get_metrics", "void since 2025-06-14"),
    ],
)  # fmt: skip
def test_a_broker_in_trouble_is_told_by_its_metrics(
    metrics: dict[str, float], severity: str, subject: str, next_tool: str, seen: str
) -> None:
    (found,) = of_broker("7", [metric(*each) for each in metrics.items()], _NOW_MS)
    assert (found.severity, found.subject, found.next_tool) == (severity, f"{subject} of broker 7", next_tool)
    assert seen in found.seen
    assert found.next_arguments["broker_id"] == "7"
    BY_NAME[found.next_tool].params.model_validate(found.next_arguments)
    if subject == "certificate":
        assert found.since_ms is not None
        assert found.since_ms <= _NOW_MS


def test_a_sound_broker_needs_nothing() -> None:
    far = metric(CERTIFICATE, (_NOW_MS + 90 * _DAY_MS) / 1_000)
    assert (
        of_broker("7", [far, metric("danube_storage_disk_level", 0), metric("danube_journal_stopped", 0)], _NOW_MS)
        == []
    )


def test_a_missing_broker_is_told_with_the_time_it_was_last_seen() -> None:
    states = [
        BrokerState(broker_id="1", status="active", topics=3),
        BrokerState(broker_id="2", status=UNREACHABLE, topics=4, last_seen_ms=_NOW_MS - 90_000),
        BrokerState(broker_id="0", status=UNREACHABLE, topics=1),
    ]
    (found,) = of_states(states, _NOW_MS)
    assert (found.severity, found.subject, found.since_ms) == ("critical", "broker 2", _NOW_MS - 90_000)
    assert found.seen == "unreachable for 1 m 30 s; 4 topics"
    BY_NAME[found.next_tool].params.model_validate(found.next_arguments)


@pytest.mark.parametrize(
    ("lag_s", "drops", "severity", "due"),
    [
        (85_000, 1, "critical", "due in 23 m 20 s"),
        (72_000, 1, "warning", "due in 4 h"),
        (90_000, 1, "critical", "due since 1 h"),
    ],
)  # fmt: skip
def test_the_deadline_of_retention_is_told_before_it_comes(lag_s: float, drops: int, severity: str, due: str) -> None:
    limits = Limits(retention_time_s=86_400, retention_drops_unread=drops)
    behind = group(lag_s=lag_s, retention_ratio=1.0)
    (found,) = of_retention("/default/t", behind, limits, _NOW_MS)
    assert found.severity == severity
    assert due in found.meaning
    BY_NAME[found.next_tool].params.model_validate(found.next_arguments)
    for harmless in (Limits(retention_time_s=86_400), Limits(retention_drops_unread=1), Limits()):
        assert of_retention("/default/t", behind, harmless, _NOW_MS) == []
    assert of_retention("/default/t", group(lag_s=60.0), limits, _NOW_MS) == []


def test_what_retention_by_size_may_delete_unread_is_told_where_it_deletes_unread_messages() -> None:
    limits = Limits(retention_bytes=1 << 20, retention_drops_unread=1)
    (found,) = of_retention("/default/t", group(retention_ratio=0.9), limits, _NOW_MS)
    assert (found.severity, found.next_tool) == ("warning", "get_topic_policies")
    assert found.seen == "90 % of the messages that are kept are unread; 1.0 MiB are kept, unread ones too"
    assert of_retention("/default/t", group(retention_ratio=0.5), limits, _NOW_MS) == []
    assert of_retention("/default/t", group(retention_ratio=1.0), Limits(retention_bytes=1 << 20), _NOW_MS) == []


def test_a_new_topic_that_nobody_has_read_is_in_no_danger() -> None:
    assert of_groups([group(retention_ratio=1.0)], _NOW_MS) == []


def test_clients_that_fight_for_a_place_are_told_with_their_name() -> None:
    calm = Connection(topic=TopicName("default", "t"), client_id=1, name="a", subscription="s", takeovers=1)
    fighting = replace(calm, client_id=2, name="b", takeovers=5, rival="10.0.0.7")
    (found,) = of_connections("/default/t", [calm, fighting])
    assert found.seen == "'b': 5 takeovers and 0 waits, the last one by 10.0.0.7"
    BY_NAME[found.next_tool].params.model_validate(found.next_arguments)


async def test_all_of_it_stands_in_the_answer_worst_first_and_as_commands_for_people() -> None:
    gateway = seeded_gateway(SimClock(start_ms=_NOW_MS))
    gateway.samples["1"] = [metric("danube_storage_disk_level", 1), metric(CERTIFICATE, _NOW_MS / 1_000 - 1)]
    operation = BY_NAME["get_recommendations"]
    session = Session(gateway=gateway, caller=Caller(who="ada", face=Face.CLI), clock=gateway.clock, guard=Guard())
    answer = await execute(session, operation, operation.params())
    shown = view_of(operation, answer).tables[0]
    assert shown.rows[0][:2] == ("critical", "certificate of broker 1")
    assert f"danube-admin cluster metrics --metric {CERTIFICATE} --broker-id 1" in shown.rows[0]
    assert any("disk of broker 1" in row for row in shown.rows)
    assert "get_metrics" in view_of(operation, answer, tools=True).tables[0].rows[0]


async def test_a_topic_that_nobody_serves_is_named_and_hides_no_trouble_of_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    gateway = seeded_gateway(SimClock(start_ms=_NOW_MS))
    policies, lost = gateway.topic_policies, "it is assigned to broker 2, which does not run at the moment: try again"
    asked = []

    async def refuse_one(topic: TopicName) -> PoliciesView:
        asked.append(topic)
        if topic == EVENTS:
            raise TopicNotServedError(lost)
        return await policies(topic)

    monkeypatch.setattr(gateway, "topic_policies", refuse_one)
    call = Call(gateway=gateway, clock=gateway.clock, caller=Caller(who="ada", face=Face.CLI))
    not_judged = list[str]()
    groups = [group(topic=str(each)) for each in (EVENTS, ORDERS)]
    await of_topics(call, LagReport.model_construct(groups=groups, as_of_ms=_NOW_MS), not_judged)
    assert not_judged == [f"{EVENTS}: {lost}"]
    assert asked == [EVENTS, ORDERS]
