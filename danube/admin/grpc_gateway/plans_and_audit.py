"""Plans and audit log, where the broker keeps them: the calls of `danube.control`."""

from collections.abc import Sequence
from typing import Protocol

from danube.admin.grpc_gateway.broker_connection import BrokerConnection
from danube.model.limits.broker import PLANS_MAX, PLANS_PAGE_MAX
from danube.model.plans.plan import Decision, ListPlans, Plan, PlanApplication, PlanRequest
from danube.model.records.audit import AuditEntry, AuditPage, AuditReceipt, ReadAudit
from danube.model.topic import TopicName
from danube.wire import decode_oversight, encode_oversight


class PlansAndAudit(Protocol):
    """Whoever keeps plans and audit log; its methods are those of `AdminGateway`."""

    async def create_plan(self, request: PlanRequest) -> Plan: ...

    async def plan(self, plan_id: str) -> Plan: ...

    async def plans(self) -> Sequence[Plan]: ...

    async def decide_plan(self, decision: Decision) -> Plan: ...

    async def apply_plan(self, application: PlanApplication) -> Plan: ...

    async def record(self, entry: AuditEntry) -> AuditReceipt: ...

    async def audit(self, start: int, limit: int) -> AuditPage: ...


class BrokerPlansAndAudit:
    """The broker keeps them."""

    def __init__(self, line: BrokerConnection) -> None:
        self._line = line

    async def create_plan(self, request: PlanRequest) -> Plan:
        return await self._plan("CreatePlan", encode_oversight.create_plan(request))

    async def plan(self, plan_id: str) -> Plan:
        return await self._plan("GetPlan", encode_oversight.get_plan(plan_id))

    async def plans(self) -> Sequence[Plan]:
        found: list[Plan] = []
        wanted = ListPlans(page_size=PLANS_PAGE_MAX)
        while len(found) <= PLANS_MAX:
            answer = await self._line.call("/danube.control.Plans/ListPlans", encode_oversight.list_plans(wanted))
            page = decode_oversight.plans_page(answer)
            found += page.plans
            if page.next is None or not page.plans:
                break
            wanted = ListPlans(page_size=PLANS_PAGE_MAX, after=page.next)
        return found

    async def decide_plan(self, decision: Decision) -> Plan:
        return await self._plan("DecidePlan", encode_oversight.decide_plan(decision))

    async def apply_plan(self, application: PlanApplication) -> Plan:
        return await self._plan("ApplyPlan", encode_oversight.apply_plan(application))

    async def record(self, entry: AuditEntry) -> AuditReceipt:
        answer = await self._line.call("/danube.control.Audit/Record", encode_oversight.audit_entry(entry))
        return decode_oversight.audit_receipt(answer)

    async def audit(self, start: int, limit: int, topic: TopicName | None = None) -> AuditPage:
        """Records of the log that the broker writes itself, or of another one that it serves."""
        request = encode_oversight.read_audit(ReadAudit(start=start, limit=limit, topic=topic))
        return decode_oversight.audit_page(await self._line.call("/danube.control.Audit/Read", request))

    async def _plan(self, method: str, request: bytes) -> Plan:
        return decode_oversight.plan(await self._line.call(f"/danube.control.Plans/{method}", request))
