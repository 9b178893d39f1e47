"""Call catalogue: for each call its resource, action, effect and audit rule, its messages and its handler.

A call without an entry does not exist. Services and interceptors follow from the entries. What applications and runners
do at each start is `routine`: the broker does not record it.
"""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial

from danube.broker.control.cluster import ClusterControl
from danube.broker.security.current import current_principal
from danube.broker.services import targets
from danube.broker.services.authenticate import authenticate
from danube.broker.services.call import Action, Call, Resource, Scope, in_cluster, later, now, routine
from danube.broker.services.consume import ReceiveStream, acknowledge, negative_acknowledge, subscribe
from danube.broker.services.discovery import health_check, list_namespaces, topic_lookup, topic_partitions
from danube.broker.services.produce import create_producer, send_message
from danube.broker.services.stream import FetchStream, PublishStream, bounds, close_consumer, close_producer
from danube.broker.services.stream_consume import ConsumeStream
from danube.broker.services.targets import by_operation, carrying_messages, of_a_client
from danube.metadata.connectors.records import ConnectorRecords
from danube.model.calls.admin import AddNode
from danube.model.calls.client import ClientKind
from danube.model.plans.plan import Effect
from danube.model.records.connectors import ConnectorWish, RunnerReport
from danube.wire import admin_messages as admin
from danube.wire import client_messages as client
from danube.wire import control_messages as control
from danube.wire import plan_messages as plan
from danube.wire import schema_messages as schema
from danube.wire.security import messages as security

_NOWHERE_TO_MOVE = "a standalone broker has no other broker to move topics to: stop it instead, its clients come back"
_NEVER_DRAINED = "a standalone broker is always active"
_NO_NODES = "a standalone broker has no nodes: restart it with --mode cluster, then add some (docs/clusters.md)"
_NOTHING_TO_BALANCE = "a standalone broker has nothing to balance its load with: this call needs a cluster"
_STANDS_ALONE = "a standalone broker has no other broker to move a topic to"

READ, WRITE, MOVE, DESTROY = Effect.READ, Effect.WRITE, Effect.MOVE, Effect.DESTROY
_LOOKUP = Scope(Resource.TOPIC, Action.LOOKUP)
_PRODUCE = Scope(Resource.TOPIC, Action.PRODUCE)
_CONSUME = Scope(Resource.TOPIC, Action.CONSUME)
_TOPIC = Scope(Resource.TOPIC, Action.MANAGE_TOPIC)
_TOPICS = Scope(Resource.NAMESPACE, Action.MANAGE_TOPIC)
_BROKER_TOPICS = Scope(Resource.BROKER, Action.MANAGE_TOPIC)
_NAMESPACE = Scope(Resource.NAMESPACE, Action.MANAGE_NAMESPACE)
_BROKER = Scope(Resource.BROKER, Action.MANAGE_BROKER)
_BROKERS = Scope(Resource.CLUSTER, Action.MANAGE_BROKER)
_CLUSTER = Scope(Resource.CLUSTER, Action.MANAGE_CLUSTER)
_SUBJECT = Scope(Resource.SUBJECT, Action.MANAGE_SCHEMA)
_TOPIC_SCHEMA = Scope(Resource.TOPIC, Action.MANAGE_SCHEMA)
_BROKERS_ALONE = Scope(Resource.CLUSTER, Action.REPLICATE)
_ANYBODY = Scope(Resource.CLUSTER, Action.EVERYBODY)
_CLIENT = Scope(Resource.TOPIC, Action.ANY_CALLER)
_PROVEN = Scope(Resource.CLUSTER, Action.ANY_CALLER)
_APPROVER = Scope(Resource.CLUSTER, Action.APPROVE)

Calls = Mapping[str, Mapping[str, Call]]
"""By service and method."""

_SCHEMA_CALLS = {
    "RegisterSchema": routine(
        _SUBJECT.later(WRITE, schema.REGISTER_SCHEMA, lambda c: c.schemas.register, schema.REGISTERED)
    ),
    "GetSchema": _SUBJECT.later(  # the registry checks the subject that the id leads to
        READ, schema.GET_SCHEMA, lambda c: c.schemas.get, schema.SCHEMA_ANSWER, targets=lambda *_: targets.NOTHING
    ),
    "GetLatestSchema": _SUBJECT.later(READ, schema.GET_LATEST_SCHEMA, lambda c: c.schemas.latest, schema.SCHEMA_ANSWER),
    "ListVersions": _SUBJECT.later(READ, schema.LIST_VERSIONS, lambda c: c.schemas.versions, schema.VERSION_INFOS),
    "CheckCompatibility": _SUBJECT.later(
        READ, schema.CHECK_COMPATIBILITY, lambda c: c.schemas.check, schema.COMPATIBILITY
    ),
    "DeleteSchemaVersion": _SUBJECT.later(
        DESTROY, schema.DELETE_SCHEMA_VERSION, lambda c: c.schemas.delete, schema.OUTCOME, makes_room=True
    ),
    "SetCompatibilityMode": _SUBJECT.later(
        WRITE, schema.SET_COMPATIBILITY_MODE, lambda c: c.schemas.set_mode, schema.OUTCOME
    ),
    "ConfigureTopicSchema": _TOPIC_SCHEMA.later(
        WRITE, schema.CONFIGURE_TOPIC_SCHEMA, lambda c: c.schemas.configure_topic, schema.OUTCOME
    ),
    "UpdateTopicValidationPolicy": _TOPIC_SCHEMA.later(
        WRITE, schema.UPDATE_VALIDATION_POLICY, lambda c: c.schemas.update_policy, schema.OUTCOME
    ),
    "GetTopicSchemaConfig": _TOPIC_SCHEMA.later(
        READ, schema.GET_TOPIC_SCHEMA_CONFIG, lambda c: c.schemas.topic_config, schema.TOPIC_SCHEMA_CONFIG
    ),
    "ListSubjects": _PROVEN.later(
        READ, schema.LIST_SUBJECTS, lambda c: lambda _: c.schemas.subjects(), schema.SUBJECTS
    ),
}
"""On both ports, as the original has them."""

_OUR_SCHEMA_CALLS = {
    "RegisterVersion": routine(
        _SUBJECT.later(WRITE, schema.REGISTER_VERSION, lambda c: c.schemas.register_version, schema.VERSION_REGISTERED)
    ),
    "CheckVersion": _SUBJECT.later(
        READ, schema.CHECK_VERSION, lambda c: c.schemas.check_version, schema.CHECKED_VERSION
    ),
    "FindVersion": _SUBJECT.later(
        READ,
        schema.FIND_VERSION,
        lambda c: c.schemas.describe,
        schema.VERSION_DESCRIPTION,
        targets=targets.schema_found,
    ),
    "SetMode": replace(
        _SUBJECT.later(WRITE, schema.SET_MODE, lambda c: c.schemas.mode, schema.MODE), effect_in=targets.of_mode
    ),
}
"""On both ports, too."""

_SCHEDULE_CALLS = {
    "ListSchedules": _CLUSTER.later(READ, plan.LIST_SCHEDULES, lambda c: lambda _: c.schedules.book(), plan.SCHEDULES),
    "PutSchedule": _CLUSTER.later(WRITE, plan.SCHEDULE, lambda c: c.schedules.put, plan.SCHEDULE),
    "RemoveSchedule": _CLUSTER.later(WRITE, plan.SCHEDULE_NAME, lambda c: c.schedules.remove, plan.SCHEDULE),
    "RequestRun": _CLUSTER.later(WRITE, plan.SCHEDULE_NAME, lambda c: c.schedules.request, plan.SCHEDULE),
    "ClaimRunner": routine(_CLUSTER.later(WRITE, plan.CLAIM_RUNNER, lambda c: c.schedules.claim, plan.RUNNER_LEASE)),
    "BeginRun": routine(_CLUSTER.later(WRITE, plan.BEGIN_RUN, lambda c: c.schedules.begin, plan.SCHEDULE)),
}
"""On both ports: administrators keep schedules, and the runner is a client."""


async def _reported(connectors: ConnectorRecords, report: RunnerReport) -> tuple[ConnectorWish, ...]:
    return await connectors.report(replace(report, principal=str(current_principal() or "")))


_CONNECTOR_CALLS = {
    "ReportConnectors": replace(
        routine(
            _PROVEN.later(
                WRITE, plan.REPORT_CONNECTORS, lambda c: partial(_reported, c.connectors), plan.CONNECTOR_WISHES
            )
        ),
        authorize=lambda gate, principal, _: gate.check_bound(principal),
    ),
    "ListConnectors": _CLUSTER.later(
        READ, plan.LIST_CONNECTORS, lambda c: lambda _: c.connectors.book(), plan.CONNECTORS
    ),
    "ChangeConnector": _CLUSTER.later(WRITE, plan.CHANGE_CONNECTOR, lambda c: c.connectors.change, plan.CONNECTOR_WISH),
}
"""On both ports, too. Who has a binding may tell of its own tasks."""

CLIENT_CALLS: Calls = {
    "danube.control.Schedules": _SCHEDULE_CALLS,
    "danube.control.Connectors": _CONNECTOR_CALLS,
    "danube_schema.SchemaRegistry": _SCHEMA_CALLS,
    "danube.control.Schemas": _OUR_SCHEMA_CALLS,
    "danube.ProducerService": {
        "CreateProducer": _PRODUCE.unary(
            WRITE,
            later(client.CREATE_PRODUCER, create_producer, client.PRODUCER_CREATED),
            targets=_PRODUCE.named_in(client.CREATE_PRODUCER),
        ),
        "SendMessage": _PRODUCE.unary(WRITE, send_message, targets=targets.sent),
    },
    "danube.ConsumerService": {
        "Subscribe": _CONSUME.unary(
            WRITE,
            later(client.SUBSCRIBE, subscribe, client.SUBSCRIBED),
            targets=_CONSUME.named_in(client.SUBSCRIBE),
        ),
        "ReceiveMessages": of_a_client(
            _CONSUME.server_stream(READ, lambda context: partial(ReceiveStream, context), targets=targets.received),
            lambda _: ClientKind.CONSUMER,
        ),
        "Ack": _CONSUME.unary(WRITE, acknowledge, targets=targets.acknowledged),
        "Nack": _CONSUME.unary(WRITE, negative_acknowledge, targets=targets.negatively_acknowledged),
    },
    "danube.Discovery": {
        "TopicLookup": _LOOKUP.unary(READ, topic_lookup, targets=targets.looked_up),
        "TopicPartitions": _LOOKUP.unary(READ, topic_partitions, targets=targets.looked_up),
    },
    "danube.HealthCheck": {
        "HealthCheck": of_a_client(
            _CLIENT.unary(READ, now(client.HEALTH_CHECK, health_check, client.HEALTH_STATUS)),
            lambda data: client.HEALTH_CHECK.decode(data).client,
        )
    },
    "danube.AuthService": {
        "Authenticate": _ANYBODY.unary(READ, authenticate),
    },
    "danube.stream.StreamService": {
        "Publish": _PRODUCE.stream(WRITE, lambda context: partial(PublishStream, context), targets=targets.published),
        "Fetch": _CONSUME.server_stream(READ, lambda context: partial(FetchStream, context), targets=targets.fetched),
        "Consume": _CONSUME.stream(WRITE, lambda context: partial(ConsumeStream, context), targets=targets.consumed),
        "Bounds": _CONSUME.unary(
            READ, later(client.BOUNDS, bounds, client.TOPIC_BOUNDS), targets=_CONSUME.named_in(client.BOUNDS)
        ),
        "CloseProducer": of_a_client(_PRODUCE.unary(WRITE, close_producer), lambda _: ClientKind.PRODUCER),
        "CloseConsumer": of_a_client(_CONSUME.unary(WRITE, close_consumer), lambda _: ClientKind.CONSUMER),
    },
}


async def _added(cluster: ClusterControl, wanted: AddNode) -> tuple[bool, str, str]:
    node_id = await cluster.add(wanted)
    return True, node_id, f"node {node_id} follows"


async def _promoted(cluster: ClusterControl, node_id: str) -> tuple[bool, str]:
    await cluster.promote(node_id)
    return True, f"node {node_id} votes"


async def _removed(cluster: ClusterControl, node_id: str) -> tuple[bool, str]:
    await cluster.remove(node_id)
    return True, f"node {node_id} is out"


_NODES = {
    "ClusterStatus": _CLUSTER.later(READ, admin.EMPTY, lambda c: lambda _: c.cluster.status(), admin.CLUSTER_STATUS),
    "AddNode": _CLUSTER.later(WRITE, admin.ADD_NODE, lambda c: partial(_added, c.cluster), admin.NODE_ADDED),
    "PromoteNode": _CLUSTER.later(MOVE, admin.NODE, lambda c: partial(_promoted, c.cluster), admin.NODE_CHANGED),
    "RemoveNode": _CLUSTER.later(DESTROY, admin.NODE, lambda c: partial(_removed, c.cluster), admin.NODE_CHANGED),
}

ADMIN_CALLS: Calls = {
    "danube.AuthService": {"Authenticate": _ANYBODY.unary(READ, authenticate)},
    "danube.control.Schedules": _SCHEDULE_CALLS,
    "danube.control.Connectors": _CONNECTOR_CALLS,
    "danube_schema.SchemaRegistry": _SCHEMA_CALLS,
    "danube.control.Schemas": _OUR_SCHEMA_CALLS,
    "danube_admin.BrokerAdmin": {
        "ListBrokers": _BROKERS.now(READ, admin.EMPTY, lambda c: lambda _: c.brokers.list(), admin.BROKERS),
        "GetLeaderBroker": _BROKERS.now(READ, admin.EMPTY, lambda c: lambda _: c.brokers.leader(), admin.LEADER),
        "ListNamespaces": _PROVEN.unary(READ, later(admin.EMPTY, list_namespaces, admin.NAMESPACES)),
        "UnloadBroker": in_cluster(
            _BROKER.later(MOVE, admin.UNLOAD_BROKER, lambda c: c.moves.unload_broker, admin.BROKER_UNLOADED),
            _NOWHERE_TO_MOVE,
        ),
        "ActivateBroker": in_cluster(
            _BROKER.later(MOVE, admin.ACTIVATE_BROKER, lambda c: c.moves.activate_broker, admin.DONE), _NEVER_DRAINED
        ),
        "GetClusterBalance": in_cluster(
            _CLUSTER.now(
                READ, admin.CLUSTER_BALANCE_OF, lambda c: lambda _: c.balance.balance(), admin.CLUSTER_BALANCE
            ),
            _NOTHING_TO_BALANCE,
        ),
        "TriggerRebalance": in_cluster(
            _CLUSTER.later(MOVE, admin.TRIGGER_REBALANCE, lambda c: c.balance.trigger, admin.REBALANCE_TRIGGERED),
            _NOTHING_TO_BALANCE,
        ),
    },
    "danube_admin.ClusterAdmin": {name: in_cluster(call, _NO_NODES) for name, call in _NODES.items()},
    "danube_admin.NamespaceAdmin": {
        "GetNamespaceTopics": _NAMESPACE.later(
            READ, admin.NAMESPACE, lambda c: c.namespaces.topics, admin.NAMESPACE_TOPICS
        ),
        "GetNamespacePolicies": _NAMESPACE.later(
            READ, admin.NAMESPACE, lambda c: c.namespaces.policies, admin.POLICIES
        ),
        "CreateNamespace": _NAMESPACE.later(WRITE, admin.NAMESPACE, lambda c: c.namespaces.create, admin.DONE),
        "DeleteNamespace": _NAMESPACE.later(
            DESTROY, admin.NAMESPACE, lambda c: c.namespaces.delete, admin.DONE, makes_room=True
        ),
    },
    "danube_admin.TopicAdmin": {
        "CreateTopic": routine(_TOPIC.later(WRITE, admin.CREATE_TOPIC, lambda c: c.topics.create, admin.DONE)),
        "CreatePartitionedTopic": routine(
            _TOPIC.later(WRITE, admin.CREATE_PARTITIONED_TOPIC, lambda c: c.topics.create_partitioned, admin.DONE)
        ),
        "DeleteTopic": _TOPIC.later(DESTROY, admin.TOPIC, lambda c: c.topics.delete, admin.DONE, makes_room=True),
        "Unsubscribe": _TOPIC.later(
            DESTROY, admin.UNSUBSCRIBE, lambda c: c.subscriptions.unsubscribe, admin.DONE, makes_room=True
        ),
        "ListNamespaceTopics": _TOPICS.later(READ, admin.NAMESPACE, lambda c: c.topics.in_namespace, admin.TOPICS),
        "ListBrokerTopics": _BROKER_TOPICS.now(READ, admin.BROKER, lambda c: c.topics.on_broker, admin.TOPICS),
        "DescribeTopic": _TOPIC.later(READ, admin.TOPIC, lambda c: c.topics.describe, admin.TOPIC_DETAILS),
        "ListSubscriptions": _TOPIC.later(READ, admin.TOPIC, lambda c: c.subscriptions.names, admin.SUBSCRIPTIONS),
        "UnloadTopic": in_cluster(
            _TOPIC.later(MOVE, admin.TOPIC, lambda c: c.moves.unload_topic, admin.DONE), _STANDS_ALONE
        ),
        "SetSubscriptionFailurePolicy": carrying_messages(
            replace(
                _TOPIC.later(WRITE, admin.SET_FAILURE_POLICY, lambda c: c.policies.set_failure_policy, admin.DONE),
                effect_in=targets.of_failure_policy,
            )
        ),
        "GetSubscriptionFailurePolicy": _TOPIC.now(
            READ, admin.SUBSCRIPTION, lambda c: c.policies.failure_policy, admin.FAILURE_POLICY
        ),
        "SetSubscriptionDispatchConfig": _TOPIC.later(
            WRITE, admin.SET_DISPATCH_WINDOW, lambda c: c.policies.set_window, admin.DONE
        ),
        "GetSubscriptionDispatchConfig": _TOPIC.now(
            READ, admin.SUBSCRIPTION, lambda c: c.policies.window, admin.DISPATCH_WINDOW
        ),
    },
    "danube.control.Inspection": {
        "DescribeTopics": _TOPIC.later(
            READ, control.DESCRIBE_TOPICS, lambda c: c.descriptions.topics, control.TOPICS_PAGE
        ),
        "ListTopicStates": _TOPICS.now(READ, control.LIST_TOPIC_STATES, lambda c: c.states.list, control.TOPIC_STATES),
        "DescribeBroker": _BROKER.now(
            READ, control.DESCRIBE_BROKER, lambda c: lambda _: c.brokers.describe(), control.BROKER_DESCRIPTION
        ),
        "ReadMetrics": _BROKER.now(READ, control.READ_METRICS, lambda c: c.inspection.metrics, control.METRICS_PAGE),
        "ReadLog": _BROKER.now(READ, control.READ_LOG, lambda c: c.inspection.log, control.LOG_PAGE),
    },
    "danube.control.Cluster": {
        "DescribeCluster": _CLUSTER.later(
            READ, control.DESCRIBE_CLUSTER, lambda c: lambda _: c.cluster.describe(), control.CLUSTER_DESCRIPTION
        ),
        "TransferLeadership": _CLUSTER.later(
            WRITE, control.TRANSFER_LEADERSHIP, lambda c: c.cluster.transfer, control.LEADERSHIP_TRANSFERRED
        ),
    },
    "danube.control.Balance": {
        "GetBalance": _CLUSTER.now(READ, plan.BALANCE, lambda c: lambda _: c.balance.balance(), plan.CLUSTER_BALANCE),
        "PreviewRebalance": _CLUSTER.now(
            READ, plan.REBALANCE_WISH, lambda c: c.balance.preview, plan.REBALANCE_PREVIEW
        ),
        "ListRebalances": _CLUSTER.now(READ, plan.LIST_REBALANCES, lambda c: c.balance.rebalances, plan.REBALANCES),
        "CancelRebalance": _CLUSTER.later(
            WRITE, plan.CANCEL_REBALANCE, lambda c: c.balance.cancel, plan.REBALANCE_CANCELLED
        ),
        "SetRule": _CLUSTER.later(WRITE, plan.SET_RULE, lambda c: c.balance.set_rule, plan.RULES),
        "ClearRule": _CLUSTER.later(WRITE, plan.CLEAR_RULE, lambda c: c.balance.clear_rule, plan.RULES),
        "SetAutomatic": _CLUSTER.later(WRITE, plan.SET_AUTOMATIC, lambda c: c.balance.set_automatic, plan.AUTOMATIC),
    },
    "danube.control.Carry": {
        "Prepare": _BROKERS_ALONE.later(MOVE, control.PREPARE_CARRY, lambda c: c.offers.prepare, control.CARRY_OFFER),
        "ReadSegment": _BROKERS_ALONE.later(READ, control.READ_SEGMENT, lambda c: c.offers.read, control.SEGMENT_PIECE),
    },
    "danube.control.Partitions": {
        "PreviewPolicy": _BROKERS_ALONE.later(
            READ, plan.PREVIEW_POLICY, lambda c: c.plans.effects, plan.POLICY_EFFECTS
        ),
        "PreviewSeek": _BROKERS_ALONE.later(READ, control.SEEK, lambda c: c.positions.preview, control.SEEK_PREVIEW),
        "Seek": _BROKERS_ALONE.later(DESTROY, control.SEEK, lambda c: c.positions.jump, control.POSITION),
    },
    "danube.control.Policies": {
        "GetNamespacePolicies": _NAMESPACE.later(
            READ, control.NAMESPACE_POLICIES_OF, lambda c: c.policies.namespace_policies, control.POLICIES_VIEW
        ),
        "SetNamespacePolicies": _NAMESPACE.later(
            WRITE, control.SET_NAMESPACE_POLICIES, lambda c: c.policies.set_namespace_policies, control.POLICIES_VIEW
        ),
        "GetTopicPolicies": _TOPIC.now(
            READ, control.TOPIC_POLICIES_OF, lambda c: c.policies.topic_policies, control.POLICIES_VIEW
        ),
        "SetTopicPolicies": _TOPIC.later(
            WRITE, control.SET_TOPIC_POLICIES, lambda c: c.policies.set_topic_policies, control.POLICIES_VIEW
        ),
    },
    "danube.control.Positions": {
        "CreateSubscription": routine(
            _TOPIC.later(WRITE, control.CREATE_SUBSCRIPTION, lambda c: c.positions.create, control.POSITION)
        ),
        "Seek": _TOPIC.later(WRITE, control.SEEK, lambda c: c.positions.seek, control.POSITION),
        "RetryBlocked": _TOPIC.now(WRITE, control.SUBSCRIPTION, lambda c: c.positions.retry_blocked, control.POSITION),
        "Peek": _CONSUME.later(READ, control.PEEK, lambda c: c.peeking.peek, control.PEEKED),
        "AddPartitions": _TOPIC.later(
            WRITE, control.ADD_PARTITIONS, lambda c: c.positions.add_partitions, control.PARTITIONS
        ),
        "ListConnections": _TOPIC.now(
            READ, control.LIST_CONNECTIONS, lambda c: c.connections.list, control.CONNECTIONS
        ),
        "DisconnectClient": _TOPIC.now(
            WRITE, control.DISCONNECT_CLIENT, lambda c: c.connections.disconnect, control.DISCONNECTED
        ),
    },
    "danube.control.Plans": {
        "CreatePlan": replace(
            by_operation(
                _CLUSTER.later(WRITE, plan.CREATE_PLAN, lambda c: c.plans.create, plan.PLAN, makes_room=True),
                plan.CREATE_PLAN,
            ),
            effect_in=targets.of_new_plan,
            plan_in=lambda answer: plan.PLAN.decode(answer).plan_id,
        ),
        "GetPlan": _CLUSTER.later(READ, plan.GET_PLAN, lambda c: c.plans.get, plan.PLAN),
        "ListPlans": _CLUSTER.later(READ, plan.LIST_PLANS, lambda c: c.plans.list, plan.PLANS_PAGE),
        "DecidePlan": _APPROVER.later(WRITE, plan.DECIDE_PLAN, lambda c: c.plans.decide, plan.PLAN, makes_room=True),
        "ApplyPlan": replace(
            by_operation(
                _CLUSTER.later(DESTROY, plan.APPLY_PLAN, lambda c: c.plans.apply, plan.PLAN, makes_room=True),
                plan.APPLY_PLAN,
            ),
            has_consent=True,
        ),
    },
    "danube_admin.SecurityAdmin": {
        "CreateRole": replace(
            _CLUSTER.later(WRITE, security.CREATE_ROLE, lambda c: c.security.create_role, security.ROLE_CREATED),
            grants_to=targets.granted_by_role,
        ),
        "GetRole": _CLUSTER.now(READ, security.ROLE_NAME, lambda c: c.security.role, security.ROLE_FOUND),
        "ListRoles": _CLUSTER.now(READ, admin.EMPTY, lambda c: c.security.roles, security.ROLES),
        "DeleteRole": _CLUSTER.later(
            DESTROY, security.DELETE_ROLE, lambda c: c.security.delete_role, security.ROLE_DELETED
        ),
        "CreateBinding": replace(
            _CLUSTER.later(
                WRITE, security.CREATE_BINDING, lambda c: c.security.create_binding, security.BINDING_CREATED
            ),
            grants_to=targets.granted_by_binding,
        ),
        "GetBinding": _CLUSTER.now(READ, security.GET_BINDING, lambda c: c.security.binding, security.BINDING_FOUND),
        "ListBindings": _CLUSTER.now(READ, security.LIST_BINDINGS, lambda c: c.security.bindings, security.BINDINGS),
        "ListAllBindings": _CLUSTER.now(READ, admin.EMPTY, lambda c: c.security.all_bindings, security.BINDINGS),
        "DeleteBinding": _CLUSTER.later(
            DESTROY, security.DELETE_BINDING, lambda c: c.security.delete_binding, security.BINDING_DELETED
        ),
    },
    "danube.control.Security": {
        "Explain": _CLUSTER.now(READ, security.EXPLAIN, lambda c: c.security.explain, security.EXPLAINED),
        "RevokeTokens": _CLUSTER.later(DESTROY, security.REVOKE, lambda c: c.security.revoke, security.REVOCATION),
        "ListRevocations": _CLUSTER.now(
            READ, security.LIST_REVOCATIONS, lambda c: c.security.revocations, security.REVOCATIONS
        ),
        "CreateApiKey": replace(
            _CLUSTER.later(
                WRITE, security.CREATE_API_KEY, lambda c: c.security.create_api_key, security.API_KEY_CREATED
            ),
            grants_to=targets.granted_by_key,
        ),
        "ListApiKeys": _CLUSTER.now(READ, security.LIST_API_KEYS, lambda c: c.security.api_keys, security.API_KEYS),
        "DeleteApiKey": _CLUSTER.later(
            DESTROY, security.DELETE_API_KEY, lambda c: c.security.delete_api_key, security.API_KEY_DELETED
        ),
    },
    "danube.control.Audit": {
        "Record": replace(
            routine(_PROVEN.later(WRITE, plan.AUDIT_ENTRY, lambda c: c.audit.claim, plan.AUDIT_RECEIPT)),
            authorize=lambda gate, principal, _: gate.check_bound(principal),
        ),
        "Read": _CLUSTER.later(READ, plan.READ_AUDIT, lambda c: c.audit.read, plan.STORED_AUDIT_PAGE),
    },
}
