"""The operations of administrators, each declared once; here in menu order."""

from danube.admin.operations.analytics import analytics, lag, recommendations, report, schedules
from danube.admin.operations.cluster import (
    balance,
    brokers,
    health,
    logs,
    members,
    metrics,
    namespaces,
    plans_and_audit,
    storage,
)
from danube.admin.operations.operation import AnyOperation
from danube.admin.operations.schemas import changes, subjects
from danube.admin.operations.schemas import topics as topic_schemas
from danube.admin.operations.security import grants, proofs
from danube.admin.operations.topics import (
    connections,
    connectors,
    planned_policies,
    policies,
    positions,
    subscription_policies,
    subscriptions,
    topic_list,
    topics,
)
from danube.model.errors import NotFoundError

REGISTRY: tuple[AnyOperation, ...] = (
    *brokers.OPERATIONS,
    *balance.OPERATIONS,
    *members.OPERATIONS,
    *namespaces.OPERATIONS,
    *topic_list.OPERATIONS,
    *topics.OPERATIONS,
    *subscriptions.OPERATIONS,
    *subscription_policies.OPERATIONS,
    *policies.OPERATIONS,
    *planned_policies.OPERATIONS,
    *positions.OPERATIONS,
    *connections.OPERATIONS,
    *connectors.OPERATIONS,
    *subjects.OPERATIONS,
    *changes.OPERATIONS,
    *topic_schemas.OPERATIONS,
    *health.OPERATIONS,
    *storage.OPERATIONS,
    *metrics.OPERATIONS,
    *logs.OPERATIONS,
    *recommendations.OPERATIONS,
    *lag.OPERATIONS,
    *analytics.OPERATIONS,
    *schedules.OPERATIONS,
    *report.OPERATIONS,
    *plans_and_audit.OPERATIONS,
    *grants.OPERATIONS,
    *proofs.OPERATIONS,
)
"""Every operation; names and words are unique."""

BY_NAME = {operation.name: operation for operation in REGISTRY}


def operation_of(name: str) -> AnyOperation:
    """The operation of this name. Raises NotFoundError."""
    operation = BY_NAME.get(name)
    if operation is None:
        raise NotFoundError(f"there is no operation {name[:60]!r}: it is one of {', '.join(BY_NAME)}")
    return operation
