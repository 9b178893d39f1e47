"""Every call of every service, for every kind of caller: what happens is what a table by hand says.

The permissions are those of the original (protocol 11.3), but for Receive, Ack and Nack: Consume on the topic.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from danube.broker.services.catalogue import ADMIN_CALLS, CLIENT_CALLS
from danube.model.errors import DanubeError, NotPermittedError, UnauthenticatedError, UnsupportedError
from danube.model.plans.plan import Effect
from danube.model.security.grants import BindingScope, Permission
from danube.model.security.principal import TokenScope
from danube.rpc.carrier import ClientStream
from danube.wire.gen import (
    DanubeAdmin_pb2,
    DanubeAnalytics_pb2,
    DanubeApi_pb2,
    DanubeAuth_pb2,
    DanubeBalance_pb2,
    DanubeControl_pb2,
    DanubeSecurity_pb2,
    DanubeStream_pb2,
    SchemaRegistry_pb2,
)
from danube.wire.security import messages
from tests.unit.broker.security.conftest import FOREIGN, OWN, ROOT, SecureCell, binding, role, secure_broker

ANYBODY, PROVEN, BOUND = "anybody", "proven", "bound"
"""No proof; proof and no permission; proof and any binding."""
TABLE = {
    "ProducerService": {"CreateProducer": "Produce topic", "SendMessage": "Produce topic"},
    "ConsumerService": {
        "Subscribe": "Consume topic",
        "ReceiveMessages": "Consume anywhere",
        "Ack": "Consume topic",
        "Nack": "Consume topic",
    },
    "Discovery": {"TopicLookup": "Lookup topic", "TopicPartitions": "Lookup topic"},
    "HealthCheck": {"HealthCheck": "Produce anywhere"},  # of a consumer: Consume
    "AuthService": {"Authenticate": ANYBODY},
    "StreamService": {
        "Publish": "Produce topic",
        "Consume": "Consume topic",
        "Fetch": "Consume topic",
        "Bounds": "Consume topic",
        "CloseProducer": "Produce anywhere",
        "CloseConsumer": "Consume anywhere",
    },
    "BrokerAdmin": {
        "ListBrokers": "ManageBroker cluster read",
        "GetLeaderBroker": "ManageBroker cluster read",
        "ListNamespaces": PROVEN,  # and shown what a binding reaches
        "UnloadBroker": "ManageBroker cluster move",
        "ActivateBroker": "ManageBroker cluster move",
        "GetClusterBalance": "ManageCluster cluster read",
        "TriggerRebalance": "ManageCluster cluster move",
    },
    "ClusterAdmin": {
        "ClusterStatus": "ManageCluster cluster read",
        "AddNode": "ManageCluster cluster write",
        "PromoteNode": "ManageCluster cluster move",
        "RemoveNode": "ManageCluster cluster destroy",
    },
    "NamespaceAdmin": {
        "GetNamespaceTopics": "ManageNamespace namespace read",
        "GetNamespacePolicies": "ManageNamespace namespace read",
        "CreateNamespace": "ManageNamespace namespace write",
        "DeleteNamespace": "ManageNamespace namespace destroy",
    },
    "TopicAdmin": {
        "CreateTopic": "ManageTopic topic write",
        "CreatePartitionedTopic": "ManageTopic topic write",
        "DeleteTopic": "ManageTopic topic destroy",
        "Unsubscribe": "ManageTopic topic destroy",
        "ListNamespaceTopics": "ManageTopic namespace read",
        "ListBrokerTopics": "ManageTopic cluster read",
        "DescribeTopic": "ManageTopic topic read",
        "ListSubscriptions": "ManageTopic topic read",
        "UnloadTopic": "ManageTopic topic move",
        "SetSubscriptionFailurePolicy": "ManageTopic+Consume+Produce topic write",  # with dead letters
        "GetSubscriptionFailurePolicy": "ManageTopic topic read",
        "SetSubscriptionDispatchConfig": "ManageTopic topic write",
        "GetSubscriptionDispatchConfig": "ManageTopic topic read",
    },
    "SecurityAdmin": {
        "CreateRole": "ManageCluster cluster write",
        "GetRole": "ManageCluster cluster read",
        "ListRoles": "ManageCluster cluster read",
        "DeleteRole": "ManageCluster cluster destroy",
        "CreateBinding": "ManageCluster cluster write",
        "GetBinding": "ManageCluster cluster read",
        "ListBindings": "ManageCluster cluster read",
        "ListAllBindings": "ManageCluster cluster read",
        "DeleteBinding": "ManageCluster cluster destroy",
    },
    "Security": {
        "Explain": "ManageCluster cluster read",
        "RevokeTokens": "ManageCluster cluster destroy",
        "ListRevocations": "ManageCluster cluster read",
        "CreateApiKey": "ManageCluster cluster write",
        "ListApiKeys": "ManageCluster cluster read",
        "DeleteApiKey": "ManageCluster cluster destroy",
    },
    "Inspection": {
        "DescribeTopics": "ManageTopic topic read",
        "ListTopicStates": "ManageTopic namespace read",
        "DescribeBroker": "ManageBroker cluster read",
        "ReadMetrics": "ManageBroker cluster read",
        "ReadLog": "ManageBroker cluster read",
    },
    "Cluster": {
        "DescribeCluster": "ManageCluster cluster read",
        "TransferLeadership": "ManageCluster cluster write",
    },
    "Carry": {"Prepare": "Replicate cluster", "ReadSegment": "Replicate cluster"},
    "Partitions": {
        "PreviewPolicy": "Replicate cluster",
        "PreviewSeek": "Replicate cluster",
        "Seek": "Replicate cluster",
    },
    "Policies": {
        "GetNamespacePolicies": "ManageNamespace namespace read",
        "SetNamespacePolicies": "ManageNamespace namespace write",
        "GetTopicPolicies": "ManageTopic topic read",
        "SetTopicPolicies": "ManageTopic topic write",
    },
    "Positions": {
        "CreateSubscription": "ManageTopic topic write",
        "Seek": "ManageTopic topic write",
        "RetryBlocked": "ManageTopic topic write",
        "Peek": "Consume topic",
        "AddPartitions": "ManageTopic topic write",
        "ListConnections": "ManageTopic topic read",
        "DisconnectClient": "ManageTopic topic write",
    },
    "Plans": {
        "CreatePlan": "ManageTopic topic write",
        "GetPlan": "ManageCluster cluster read",
        "ListPlans": "ManageCluster cluster read",
        "DecidePlan": "Approve cluster",
        "ApplyPlan": "ManageTopic topic destroy",
    },
    "SchemaRegistry": {
        "RegisterSchema": "ManageSchema subject write",
        "GetSchema": "ManageSchema cluster read",  # of an unknown id; else of the subject that it leads to
        "GetLatestSchema": "ManageSchema subject read",
        "ListVersions": "ManageSchema subject read",
        "CheckCompatibility": "ManageSchema subject read",
        "DeleteSchemaVersion": "ManageSchema subject destroy",
        "SetCompatibilityMode": "ManageSchema subject write",
        "ConfigureTopicSchema": "ManageSchema topic write",
        "UpdateTopicValidationPolicy": "ManageSchema topic write",
        "GetTopicSchemaConfig": "ManageSchema topic read",
        "ListSubjects": PROVEN,  # and shown what the caller may read
    },
    "Schemas": {
        "RegisterVersion": "ManageSchema subject write",
        "CheckVersion": "ManageSchema subject read",
        "FindVersion": "ManageSchema subject read",
        "SetMode": "ManageSchema subject write",
    },
    "Balance": {
        "GetBalance": "ManageCluster cluster read",
        "PreviewRebalance": "ManageCluster cluster read",
        "ListRebalances": "ManageCluster cluster read",
        "CancelRebalance": "ManageCluster cluster write",
        "SetRule": "ManageCluster cluster write",
        "ClearRule": "ManageCluster cluster write",
        "SetAutomatic": "ManageCluster cluster write",
    },
    "Schedules": {
        "ListSchedules": "ManageCluster cluster read",
        "PutSchedule": "ManageCluster cluster write",
        "RemoveSchedule": "ManageCluster cluster write",
        "RequestRun": "ManageCluster cluster write",
        "ClaimRunner": "ManageCluster cluster write",
        "BeginRun": "ManageCluster cluster write",
    },
    "Connectors": {
        "ReportConnectors": BOUND,
        "ListConnectors": "ManageCluster cluster read",
        "ChangeConnector": "ManageCluster cluster write",
    },
    "Audit": {"Record": BOUND, "Read": "ManageCluster cluster read"},
}

CALLERS: dict[str, dict[str, Any]] = {
    "stranger": {},
    "producer": {"roles": ["producer"], "scope": BindingScope.TOPIC, "resource": OWN},
    "consumer": {"roles": ["consumer"], "scope": BindingScope.NAMESPACE, "resource": "default"},
    "observer": {"roles": ["observer"]},
    "operator": {"roles": ["operator"]},
    "topic-owner": {"roles": ["topics"], "scope": BindingScope.TOPIC, "resource": OWN},
    "owner": {"roles": ["owner"], "scope": BindingScope.NAMESPACE, "resource": "default"},
    "admin": {"roles": ["admin"]},
}
GRANTED = {
    "stranger": "",
    "producer": "Lookup Produce",
    "consumer": "Lookup Consume",
    "observer": "Lookup View",
    "operator": "Lookup View ManageTopic ManageBroker ManageSchema",
    "topic-owner": "ManageTopic",
    "owner": "Lookup View Produce Consume ManageNamespace ManageTopic ManageSchema",
    "admin": "Lookup View Produce Consume Replicate Approve ManageTopic ManageBroker ManageSchema ManageNamespace"
    " ManageCluster",
}
REACH = {
    "producer": {("topic", OWN)},
    "consumer": {("topic", OWN), ("namespace", OWN)},
    "topic-owner": {("topic", OWN)},
    "owner": {("topic", OWN), ("namespace", OWN)},
}
"""Kinds of resources and whose; all for callers that are not here."""


def expected(caller: str, word: str, resource: str) -> bool:
    """Verdict of the table."""
    if word in {ANYBODY, PROVEN}:
        return True
    if word == BOUND:
        return bool(GRANTED[caller])
    permission, kind, *effect = word.split()
    granted = set(GRANTED[caller].split())
    enough = set(permission.split("+")) <= granted or (effect == ["read"] and "View" in granted)
    return enough and (caller not in REACH or kind == "anywhere" or (kind, resource) in REACH[caller])


Calls = set[tuple[str, str]]


def test_the_table_has_every_call_and_misses_one_that_goes() -> None:
    calls = {
        (service.rpartition(".")[2], method)
        for service, methods in {**CLIENT_CALLS, **ADMIN_CALLS}.items()
        for method in methods
    }
    assert differences(calls) == set()
    for call in calls:
        assert differences(calls - {call}) == {call}


def differences(calls: Calls) -> Calls:
    return calls ^ {(service, method) for service, methods in TABLE.items() for method in methods}


async def test_a_call_without_an_entry_does_not_exist(secure: SecureCell) -> None:
    for is_admin, path in ((True, "/danube_admin.BrokerAdmin/Nothing"), (False, "/danube.Nobody/Nothing")):
        with pytest.raises(UnsupportedError):
            await secure.channel(secure.token(ROOT), admin=is_admin).call(path)


@pytest.mark.parametrize("resource", [OWN, FOREIGN])
async def test_every_call_is_answered_or_refused_as_the_table_says(
    resource: str, tmp_path: Path, authority: Path
) -> None:
    surprises = []
    async with secure_broker(tmp_path, authority) as secure:
        await grant(secure)
        before = await digest(secure)
        for caller in (name for name in CALLERS if name != "admin"):
            surprises += [one async for one in surprising(secure, caller, resource)]
        assert await digest(secure) == before or caller == "operator"
        surprises += [one async for one in surprising(secure, "admin", resource)]
    assert surprises == []


async def grant(secure: SecureCell) -> None:
    root = secure.channel(secure.token(ROOT))
    topics = role("topics", Permission.MANAGE_TOPIC)
    await root.call("/danube_admin.SecurityAdmin/CreateRole", messages.CREATE_ROLE.encode(topics))
    for name, given in CALLERS.items():
        if given:
            scope, at = given.get("scope", BindingScope.CLUSTER), given.get("resource", "")
            wanted = binding(name, *given["roles"], scope=scope, resource=at)
            await root.call("/danube_admin.SecurityAdmin/CreateBinding", messages.CREATE_BINDING.encode(wanted))


async def digest(secure: SecureCell) -> bytes:
    """Roles, bindings and topics: what a refused call must leave as it is."""
    root = secure.channel(secure.token(ROOT))
    bindings = await root.call("/danube_admin.SecurityAdmin/ListAllBindings")
    return bindings + await root.call("/danube_admin.BrokerAdmin/ListNamespaces")


async def surprising(secure: SecureCell, caller: str, resource: str) -> Any:
    token = secure.token(caller)
    for path, request, is_admin, streams in requests(resource):
        service, method = path.strip("/").rpartition(".")[2].split("/")
        channel = secure.channel(token, admin=is_admin)
        try:
            if streams:
                await first_answer(channel.channel.stream(path, metadata=channel.metadata), request)
            else:
                await channel.call(path, request)
        except (NotPermittedError, UnauthenticatedError) as error:
            is_allowed = not str(error).startswith(("no binding grants", "Authentication", "a token of scope"))
            is_allowed = is_allowed and not (isinstance(error, UnauthenticatedError) and method != "Authenticate")
        except DanubeError:
            is_allowed = True  # the gate let it pass, and the handler had something to say
        else:
            is_allowed = True
        wanted = expected(caller, TABLE[service][method], resource)
        if is_allowed is not wanted:
            yield f"{caller}: {service}/{method} on {resource}: {is_allowed}, the table says {wanted}"


async def first_answer(stream: ClientStream, request: bytes) -> None:
    try:
        await stream.send(request)
        await stream.half_close()
        await stream.receive()
    finally:
        stream.cancel()


def requests(resource: str) -> Iterator[tuple[str, bytes, bool, bool]]:
    """Path, request, whether on the admin port, and whether it opens a stream; destroying ones last."""
    found = []
    for calls, is_admin in ((CLIENT_CALLS, False), (ADMIN_CALLS, True)):
        for service, methods in calls.items():
            for method, call in methods.items():
                request = filled(service, method, resource).SerializeToString()
                streams = call.unary is None
                found.append((call.effect is Effect.DESTROY, f"/{service}/{method}", request, is_admin, streams))
    for _, path, request, is_admin, streams in sorted(found, key=lambda one: one[0]):
        yield path, request, is_admin, streams


FILES = [
    DanubeAdmin_pb2,
    DanubeAnalytics_pb2,
    DanubeApi_pb2,
    DanubeAuth_pb2,
    DanubeBalance_pb2,
    DanubeControl_pb2,
    DanubeSecurity_pb2,
    DanubeStream_pb2,
    SchemaRegistry_pb2,
]


def filled(service: str, method: str, resource: str) -> Message:
    """The request of a method with the resource in the field that names it."""
    name = service.rpartition(".")[2]
    file = next(
        file
        for file in FILES
        if name in file.DESCRIPTOR.services_by_name and service.startswith(file.DESCRIPTOR.package)
    )
    kind = file.DESCRIPTOR.services_by_name[name].methods_by_name[method].input_type
    message = GetMessageClass(kind)()
    if method == "PreviewPolicy":
        message.operation = "set_topic_retention"  # type: ignore[attr-defined]
        message.arguments = json.dumps({"topic": resource, "time_s": 0})  # type: ignore[attr-defined]
    elif name == "Plans" and method in {"CreatePlan", "ApplyPlan"}:
        message.operation = "delete_topic"  # type: ignore[attr-defined]
        message.arguments = json.dumps({"topic": resource})  # type: ignore[attr-defined]
        if method == "CreatePlan":
            message.effect = "destroy"  # type: ignore[attr-defined]
        message.caller.who, message.caller.face = "somebody", "cli"  # type: ignore[attr-defined]
    else:
        fill(message, resource, in_namespaces="namespace" in TABLE[name][method])
    return message


def fill(message: Message, resource: str, *, in_namespaces: bool, depth: int = 3) -> None:
    for field in message.DESCRIPTOR.fields:
        if field.type == FieldDescriptor.TYPE_MESSAGE and not field.is_repeated and depth:
            first_of_one = field.containing_oneof is None or field.containing_oneof.fields[0] is field
            is_map = field.message_type is not None and field.message_type.GetOptions().map_entry
            if first_of_one and not is_map:
                fill(getattr(message, field.name), resource, in_namespaces=in_namespaces, depth=depth - 1)
        elif field.type == FieldDescriptor.TYPE_STRING and not field.is_repeated:
            if field.name != "namespace" or "topics" not in message.DESCRIPTOR.fields_by_name:
                setattr(message, field.name, text_of(field.name, resource, in_namespaces=in_namespaces))
        elif field.name == "topics":
            getattr(message, field.name).append(resource)


def text_of(name: str, resource: str, *, in_namespaces: bool) -> str:
    namespace = resource.split("/")[1]
    if name == "namespace":
        return namespace
    if name in {"topic", "topic_name", "name", "base_name", "dead_letter_topic"}:
        return namespace if in_namespaces else resource
    return {"scope": "topic", "face": "cli", "permission": "Lookup", "effect": "read"}.get(name, "some")


@pytest.mark.parametrize("token", [None, "garbage"])
async def test_without_proof_every_call_but_the_exchange_of_keys_is_refused(
    token: str | None, secure: SecureCell
) -> None:
    passed = []
    for path, request, is_admin, streams in requests(OWN):
        channel = secure.channel(token, admin=is_admin)
        try:
            if streams:
                await first_answer(channel.channel.stream(path, metadata=channel.metadata), request)
            else:
                await channel.call(path, request)
        except UnauthenticatedError:
            continue
        passed.append(path)
    assert passed == []


@pytest.mark.parametrize(
    ("scope", "path", "allowed"),
    [
        (TokenScope.OBSERVER, "/danube_admin.BrokerAdmin/ListBrokers", True),
        (TokenScope.OBSERVER, "/danube_admin.NamespaceAdmin/CreateNamespace", False),
        (TokenScope.OPERATOR, "/danube_admin.NamespaceAdmin/CreateNamespace", True),
        (TokenScope.OPERATOR, "/danube.control.Plans/DecidePlan", False),
    ],
)
async def test_a_token_of_a_scope_does_less_than_its_principal(
    scope: TokenScope, path: str, allowed: bool, secure: SecureCell
) -> None:
    service, method = path.strip("/").split("/")
    request = filled(service, method, "/fresh/mine").SerializeToString()
    try:
        await secure.channel(secure.token(ROOT, scope)).call(path, request)
    except NotPermittedError as error:
        assert not allowed, error
    else:
        assert allowed
