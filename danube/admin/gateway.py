"""The protocol between operations and a cluster, so that a test, or the original broker, can stand behind it.

There is no call here that deletes or moves: those act through a plan alone.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from danube.model.calls.admin import (
    AddNode,
    BrokerDescription,
    BrokerInfo,
    ClusterDescription,
    CreatePartitionedTopic,
    CreateTopic,
    DescribeTopics,
    NamespacePolicies,
    RaftStatus,
    TopicDetails,
    TopicInfo,
    TopicsPage,
)
from danube.model.calls.balance import (
    AutomaticBalance,
    BalanceRule,
    CancelRebalance,
    ClearRule,
    ClusterBalance,
    Rebalance,
    RebalancePreview,
    RebalanceWish,
    SetAutomatic,
)
from danube.model.calls.inspection import LogPage, MetricsPage, ReadLog, ReadMetrics
from danube.model.calls.positions import (
    AddPartitions,
    CreateSubscription,
    DisconnectClient,
    PeekedPage,
    PeekMessages,
    SubscriptionPosition,
)
from danube.model.calls.positions import Connection as TopicConnection
from danube.model.calls.schemas import (
    CheckedVersion,
    CheckVersion,
    FindVersion,
    ModeAnswer,
    RegisteredSchema,
    RegisterVersion,
    SchemaVersionInfo,
    SetMode,
    SubjectSummary,
    VersionDescription,
)
from danube.model.calls.security import (
    AccessExplained,
    ApiKeyCreated,
    ApiKeyInfo,
    BindingKey,
    BindingsOf,
    CreateApiKey,
    ExplainAccess,
)
from danube.model.calls.topic_states import TopicStatesList
from danube.model.plans.plan import Decision, Plan, PlanApplication, PlanRequest
from danube.model.policies import (
    FailurePolicy,
    PoliciesView,
    SetDispatchWindow,
    SetFailurePolicy,
    SetNamespacePolicies,
    SetTopicPolicies,
    SubscriptionName,
)
from danube.model.records.audit import AuditEntry, AuditPage, AuditReceipt
from danube.model.records.connectors import ChangeConnector, ConnectorBook, ConnectorWish
from danube.model.records.schedules import Schedule, ScheduleBook
from danube.model.schema import TopicSchema, TopicSchemaConfig
from danube.model.security.credentials import Revocation
from danube.model.security.grants import Binding, Role
from danube.model.subscription import SubscriptionType
from danube.model.topic import TopicName


@dataclass(frozen=True, slots=True, kw_only=True)
class Connection:
    """The cluster that a gateway leads to."""

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


Told = TypeVar("Told")


@dataclass(frozen=True, slots=True, kw_only=True)
class OfBroker(Generic[Told]):
    """One broker's answer, or why there is none."""

    broker_id: str
    told: Told | None
    problem: str = ""


def not_answered(told: Sequence[OfBroker[Any]]) -> list[str]:
    """A sentence for each broker that did not answer."""
    return [f"broker {each.broker_id}: {each.problem}" for each in told if each.told is None]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterTopics(TopicsPage):
    """A page of the topics of all brokers."""

    not_answered: Sequence[str] = ()
    """A sentence for each broker that did not answer: its topics are missing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PromQuery:
    """A question to Prometheus: of this moment, or of a range."""

    query: str
    start_ms: int | None = None
    end_ms: int | None = None
    step_s: int | None = None
    """Of a range, with both of its ends."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PromSeries:
    """One series of its answer."""

    labels: Mapping[str, str]
    """Its name among them, as `__name__`."""
    points: Sequence[tuple[int, float]]
    """Milliseconds since the epoch, and values."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditLogPlace:
    """One audit log of a cluster: each broker writes its own."""

    topic: TopicName
    broker_id: str | None
    """Of the broker that serves it; None for no broker."""
    admin_url: str | None
    """Where to ask for it; None while its broker does not run."""


class AdminGateway(Protocol):
    """One cluster, as an administrator reaches it.

    Every method raises DanubeError: UnavailableError or DeadlineExceededError when nobody answers, UnsupportedError
    where the broker lacks the call (with the sentence to show), and what the call itself says.
    """

    async def connection(self) -> Connection:
        """The cluster that this leads to; asks the broker the first time."""

    # Brokers and cluster

    async def brokers(self) -> Sequence[BrokerInfo]:
        """Every broker, sorted by id."""

    async def leader(self) -> str | None:
        """The id of the leader; None where nobody leads."""

    async def raft_status(self) -> RaftStatus:
        """The agreement of the brokers. Raises UnsupportedError outside a cluster."""

    async def describe_cluster(self) -> ClusterDescription:
        """The agreement on the metadata, as the broker behind the endpoint sees it. Raises UnsupportedError for the
        original's.
        """

    async def add_node(self, wanted: AddNode) -> str:
        """Have a broker that waits take part, without a vote; answers its node id once it has the metadata.

        Raises PreconditionFailedError where brokers do not agree among themselves.
        """

    async def transfer_leadership(self, node_id: str | None) -> str:
        """Have another voter lead (any, without `node_id`); answers who does. Raises NotFoundError,
        PreconditionFailedError, and UnsupportedError for the original's brokers.
        """

    async def describe_broker(self) -> BrokerDescription:
        """The broker behind the endpoint, in full. Raises UnsupportedError for the original's."""

    async def describe_brokers(self) -> Sequence[OfBroker[BrokerDescription]]:
        """Every broker in full. Raises UnsupportedError for the original's."""

    async def metrics(self, wanted: ReadMetrics, broker_id: str | None) -> Sequence[OfBroker[MetricsPage]]:
        """Metrics of one broker, or of all that run. Raises NotFoundError, and UnsupportedError for the original's."""

    async def broker_logs(self, wanted: ReadLog, broker_id: str | None) -> Sequence[OfBroker[LogPage]]:
        """Log records of one broker, or of all that run. Raises as `metrics`."""

    async def prometheus(self, wanted: PromQuery) -> Sequence[PromSeries]:
        """Series that Prometheus answers. Raises InvalidRequestError with its words, PreconditionFailedError without
        a Prometheus.
        """

    # Balance of load

    async def cluster_balance(self) -> ClusterBalance:
        """Load of each broker, the imbalance, and what is done about it. Of the original's cluster less is known."""

    async def preview_rebalance(self, wish: RebalanceWish) -> RebalancePreview:
        """The plan for a wish, which does nothing. Raises NotFoundError for what is imagined and is not there.

        Raises UnsupportedError for the original's brokers, as everything that follows about balance.
        """

    async def rebalances(self, plan_id: str = "") -> Sequence[Rebalance]:
        """Rebalances that run or ran, newest first, with the state of each move: ask again to see the progress.

        That of a plan alone where one is named.
        """

    async def cancel_rebalance(self, wanted: CancelRebalance) -> Rebalance | None:
        """Have a rebalance begin no more moves; None where none runs. Raises PreconditionFailedError for one that is
        over.
        """

    async def set_balance_rule(self, rule: BalanceRule) -> Sequence[BalanceRule]:
        """Set a pin or an exclusion; all there are then. `cluster_balance` lists them, too."""

    async def clear_balance_rule(self, wanted: ClearRule) -> Sequence[BalanceRule]:
        """Take one away if it is there; the others."""

    async def set_automatic_balance(self, wanted: SetAutomatic) -> AutomaticBalance:
        """Set the automatic mode at run time, or that of the settings again."""

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

    async def describe_topics(self, wanted: DescribeTopics) -> ClusterTopics:
        """A page of topics in full, of all brokers that run; all at once where several are named, or a base name.

        A page may hold `page_size` topics of each broker. Raises UnsupportedError for the original's brokers.
        """

    async def topic_states(self, namespace: str | None) -> TopicStatesList:
        """Topics of a namespace, or of all, that are not simply served. Raises UnsupportedError for the original's."""

    async def create_topic(self, wanted: CreateTopic) -> None:
        """Create a plain topic."""

    async def create_partitioned_topic(self, wanted: CreatePartitionedTopic) -> None:
        """Create the partitions of a topic."""

    async def subscriptions(self, topic: TopicName) -> Sequence[str]:
        """The names of a topic's subscriptions, each once, sorted."""

    # Policies

    async def failure_policy(self, name: SubscriptionName) -> tuple[FailurePolicy | None, SubscriptionType]:
        """The failure policy that was set for a subscription, if any was, and its type.

        The type is EXCLUSIVE of one that does not exist yet. Raises NotFoundError for one that has no policy either.
        """

    async def set_failure_policy(self, wanted: SetFailurePolicy) -> None:
        """Replace it. Raises NotFoundError, PreconditionFailedError where the topic is not reliable."""

    async def dispatch_window(self, name: SubscriptionName) -> int | None:
        """The number of messages a consumer may hold, if that was set. Raises NotFoundError."""

    async def set_dispatch_window(self, wanted: SetDispatchWindow) -> None:
        """Replace it. Raises NotFoundError."""

    async def namespace_limits(self, namespace: str) -> PoliciesView:
        """The limits of a namespace, as they are set there and as they hold. Raises NotFoundError.

        Raises UnsupportedError for the original's brokers, as everything that follows here.
        """

    async def set_namespace_policies(self, wanted: SetNamespacePolicies) -> PoliciesView:
        """Change limits of a namespace. Raises NotFoundError."""

    async def topic_policies(self, topic: TopicName) -> PoliciesView:
        """The limits of a topic; of a base name, of its first partition. Raises TopicNotFoundError."""

    async def set_topic_policies(self, wanted: SetTopicPolicies) -> PoliciesView:
        """Change them; of a base name, of all its partitions. Raises TopicNotFoundError."""

    # Positions and connections

    async def create_subscription(self, wanted: CreateSubscription) -> SubscriptionPosition:
        """Create a subscription. Raises AlreadyExistsError, TopicNotFoundError."""

    async def retry_blocked(self, name: SubscriptionName) -> SubscriptionPosition:
        """Send what blocks a subscription again. Raises NotFoundError."""

    async def peek(self, wanted: PeekMessages) -> PeekedPage:
        """Stored messages of a topic. Raises TopicNotFoundError, PreconditionFailedError where none are stored."""

    async def add_partitions(self, wanted: AddPartitions) -> Sequence[TopicName]:
        """Give a partitioned topic more partitions; all that it has then, in order. Raises NotFoundError."""

    async def topic_connections(self, topic: TopicName) -> tuple[Sequence[TopicConnection], int]:
        """Connected clients, consumers first and at most CONNECTIONS_SHOWN_MAX, and how many there are."""

    async def disconnect(self, wanted: DisconnectClient) -> None:
        """Disconnect a client, which may come back. Raises NotFoundError."""

    # The schema registry

    async def subjects(self) -> Sequence[SubjectSummary]:
        """Every subject that has versions."""

    async def schema_versions(self, subject: str) -> Sequence[SchemaVersionInfo]:
        """The versions of a subject, the oldest first. Raises NotFoundError."""

    async def subject_of(self, schema_id: int) -> str:
        """The subject that has this id. Raises NotFoundError."""

    async def find_version(self, wanted: FindVersion) -> VersionDescription:
        """A version in full. Raises NotFoundError."""

    async def register_version(self, wanted: RegisterVersion) -> RegisteredSchema:
        """Register a version. Raises SchemaInvalidError, SchemaIncompatibleError."""

    async def check_version(self, wanted: CheckVersion) -> CheckedVersion:
        """Compare a definition with the versions before it. Raises SchemaInvalidError."""

    async def schema_mode(self, wanted: SetMode) -> ModeAnswer:
        """Set or ask for a compatibility mode. Raises NotFoundError."""

    async def configure_topic_schema(self, topic: TopicName, schema: TopicSchema) -> None:
        """Bind a topic to a subject; without one only the policy changes. Raises NotFoundError,
        PreconditionFailedError for a topic that has no subject either.
        """

    async def topic_schema(self, topic: TopicName) -> TopicSchemaConfig:
        """The schema configuration of a topic. Raises NotFoundError."""

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

    async def record(self, entry: AuditEntry) -> AuditReceipt | None:
        """Add to the audit log; durable when this returns. None for what the broker records itself (`Act`)."""

    async def audit(self, start: int, limit: int, log: AuditLogPlace | None = None) -> AuditPage:
        """Records from this sequence on, at most `limit`; from the oldest that is kept if that is newer.

        Of the log of the broker behind the endpoint, or of the one that is named.
        """

    async def audit_logs(self) -> Sequence[AuditLogPlace]:
        """Every audit log of the cluster, in the order of their topics; none where no broker keeps them."""

    # System topics

    async def system_records(self, topic: TopicName, *, since_ms: int, limit: int) -> Sequence[SystemRecord]:
        """The messages of a system topic appended since then, in order: the newest `limit` of them.

        None when there is no such topic. Raises UnsupportedError for the original's brokers.
        """

    # Schedules of analytics jobs

    async def schedules(self) -> ScheduleBook:
        """All schedules, and the runner that starts them. Raises UnsupportedError for the original's brokers, as all
        that follows here.
        """

    async def put_schedule(self, schedule: Schedule) -> Schedule:
        """Add a schedule, or change the one of its name. Raises InvalidRequestError, LimitReachedError."""

    async def remove_schedule(self, name: str) -> Schedule:
        """Remove a schedule; answers it as it was. Raises NotFoundError."""

    async def request_run(self, name: str) -> Schedule:
        """Have the runner start a run out of turn. Raises NotFoundError."""

    # Connectors

    async def connectors(self) -> ConnectorBook:
        """All connectors that runners tell of, and the wishes for them. Raises UnsupportedError as above."""

    async def change_connector(self, wanted: ChangeConnector) -> ConnectorWish:
        """Ask a connector's runner for something. Raises NotFoundError, and UnsupportedError as above."""

    # Security

    async def create_role(self, role: Role) -> None:
        """Keep a role, in place of one of the same name. Raises PreconditionFailedError for a built-in one."""

    async def role(self, name: str) -> Role:
        """One role. Raises NotFoundError."""

    async def roles(self) -> Sequence[Role]:
        """All roles."""

    async def create_binding(self, binding: Binding) -> None:
        """Keep a binding, in place of one of its id there. Raises NotFoundError for a role that is not there."""

    async def binding(self, key: BindingKey) -> Binding:
        """One binding. Raises NotFoundError."""

    async def bindings(self, wanted: BindingsOf) -> Sequence[Binding]:
        """The bindings of one scope and resource."""

    async def all_bindings(self) -> Sequence[Binding]:
        """The bindings of all scopes."""

    async def explain_access(self, wanted: ExplainAccess) -> AccessExplained:
        """Tell whether a principal may do something. Raises UnsupportedError for the original's brokers, as all that
        follows here.
        """

    async def exchange_api_key(self, key: str) -> str:
        """A token for an API key. Raises UnauthenticatedError."""

    async def revocations(self) -> Sequence[Revocation]:
        """All revocations."""

    async def create_api_key(self, wanted: CreateApiKey) -> ApiKeyCreated:
        """Make an API key; it is answered this once."""

    async def api_keys(self) -> Sequence[ApiKeyInfo]:
        """API keys, without anything secret."""
