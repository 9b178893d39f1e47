"""Results of the other jobs on every face: their tables as text, without the points of plots."""

from danube.admin.operations.analytics.analytics import GET_ANALYTICS_RESULT, GetAnalyticsParams
from danube.admin.operations.operation import Call
from danube.model.plans.plan import Caller, Face
from danube.model.records.analytics import ANALYTICS_TOPIC, AnalyticsJob, Row, RunWriter, encode_record
from danube.runtime.clock import SystemClock
from tests.faces.seeded import seeded_gateway


async def test_tables_of_a_balance_run_are_shown_and_points_are_not() -> None:
    gateway = seeded_gateway(SystemClock())
    now_ms = gateway.clock.now_ms()
    writer = RunWriter(run_id="week", attempt="a", job="balance")
    tables: dict[str, list[Row]] = {
        "summary": [{"summary": "Move 1 topic.", "cv_before": 0.75, "advice": None}],
        "moments": [{"cv": 0.7}],
    }
    totals = {"summary": 1, "moments": 1}
    records = [
        writer.started(now_ms, as_of_ms=now_ms, time_limit_s=60, window={}),
        *writer.result(now_ms + 1, tables, totals=totals, window={}),
    ]
    gateway.publish_system(ANALYTICS_TOPIC, *map(encode_record, records))
    call = Call(gateway=gateway, caller=Caller(who="me@here", face=Face.CLI), clock=gateway.clock)
    work = GET_ANALYTICS_RESULT.run
    assert work is not None
    found = await work(call, GetAnalyticsParams(job=AnalyticsJob.BALANCE))
    (table,) = found.tables
    assert (table.name, table.total) == ("summary", 1)
    assert dict(zip(table.columns, table.rows[0], strict=True)) == {
        "advice": "",
        "cv_before": "0.75",
        "summary": "Move 1 topic.",
    }
    assert "report_analytics has it" in found.next_step
