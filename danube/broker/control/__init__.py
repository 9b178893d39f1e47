"""Operations of administrators on one broker, behind the admin RPCs: one module per noun."""

from dataclasses import dataclass

from danube.broker.analytics.control import ScheduleControl
from danube.broker.balance.control import BalanceControl
from danube.broker.cluster.log_offer import LogOffers
from danube.broker.control.audit import AuditLog
from danube.broker.control.brokers import BrokerControl
from danube.broker.control.cluster import ClusterControl
from danube.broker.control.connections import Connections
from danube.broker.control.describe import Descriptions
from danube.broker.control.moves import MoveControl
from danube.broker.control.namespaces import NamespaceControl
from danube.broker.control.peeking import Peeking
from danube.broker.control.plans.lifecycle import PlanControl
from danube.broker.control.policies import PolicyControl
from danube.broker.control.positions import PositionControl
from danube.broker.control.subscriptions import SubscriptionControl
from danube.broker.control.topics import TopicControl
from danube.broker.schemas.control import SchemaControl
from danube.broker.security.control import SecurityControl
from danube.broker.telemetry.inspection import InspectionControl
from danube.broker.topics.topic_states import TopicStates
from danube.metadata.connectors.records import ConnectorRecords


@dataclass(frozen=True, slots=True, kw_only=True)
class Control:
    """The operations of an administrator on one broker."""

    balance: BalanceControl
    brokers: BrokerControl
    offers: LogOffers
    cluster: ClusterControl
    namespaces: NamespaceControl
    moves: MoveControl
    states: TopicStates
    topics: TopicControl
    subscriptions: SubscriptionControl
    descriptions: Descriptions
    inspection: InspectionControl
    policies: PolicyControl
    positions: PositionControl
    peeking: Peeking
    connections: Connections
    plans: PlanControl
    audit: AuditLog
    schedules: ScheduleControl
    connectors: ConnectorRecords
    schemas: SchemaControl
    security: SecurityControl
