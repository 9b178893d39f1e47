"""The analysis of the balance takes what Spark published, with its age, and says so where there is nothing to take."""

from danube.admin.operations.cluster.balance import ANALYZE_CLUSTER_BALANCE, AnalysisResult, AnalyzeParams
from danube.admin.operations.operation import Call
from danube.model.plans.plan import Caller, Face
from danube.model.records.analytics import ANALYTICS_TOPIC, Row, RunWriter, encode_record
from danube.runtime.clock import SystemClock
from tests.faces.memory_gateway import MemoryGateway
from tests.faces.seeded import seeded_gateway

SUMMARY: Row = {
    "verdict": "planned",
    "summary": "Move 1 topic: the imbalance falls from 0.75 to 0.11.",
    "advice": "",
    "cv_before": 0.75,
    "cv_after": 0.11,
    "percentile": 0.95,
    "judged_moments": 300,
    "paying_moments": 40,
    "paying_hours": "09:00, 10:00",
    "span_s": 604_800.0,
}
MOVE: Row = {"topic": "/default/clicks", "source": "1", "target": "2", "reason": "Broker 1 is busy."}


def publish(gateway: MemoryGateway, run_id: str, summary: Row, age_s: int) -> None:
    now_ms = gateway.clock.now_ms()
    writer = RunWriter(run_id=run_id, attempt="a", job="balance")
    tables: dict[str, list[Row]] = {"summary": [summary], "moves": [MOVE], "hot_topics": [{"topic": "/default/clicks"}]}
    records = [
        writer.started(now_ms, as_of_ms=now_ms - age_s * 1_000, time_limit_s=60, window={}),
        *writer.result(now_ms, tables, totals={}, window={}),
    ]
    gateway.publish_system(ANALYTICS_TOPIC, *map(encode_record, records))


async def analysis(gateway: MemoryGateway, params: AnalyzeParams) -> AnalysisResult:
    work = ANALYZE_CLUSTER_BALANCE.run
    assert work is not None
    return await work(Call(gateway=gateway, caller=Caller(who="me@here", face=Face.CLI), clock=gateway.clock), params)


async def test_a_published_result_is_told_with_its_age() -> None:
    gateway = seeded_gateway(SystemClock())
    publish(gateway, "week", SUMMARY, age_s=7_200)
    found = await analysis(gateway, AnalyzeParams())
    assert found.source.startswith("spark, run week, 2 h")
    assert "paid at 40 of 300 moments, most often at 09:00, 10:00 UTC" in found.why[0]
    assert found.what_to_do[0] == f"For the 95 % load of that time: {SUMMARY['summary']}"
    assert found.over_time is not None
    assert [move.topic for move in found.over_time.moves] == ["/default/clicks"]


async def test_the_answer_is_live_without_a_sound_result_for_what_is_imagined_and_when_asked_for() -> None:
    gateway = seeded_gateway(SystemClock())
    assert (await analysis(gateway, AnalyzeParams())).source.startswith("live: no result")
    for name, value in (("cv_before", "1"), ("summary", None), ("percentile", -1)):
        publish(gateway, f"bad-{name}", {**SUMMARY, name: value}, age_s=1)
    assert (await analysis(gateway, AnalyzeParams())).source.startswith("live: no result")
    publish(gateway, "week", SUMMARY, age_s=60)
    assert (await analysis(gateway, AnalyzeParams())).over_time is not None
    for params in (AnalyzeParams(source="live"), AnalyzeParams(extra_brokers=1)):
        found = await analysis(gateway, params)
        assert (found.over_time, found.source) == (None, "live, from the load reports of the brokers")
