"""Plans and audit log, where the broker keeps them: the calls of `danube.control`."""

from collections.abc import Sequence
from functools import partial

from danube.admin.grpc_gateway.broker_connection import BrokerConnection
from danube.admin.operations.act import ACT
from danube.model.limits.broker import PLANS_MAX, PLANS_PAGE_MAX
from danube.model.plans.plan import Decision, Effect, ListPlans, Plan, PlanApplication, PlanRequest
from danube.model.records.audit import AuditEntry, AuditPage, AuditReceipt, Outcome, ReadAudit
from danube.model.topic import TopicName
from danube.wire import plan_messages as messages

_PLANS = "/danube.control.Plans"
_AUDIT = "/danube.control.Audit"


class BrokerPlansAndAudit:
    """Plans and audit log of a broker; the methods are those of `AdminGateway`."""

    def __init__(self, broker: BrokerConnection) -> None:
        self._broker = broker

    async def create_plan(self, request: PlanRequest) -> Plan:
        return await self._broker.ask(f"{_PLANS}/CreatePlan", messages.CREATE_PLAN, request, messages.PLAN)

    async def plan(self, plan_id: str) -> Plan:
        return await self._broker.ask(f"{_PLANS}/GetPlan", messages.GET_PLAN, plan_id, messages.PLAN)

    async def plans(self) -> Sequence[Plan]:
        found: list[Plan] = []
        wanted = ListPlans(page_size=PLANS_PAGE_MAX)
        while len(found) <= PLANS_MAX:
            page = await self._broker.ask(f"{_PLANS}/ListPlans", messages.LIST_PLANS, wanted, messages.PLANS_PAGE)
            found += page.plans
            if page.next is None or not page.plans:
                break
            wanted = ListPlans(page_size=PLANS_PAGE_MAX, after=page.next)
        return found

    async def decide_plan(self, decision: Decision) -> Plan:
        return await self._broker.ask(f"{_PLANS}/DecidePlan", messages.DECIDE_PLAN, decision, messages.PLAN)

    async def apply_plan(self, application: PlanApplication) -> Plan:
        return await self._broker.ask(f"{_PLANS}/ApplyPlan", messages.APPLY_PLAN, application, messages.PLAN)

    async def record(self, entry: AuditEntry) -> AuditReceipt | None:
        """As `AdminGateway.record`, but for what the broker records itself."""
        act = ACT.get()
        if act is not None and entry.effect is not Effect.READ:
            if entry.outcome is Outcome.STARTED:
                act.begin = partial(self._record, entry)
                return None
            if act.is_recorded and not act.is_unrecorded:
                return None
        return await self._record(entry)

    async def _record(self, entry: AuditEntry) -> AuditReceipt:
        return await self._broker.ask(f"{_AUDIT}/Record", messages.AUDIT_ENTRY, entry, messages.AUDIT_RECEIPT)

    async def audit(self, start: int, limit: int, topic: TopicName | None = None) -> AuditPage:
        """Records of the log that the broker writes itself, or of another one that it serves."""
        request = messages.READ_AUDIT.encode(ReadAudit(start=start, limit=limit, topic=topic))
        return messages.decode_audit_page(await self._broker.call(f"{_AUDIT}/Read", request))
