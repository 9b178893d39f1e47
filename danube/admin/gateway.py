"""What operations may ask of a cluster: a protocol, so that a test, or the original broker, can stand behind it.

There is no call here that deletes or moves: those act through a plan alone.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from danube.model.admin_calls import (
    BrokerDescription,
    BrokerInfo,
    CreatePartitionedTopic,
    CreateTopic,
    DescribeTopics,
    NamespacePolicies,
    RaftStatus,
    TopicDetails,
    TopicInfo,
    TopicsPage,
)
from danube.model.audit import AuditEntry, AuditPage, AuditReceipt
from danube.model.plans import Decision, Plan, PlanApplication, PlanRequest
from danube.model.topic import TopicName


@dataclass(frozen=True, slots=True, kw_only=True)
class Connection:
    """Where a gateway leads to."""

    endpoint: str
    is_ours: bool
    """Whether the broker answers `danube.control`; the original does not, and keeps neither plans nor audit log."""
    state_folder: str | None = None
    """Where plans and audit log are kept instead; None while the broker keeps them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemRecord:
    """One message of a system topic."""

    offset: int
    payload: bytes


class AdminGateway(Protocol):
    """One cluster, as an administrator reaches it.

    Every method raises DanubeError: UnavailableError or DeadlineExceededError when nobody answers, UnsupportedError
    where the broker lacks the call (with the sentence to show), and what the call itself says.
    """

    async def connection(self) -> Connection:
        """Where this leads to; asks the broker the first time."""

    # Brokers and cluster

    async def brokers(self) -> Sequence[BrokerInfo]:
        """Every broker, sorted by id."""

    async def leader(self) -> str | None:
        """The id of the leader; None where nobody leads."""

    async def raft_status(self) -> RaftStatus:
        """How the brokers agree. Raises UnsupportedError outside a cluster."""

    async def describe_broker(self) -> BrokerDescription:
        """The broker behind the endpoint, in full. Raises UnsupportedError for the original's."""

    # Namespaces

    async def namespaces(self) -> Sequence[str]:
        """Every namespace once, sorted."""

    async def namespace_policies(self, namespace: str) -> NamespacePolicies:
        """The limits of a namespace. Raises NotFoundError."""

    async def create_namespace(self, namespace: str) -> None:
        """Create a namespace. Raises AlreadyExistsError."""

    # Topics and subscriptions

    async def topics(self, namespace: str) -> Sequence[TopicInfo]:
        """The topics of a namespace, sorted by name; partitions each on their own."""

    async def topics_on(self, broker_id: str) -> Sequence[TopicInfo]:
        """The topics of a broker, sorted by name."""

    async def topic(self, topic: TopicName) -> TopicDetails:
        """One topic. Raises NotFoundError."""

    async def describe_topics(self, wanted: DescribeTopics) -> TopicsPage:
        """A page of topics in full. Raises UnsupportedError for the original's brokers."""

    async def create_topic(self, wanted: CreateTopic) -> None:
        """Create a plain topic."""

    async def create_partitioned_topic(self, wanted: CreatePartitionedTopic) -> None:
        """Create the partitions of a topic."""

    async def subscriptions(self, topic: TopicName) -> Sequence[str]:
        """The names of a topic's subscriptions, each once, sorted."""

    # Plans

    async def create_plan(self, request: PlanRequest) -> Plan:
        """Work out what an operation would do. Raises what the operation itself would raise if it cannot be done."""

    async def plan(self, plan_id: str) -> Plan:
        """A plan as it stands. Raises PlanNotFoundError."""

    async def plans(self) -> Sequence[Plan]:
        """All plans that are kept, newest first."""

    async def decide_plan(self, decision: Decision) -> Plan:
        """Approve or reject a plan. Raises PlanRefusedError, PlanNotFoundError."""

    async def apply_plan(self, application: PlanApplication) -> Plan:
        """Carry a plan out, once. Raises PlanRefusedError, PlanWaitsError, PlanNotFoundError."""

    # Audit

    async def record(self, entry: AuditEntry) -> AuditReceipt:
        """Add to the audit log; durable when this returns."""

    async def audit(self, start: int, limit: int) -> AuditPage:
        """Records from this sequence on, at most `limit`; from the oldest that is kept if that is newer."""

    # System topics

    async def system_records(self, topic: TopicName, *, since_ms: int, limit: int) -> Sequence[SystemRecord]:
        """The messages of a system topic appended since then, in order: the newest `limit` of them.

        None when there is no such topic. Raises UnsupportedError for the original's brokers.
        """
