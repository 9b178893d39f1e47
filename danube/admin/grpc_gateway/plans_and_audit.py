"""Plans and audit log, where the broker keeps them: the calls of `danube.control`."""

from collections.abc import Sequence

from danube.admin.grpc_gateway.broker_connection import BrokerConnection
from danube.model.limits.broker import PLANS_MAX, PLANS_PAGE_MAX
from danube.model.plans.plan import Decision, ListPlans, Plan, PlanApplication, PlanRequest
from danube.model.records.audit import AuditEntry, AuditPage, AuditReceipt, ReadAudit
from danube.model.topic import TopicName
from danube.wire import plan_messages


class BrokerPlansAndAudit:
    """Plans and audit log of a broker; the methods are those of `AdminGateway`."""

    def __init__(self, broker: BrokerConnection) -> None:
        self._broker = broker

    async def create_plan(self, request: PlanRequest) -> Plan:
        return await self._plan("CreatePlan", plan_messages.CREATE_PLAN.encode(request))

    async def plan(self, plan_id: str) -> Plan:
        return await self._plan("GetPlan", plan_messages.GET_PLAN.encode(plan_id))

    async def plans(self) -> Sequence[Plan]:
        found: list[Plan] = []
        wanted = ListPlans(page_size=PLANS_PAGE_MAX)
        while len(found) <= PLANS_MAX:
            answer = await self._broker.call("/danube.control.Plans/ListPlans", plan_messages.LIST_PLANS.encode(wanted))
            page = plan_messages.PLANS_PAGE.decode(answer)
            found += page.plans
            if page.next is None or not page.plans:
                break
            wanted = ListPlans(page_size=PLANS_PAGE_MAX, after=page.next)
        return found

    async def decide_plan(self, decision: Decision) -> Plan:
        return await self._plan("DecidePlan", plan_messages.DECIDE_PLAN.encode(decision))

    async def apply_plan(self, application: PlanApplication) -> Plan:
        return await self._plan("ApplyPlan", plan_messages.APPLY_PLAN.encode(application))

    async def record(self, entry: AuditEntry) -> AuditReceipt:
        answer = await self._broker.call("/danube.control.Audit/Record", plan_messages.AUDIT_ENTRY.encode(entry))
        return plan_messages.AUDIT_RECEIPT.decode(answer)

    async def audit(self, start: int, limit: int, topic: TopicName | None = None) -> AuditPage:
        """Records of the log that the broker writes itself, or of another one that it serves."""
        request = plan_messages.READ_AUDIT.encode(ReadAudit(start=start, limit=limit, topic=topic))
        return plan_messages.decode_audit_page(await self._broker.call("/danube.control.Audit/Read", request))

    async def _plan(self, method: str, request: bytes) -> Plan:
        return plan_messages.PLAN.decode(await self._broker.call(f"/danube.control.Plans/{method}", request))
