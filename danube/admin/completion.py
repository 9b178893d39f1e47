"""Names in a cluster that complete a parameter, by the kinds of `Completes`."""

from collections.abc import Sequence

from danube.admin.gateway import AdminGateway
from danube.model.plans.plan import Approval
from danube.model.topic import TopicName


async def names_of(
    gateway: AdminGateway, kind: str, *, namespace: str | None = None, topic: str | None = None
) -> Sequence[str]:
    """The names of this kind: topics of `namespace`, or of all, and subscriptions of `topic`. Raises DanubeError."""
    match kind:
        case "namespace":
            return await gateway.namespaces()
        case "broker":
            return [info.broker_id for info in await gateway.brokers()]
        case "plan":
            plans = await gateway.plans()
            return [each.plan_id for each in plans if each.applied_ms is None and each.approval != Approval.REJECTED]
        case "topic":
            namespaces = [namespace] if namespace else await gateway.namespaces()
            return [str(info.topic) for each in namespaces for info in await gateway.topics(each)]
        case "subscription" if topic:
            return await gateway.subscriptions(TopicName.parse(topic))
    return ()
