"""Names in a cluster that complete a parameter, by the kinds of `Completes`."""

from collections.abc import Sequence

from danube.admin.broker_names import names
from danube.admin.gateway import AdminGateway
from danube.model.plans.plan import Approval
from danube.model.topic import TopicName


async def names_of(
    gateway: AdminGateway,
    kind: str,
    *,
    namespace: str | None = None,
    topic: str | None = None,
    with_bases: bool = False,
) -> Sequence[str]:
    """The names of this kind: topics of `namespace`, or of all, and subscriptions of `topic`. Raises DanubeError.

    `with_bases` adds names of partitioned topics before those of their partitions.
    """
    match kind:
        case "namespace":
            return await gateway.namespaces()
        case "broker" | "node":
            return await names(kind, gateway)
        case "plan":
            plans = await gateway.plans()
            return [each.plan_id for each in plans if each.applied_ms is None and each.approval != Approval.REJECTED]
        case "topic":
            namespaces = [namespace] if namespace else await gateway.namespaces()
            infos = [info for each in namespaces for info in await gateway.topics(each)]
            named = ((info.base if with_bases else None, info.topic) for info in infos)
            return list(dict.fromkeys(str(name) for names in named for name in names if name is not None))
        case "subscription" if topic:
            return await gateway.subscriptions(TopicName.parse(topic))
    return ()
