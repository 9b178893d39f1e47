"""The page of the balance: load as a picture, a plan's before and after, progress."""

from dataclasses import replace

import pytest

from danube.admin.access import AccessLevel
from danube.admin.operations.cluster.balance import TRIGGER_REBALANCE
from danube.model.calls.balance import MoveState, RebalanceState
from danube.model.errors import BrokerUnreachableError
from danube.model.plans.plan import Caller, Effect, Face, Plan, PlanRequest, PlanStatus
from tests.faces.memory_gateway import ANY_CALL, HOSTILE
from tests.faces.skewed import skewed_balance, skewed_preview, skewed_rebalance
from tests.unit.admin.test_waiting_balance import UNTIL, waits
from tests.unit.admin.web.site import Page, Site, site

BOT = Caller(who="bot@desk", face=Face.MCP, client="host 1.0")


async def planned(shown: Site, caller: Caller = BOT, *, needs_approval: bool = True) -> Plan:
    cluster = shown.gateway.cluster
    cluster.balance, cluster.preview = skewed_balance(), skewed_preview()
    request = PlanRequest(
        operation=TRIGGER_REBALANCE.name,
        arguments=TRIGGER_REBALANCE.params().model_dump(mode="json"),
        effect=Effect.MOVE,
        caller=caller,
        needs_approval=needs_approval,
    )
    return await shown.gateway.create_plan(request)


async def test_each_broker_is_drawn_with_its_cause(readonly: Site) -> None:
    readonly.gateway.cluster.balance = skewed_balance()
    page = Page((await readonly.get("/balance")).text)
    assert "severely imbalanced" in page.text
    assert "CPU 88 %, of which /default/clicks 35 %" in page.text
    assert "its last report is 48 s old" in page.text
    assert [tag for tag, attributes in page.tags if tag == "svg" and attributes.get("role") == "img"] == ["svg"]


async def test_it_says_what_a_plan_waits_for_and_until_when(readonly: Site) -> None:
    waits(readonly.gateway)
    assert f"a plan waits for brokers that failed lately. Broker 2: It was lost a short while ago: {UNTIL}" in (
        Page((await readonly.get("/balance")).text).text
    )


async def test_the_page_is_in_the_navigation_and_in_the_audit_log(readonly: Site) -> None:
    assert "/balance" in Page((await readonly.get("/")).text).links()
    await readonly.get("/balance")
    assert "get_cluster_balance" in {record.entry.operation for record in readonly.gateway.audit_records}


async def test_a_plan_that_waits_shows_before_and_after_and_leads_to_the_approval(logged_in: Site) -> None:
    plan = await planned(logged_in)
    page = Page((await logged_in.get("/balance")).text)
    assert "Before" in page.text
    assert "imbalance 0.07 well balanced" in page.text
    assert "5 → 3 topics" in page.text
    assert "bot@desk (host 1.0) through mcp" in page.text
    assert f"/plans/approve?plan_id={plan.plan_id}" in page.links()


async def test_a_plan_of_this_face_is_applied_from_the_page(logged_in: Site) -> None:
    who = Caller(who="ada", face=Face.WEB)
    plan = await planned(logged_in, who, needs_approval=False)
    fields = Page((await logged_in.get("/balance")).text).form("/brokers/rebalance")
    answer = await logged_in.send("/brokers/rebalance", fields)
    assert answer.status_code == 200
    assert logged_in.gateway.stored_plans[plan.plan_id].status(logged_in.clock.now_ms()) is PlanStatus.APPLIED
    assert "A rebalance runs" in Page((await logged_in.get("/balance")).text).text


async def test_the_page_reads_again_by_itself_only_while_a_rebalance_runs(readonly: Site) -> None:
    readonly.gateway.cluster.balance = skewed_balance()
    states = {"/default/clicks": MoveState.DONE, "/default/orders": MoveState.FAILED}
    for state, reads_again in ((RebalanceState.RUNNING, True), (RebalanceState.STOPPED, False)):
        readonly.gateway.cluster.rebalances = [skewed_rebalance(states, state)]
        text = (await readonly.get("/balance")).text
        assert ('http-equiv="refresh"' in text) is reads_again
        assert "failed" in text


async def test_names_on_the_page_are_shown_and_never_obeyed(readonly: Site) -> None:
    balance = skewed_balance()
    brokers = tuple(replace(each, cause=HOSTILE, note=HOSTILE, broker_id=HOSTILE) for each in balance.brokers)
    readonly.gateway.cluster.balance = replace(balance, brokers=brokers)
    text = (await readonly.get("/balance")).text
    assert "<script>alert" not in text
    assert "\x1b" not in text
    assert "&lt;script&gt;" in text


async def test_a_cluster_that_is_away_is_said_at_once() -> None:
    async with site(AccessLevel.READ) as away:
        away.gateway.failures[ANY_CALL] = BrokerUnreachableError("nobody listens: start a broker")
        answer = await away.get("/balance")
    assert answer.status_code == 502
    assert "Nobody listens: start a broker" in Page(answer.text).text


@pytest.mark.parametrize("path", ["/brokers/balance", "/brokers/analyze-balance", "/brokers/rebalances"])
async def test_operations_show_their_portraits(readonly: Site, path: str) -> None:
    cluster = readonly.gateway.cluster
    cluster.balance, cluster.preview = skewed_balance(), skewed_preview()
    cluster.rebalances = [skewed_rebalance({"/default/clicks": MoveState.DONE}, RebalanceState.RUNNING)]
    answer = await readonly.get(path)
    assert answer.status_code == 200
    assert "/default/clicks" in Page(answer.text).text
