"""Two tenants: an id, a reference, a schema or a policy leads nobody to what no binding grants."""

from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, replace
from typing import Any

import pytest
from google.protobuf.descriptor import FieldDescriptor

from danube.broker.services.call import Resource
from danube.broker.services.catalogue import ADMIN_CALLS, CLIENT_CALLS
from danube.metadata.connectors import records
from danube.model.calls.client import (
    AccessMode,
    ClientKind,
    CreateProducer,
    HealthCheck,
    HealthStatus,
    Lookup,
    Receive,
    SchemaReference,
    Subscribe,
)
from danube.model.calls.schemas import CheckVersion, FindVersion, RegisteredSchema, RegisterVersion
from danube.model.calls.security import BindingKey
from danube.model.errors import (
    AlreadyExistsError,
    ConsumerNotFoundError,
    DanubeError,
    LimitReachedError,
    NotFoundError,
    NotPermittedError,
    PreconditionFailedError,
)
from danube.model.policies import FailurePolicy, PoisonPolicy, SetFailurePolicy, SubscriptionName
from danube.model.records.connectors import RunnerReport
from danube.model.schema import SchemaImport, SchemaType
from danube.model.security.grants import BindingScope
from danube.model.subscription import SubscriptionType
from danube.model.topic import DispatchStrategy, TopicName
from danube.rpc.carrier import ClientStream
from danube.wire import admin_messages, client_messages, plan_messages
from danube.wire import schema_messages as schema
from danube.wire.security import messages
from tests.unit.broker.security.conftest import FOREIGN, OWN, ROOT, Proven, SecureCell, binding
from tests.unit.broker.security.test_matrix import filled

RECORD = b'{"type": "record", "name": "Order", "fields": [{"name": "secret_field", "type": "int"}]}'
CONNECTORS = "/danube.control.Connectors"
FIND_VERSION = "/danube.control.Schemas/FindVersion"
USER = b'{"type": "record", "name": "User", "fields": [{"name": "order", "type": "Order"}]}'


@dataclass(frozen=True, slots=True)
class Tenants:
    """The owner of the namespace `default`, the owner of `other`, and administrators."""

    secure: SecureCell

    def of(self, name: str) -> Proven:
        return self.secure.channel(self.secure.token(name))

    def client(self, name: str) -> Proven:
        return self.secure.channel(self.secure.token(name), admin=False)

    async def bind(self, name: str, *roles: str, at: str, scope: BindingScope = BindingScope.NAMESPACE) -> None:
        wanted = replace(binding(name, *roles, scope=scope, resource=at), id=f"{name}-{at}".replace("/", "-"))
        await self.of(ROOT).call("/danube_admin.SecurityAdmin/CreateBinding", messages.CREATE_BINDING.encode(wanted))

    async def register(self, name: str, subject: str, definition: bytes = RECORD, *to: SchemaImport) -> int:
        wanted = RegisterVersion(subject=subject, type=SchemaType.AVRO, definition=definition, references=to)
        made = await self.of(name).call(
            "/danube.control.Schemas/RegisterVersion", schema.REGISTER_VERSION.encode(wanted)
        )
        answer: RegisteredSchema = schema.VERSION_REGISTERED.decode(made)
        return answer.schema_id

    async def find(self, name: str, **wanted: Any) -> str:
        asked = schema.FIND_VERSION.encode(FindVersion(**wanted))
        found = await self.of(name).call(FIND_VERSION, asked)
        return schema.VERSION_DESCRIPTION.decode(found).subject

    async def report(self, name: str, report: RunnerReport) -> None:
        await self.client(name).call(f"{CONNECTORS}/ReportConnectors", plan_messages.REPORT_CONNECTORS.encode(report))

    async def runners(self) -> dict[str, str]:
        """The principals of all runners, by name."""
        found = await self.of(ROOT).call(f"{CONNECTORS}/ListConnectors", b"")
        return {one.runner: one.principal for one in plan_messages.CONNECTORS.decode(found).runners}

    async def set_dead_letters(self, name: str, source: str, target: str) -> None:
        policy = FailurePolicy(poison=PoisonPolicy.DEAD_LETTER, dead_letter_topic=TopicName.parse(target))
        wanted = SetFailurePolicy(
            name=SubscriptionName(topic=TopicName.parse(source), subscription="readers"), policy=policy
        )
        request = admin_messages.SET_FAILURE_POLICY.encode(wanted)
        await self.of(name).call("/danube_admin.TopicAdmin/SetSubscriptionFailurePolicy", request)


@pytest.fixture
async def tenants(secure: SecureCell) -> AsyncIterator[Tenants]:
    found = Tenants(secure)
    await found.bind("owner", "owner", at="default")
    await found.bind("other", "owner", at="other")
    for topic in (OWN, FOREIGN):
        await secure.create_topic(topic)
    yield found


# Two ways to name a thing

LEADS = {
    # the registry checks the subject that an id leads to
    "GetSchema": {"schema_id"},
    "FindVersion": {"subject", "number", "schema_id"},
    # the registry checks each reference, and the subject that a topic begins to follow
    "RegisterVersion": {"subject", "references.subject"},
    "CheckVersion": {"subject", "references.subject"},
    "ConfigureTopicSchema": {"topic_name", "schema_subject"},
    "CreateTopic": {"name", "schema_subject"},
    "CreatePartitionedTopic": {"base_name", "schema_subject"},
    "CreateProducer": {"topic_name", "schema_ref.subject"},
    "Publish": {"open.topic_name", "open.schema_ref.subject"},
    # the topic is checked, and nothing else of it is looked at for an id of another topic
    "SendMessage": {"msg_id.topic_name", "msg_id.producer_id", "schema_id"},
    "Ack": {"msg_id.topic_name", "msg_id.producer_id"},
    "Nack": {"msg_id.topic_name", "msg_id.producer_id"},
    "DisconnectClient": {"topic", "client_id"},
    # an id alone: the handler answers those of others as unknown
    "ReceiveMessages": {"consumer_id"},
    "CloseProducer": {"producer_id"},
    "CloseConsumer": {"consumer_id"},
    "HealthCheck": {"id"},
    # both are checked
    "DescribeTopics": {"namespace", "topics"},
    "SetSubscriptionFailurePolicy": {"topic", "failure_policy.dead_letter_topic"},
}
"""Calls of tenants that name a thing by an id, or more than one thing."""
NAMES = {"topic", "topic_name", "name", "base_name", "topics", "namespace", "subject", "schema_subject"}
NAMES |= {"dead_letter_topic"}
IDS = {"id", "schema_id", "number", "producer_id", "consumer_id", "client_id"}


def naming_fields(kind: Any, prefix: str = "") -> Iterator[str]:
    for field in kind.fields:
        is_map = field.message_type is not None and field.message_type.GetOptions().map_entry
        if field.type == FieldDescriptor.TYPE_MESSAGE and not is_map:
            yield from naming_fields(field.message_type, f"{prefix}{field.name}.")
        elif field.name in NAMES | IDS and f"{prefix}{field.name}" != "references.name":
            yield f"{prefix}{field.name}"


def test_every_call_that_names_a_thing_in_two_ways_or_by_an_id_is_written_down_here() -> None:
    found = {}
    for services in (CLIENT_CALLS, ADMIN_CALLS):
        for service, methods in services.items():
            for method, call in methods.items():
                fields = set(naming_fields(filled(service, method, OWN).DESCRIPTOR))
                is_of_tenants = call.resource in {Resource.TOPIC, Resource.NAMESPACE, Resource.SUBJECT}
                if is_of_tenants and (len(fields) > 1 or {each.rpartition(".")[2] for each in fields} & IDS):
                    found[method] = fields
    assert found == LEADS


async def test_an_id_or_a_number_answers_the_schema_of_another_tenant_to_nobody_else(tenants: Tenants) -> None:
    theirs = await tenants.register("other", "other-theirs")
    mine = await tenants.register("owner", "default-mine")
    for wanted in ({"number": 1}, {"schema_id": theirs}, {"number": 99}, {"schema_id": 99}):
        for named in ({}, {"subject": "default-mine"}):
            with pytest.raises(NotPermittedError, match="no binding grants ManageSchema on the cluster") as refused:
                await tenants.find("owner", **wanted, **named)
            assert "other" not in str(refused.value)
    assert await tenants.find("owner", subject="default-mine", number=2) == "default-mine"
    assert await tenants.find("owner", schema_id=mine) == "default-mine"
    assert await tenants.find(ROOT, number=1) == "other-theirs"
    for schema_id in (theirs, 99):
        with pytest.raises(NotPermittedError, match="on the cluster"):
            await get_schema(tenants, "owner", schema_id)
    assert await get_schema(tenants, "owner", mine) == "default-mine"
    with pytest.raises(NotFoundError):
        await get_schema(tenants, ROOT, 99)


async def get_schema(tenants: Tenants, name: str, schema_id: int) -> str:
    found = await tenants.client(name).call(
        "/danube_schema.SchemaRegistry/GetSchema", schema.GET_SCHEMA.encode((schema_id, None))
    )
    return schema.SCHEMA_ANSWER.decode(found).subject


async def subjects(tenants: Tenants, name: str) -> list[str]:
    found = await tenants.client(name).call("/danube_schema.SchemaRegistry/ListSubjects")
    return [one.subject for one in schema.SUBJECTS.decode(found)]


async def test_the_list_of_subjects_has_those_that_the_caller_may_view(tenants: Tenants) -> None:
    for name, subject in {"owner": "default-mine", "other": "other-theirs", ROOT: "nobodys"}.items():
        await tenants.register(name, subject)
    assert await subjects(tenants, "owner") == ["default-mine"]
    assert await subjects(tenants, "other") == ["other-theirs"]
    assert await subjects(tenants, "nobody") == []
    assert await subjects(tenants, ROOT) == ["default-mine", "nobodys", "other-theirs"]
    await tenants.bind("owner", "observer", at="other-theirs", scope=BindingScope.TOPIC)
    assert await subjects(tenants, "owner") == ["default-mine", "other-theirs"]


async def test_uses_of_a_subject_name_the_topics_that_the_caller_may_see_and_count_the_others(
    tenants: Tenants,
) -> None:
    await tenants.register("owner", "default-mine")
    await tenants.bind("other", "observer", at="default-mine", scope=BindingScope.TOPIC)
    for name, topic in {"owner": OWN, "other": FOREIGN}.items():
        request = filled("danube_schema.SchemaRegistry", "ConfigureTopicSchema", topic)
        request.topic_name, request.schema_subject, request.validation_policy = topic, "default-mine", "enforce"  # type: ignore[attr-defined]
        path = "/danube_schema.SchemaRegistry/ConfigureTopicSchema"
        await tenants.of(ROOT if name == "other" else name).call(path, request.SerializeToString())
    plan = filled("danube.control.Plans", "CreatePlan", OWN)
    plan.operation, plan.arguments = "delete_schema_version", '{"subject": "default-mine", "version": 1}'  # type: ignore[attr-defined]
    plan.dry_run = True  # type: ignore[attr-defined]
    for name, seen, others in (("owner", [OWN], 1), ("other", [FOREIGN], 1), (ROOT, [OWN, FOREIGN], 0)):
        asked = schema.FIND_VERSION.encode(FindVersion(subject="default-mine"))
        found = schema.VERSION_DESCRIPTION.decode(await tenants.of(name).call(FIND_VERSION, asked))
        assert ([use.topic for use in found.uses], found.unseen_uses) == (seen, others), name
    for name, seen in (("owner", [OWN]), (ROOT, [OWN, FOREIGN])):
        made = await tenants.of(name).call("/danube.control.Plans/CreatePlan", plan.SerializeToString())
        impact = plan_messages.PLAN.decode(made).impact
        assert (list(impact.topics), impact.topic_count) == (seen, 2)
        assert any("you may not see" in change for change in impact.changes) is (name == "owner")


# References, and topics that follow


async def test_a_reference_needs_view_on_its_subject_and_tells_nothing_of_it(tenants: Tenants) -> None:
    await tenants.register("other", "other-theirs")
    for subject in ("other-theirs", "other-nothing"):
        to = SchemaImport("Order", subject, 1)
        with pytest.raises(NotPermittedError, match=f"no binding grants ManageSchema on {subject}"):
            await tenants.register("owner", "default-mine", USER, to)
        asked = CheckVersion(subject="default-mine", type=SchemaType.AVRO, definition=USER, references=(to,))
        with pytest.raises(NotPermittedError, match=f"no binding grants ManageSchema on {subject}"):
            await tenants.of("owner").call("/danube.control.Schemas/CheckVersion", schema.CHECK_VERSION.encode(asked))
    await tenants.bind("owner", "observer", at="other-theirs", scope=BindingScope.TOPIC)
    assert await tenants.register("owner", "default-mine", USER, SchemaImport("Order", "other-theirs", 1))


async def test_an_import_of_another_tenants_subject_is_as_one_that_is_not_there(tenants: Tenants) -> None:
    said = []
    for name in ("other-theirs", "other-absent"):
        if name == "other-theirs":
            wanted = RegisterVersion(
                subject=name,
                type=SchemaType.PROTOBUF,
                definition=b'syntax = "proto3"; message Order { int32 secret = 1; }',
            )
            await tenants.of("other").call(
                "/danube.control.Schemas/RegisterVersion", schema.REGISTER_VERSION.encode(wanted)
            )
        text = f'syntax = "proto3"; import "{name}"; message User {{ Order order = 1; }}'.encode()
        request = filled("danube_schema.SchemaRegistry", "RegisterSchema", OWN)
        request.subject, request.schema_type, request.schema_definition = "default-mine", "protobuf", text  # type: ignore[attr-defined]
        with pytest.raises(DanubeError) as refused:
            await tenants.of("owner").call("/danube_schema.SchemaRegistry/RegisterSchema", request.SerializeToString())
        said.append(str(refused.value).replace(name, "it"))
    assert said[0] == said[1]


async def test_a_version_that_others_refer_to_says_how_many_and_names_those_that_its_owner_may_view(
    tenants: Tenants,
) -> None:
    await tenants.register("owner", "default-mine")
    await tenants.bind("other", "observer", at="default-mine", scope=BindingScope.TOPIC)
    to = SchemaImport("Order", "default-mine", 1)
    await tenants.register("other", "other-theirs", USER, to)
    await tenants.register("owner", "default-user", USER, to)
    request = filled("danube_schema.SchemaRegistry", "DeleteSchemaVersion", OWN)
    request.subject, request.version = "default-mine", 1  # type: ignore[attr-defined]
    for name, told in {
        "owner": "while 2 refer to it: version 1 of default-user and 1 of subjects that you may not view",
        ROOT: "while 2 refer to it: version 1 of default-user, version 1 of other-theirs",
    }.items():
        with pytest.raises(PreconditionFailedError, match=told) as refused:
            await tenants.of(name).call(
                "/danube_schema.SchemaRegistry/DeleteSchemaVersion", request.SerializeToString()
            )
        assert name == ROOT or "theirs" not in str(refused.value)


async def test_a_topic_follows_no_subject_that_its_keeper_may_not_view(tenants: Tenants) -> None:
    await tenants.register("other", "other-theirs")
    ways: dict[str, dict[str, Any]] = {
        "/danube_schema.SchemaRegistry/ConfigureTopicSchema": {"topic_name": OWN, "validation_policy": "enforce"},
        "/danube_admin.TopicAdmin/CreateTopic": {"name": "/default/new"},
        "/danube_admin.TopicAdmin/CreatePartitionedTopic": {"base_name": "/default/parts", "partitions": 2},
    }
    for path, values in ways.items():
        request = filled(*path.strip("/").split("/"), OWN)  # type: ignore[call-arg]
        for field, value in {**values, "schema_subject": "other-theirs"}.items():
            setattr(request, field, value)
        with pytest.raises(NotPermittedError, match="no binding grants you View on other-theirs"):
            await tenants.of("owner").call(path, request.SerializeToString())
    with pytest.raises(NotPermittedError, match="no binding grants you View on other-theirs"):
        await attach(tenants, "owner", OWN, "other-theirs")
    await tenants.register("owner", "default-mine")
    await attach(tenants, "owner", OWN, "default-mine")
    await tenants.bind("producer", "producer", at="default")
    await attach(tenants, "producer", OWN, "default-mine")


async def attach(tenants: Tenants, name: str, topic: str, subject: str | None = None) -> int:
    wanted = CreateProducer(
        request_id=1,
        topic=TopicName.parse(topic),
        producer_name=f"of-{name}",
        strategy=DispatchStrategy.RELIABLE,
        access_mode=AccessMode.SHARED,
        schema=SchemaReference(subject=subject) if subject else None,
    )
    made = await tenants.client(name).call(
        "/danube.ProducerService/CreateProducer", client_messages.CREATE_PRODUCER.encode(wanted)
    )
    return client_messages.PRODUCER_CREATED.decode(made).producer_id


# Schemas of a namespace


async def test_an_owner_of_a_namespace_registers_schemas_for_its_own_topics(tenants: Tenants) -> None:
    for subject in ("default-mine", "/default/mine", "default-not-there-yet"):
        assert await tenants.register("owner", subject)
        with pytest.raises(NotPermittedError, match=f"no binding grants ManageSchema on {subject}"):
            await tenants.register("other", subject)
    for subject in ("mine", "mine-value", "other-theirs", "default", "/other/theirs", "defaults-x"):
        with pytest.raises(NotPermittedError, match=f"no binding grants ManageSchema on {subject}"):
            await tenants.register("owner", subject)


async def test_a_subject_whose_name_fits_two_namespaces_belongs_to_neither(tenants: Tenants) -> None:
    assert await tenants.register("owner", "default-eu-orders")
    await tenants.bind("europe", "owner", at="default-eu")
    await tenants.of(ROOT).call(
        "/danube_admin.NamespaceAdmin/CreateNamespace", admin_messages.NAMESPACE.encode("default-eu")
    )
    for name in ("owner", "europe"):
        with pytest.raises(NotPermittedError):
            await tenants.register(name, "default-eu-orders", RECORD)
    assert await tenants.register("europe", "/default-eu/orders")
    assert await tenants.register("owner", "/default/eu-orders")


async def test_an_owner_plans_the_deletion_of_its_own_schemas_alone(tenants: Tenants) -> None:
    for name in ("owner", "other"):
        await tenants.register(name, {"owner": "default-mine", "other": "other-theirs"}[name])
    request = filled("danube.control.Plans", "CreatePlan", OWN)
    request.operation, request.arguments = "delete_schema_version", '{"subject": "default-mine", "version": 1}'  # type: ignore[attr-defined]
    await tenants.of("owner").call("/danube.control.Plans/CreatePlan", request.SerializeToString())
    with pytest.raises(NotPermittedError, match="no binding grants ManageSchema on default-mine"):
        await tenants.of("other").call("/danube.control.Plans/CreatePlan", request.SerializeToString())


# Dead letters


@pytest.mark.parametrize("missing", ["consumer", "producer"])
async def test_a_policy_carries_messages_only_for_one_who_may_carry_them(missing: str, tenants: Tenants) -> None:
    await tenants.bind("keeper", "operator", *{"consumer", "producer"} - {missing}, at="default")
    await tenants.secure.create_topic("/default/letters")
    with pytest.raises(NotPermittedError, match=f"no binding grants {missing[:-1].capitalize()} on"):
        await tenants.set_dead_letters("keeper", OWN, "/default/letters")
    await tenants.bind(
        "keeper", missing, at=OWN if missing == "consumer" else "/default/letters", scope=BindingScope.TOPIC
    )
    await tenants.set_dead_letters("keeper", OWN, "/default/letters")


async def test_dead_letters_neither_come_from_nor_go_to_a_topic_of_others(tenants: Tenants) -> None:
    for source, target in ((OWN, FOREIGN), (FOREIGN, OWN)):
        with pytest.raises(NotPermittedError, match=f"on {FOREIGN}"):
            await tenants.set_dead_letters("owner", source, target)


# Ids of clients


async def test_clients_of_others_are_answered_as_unknown_ones_and_stay(tenants: Tenants) -> None:
    producer = await attach(tenants, "other", FOREIGN)
    consumer = await joined(tenants, "other", FOREIGN)
    for name in ("nobody", "owner"):
        for kind, identity in ((ClientKind.PRODUCER, producer), (ClientKind.CONSUMER, consumer)):
            foreign = [await outcome(tenants, name, kind, identity) for _ in range(3)]
            unknown = [await outcome(tenants, name, kind, 77) for _ in range(3)]
            assert foreign == [each.replace("77", str(identity)) for each in unknown], name
            assert all(("no binding grants" in each) is (name == "nobody") for each in foreign)
    for kind, identity in ((ClientKind.PRODUCER, producer), (ClientKind.CONSUMER, consumer)):
        assert await health(tenants, "other", kind, identity) is HealthStatus.OK
        assert await outcome(tenants, "other", kind, identity) == f"{HealthStatus.OK} closed"


async def test_a_consumer_of_others_is_answered_as_an_unknown_one_to_whoever_receives(tenants: Tenants) -> None:
    consumer = await joined(tenants, "other", FOREIGN)
    said, expected = {}, {"owner": ConsumerNotFoundError, "nobody": NotPermittedError}
    for name, kind in expected.items():
        for identity in (consumer, 77):
            stream = receiving(tenants.client(name), identity)
            with pytest.raises(kind) as refused:
                await stream.receive()
            said[name, identity] = str(refused.value)
        assert said[name, consumer] == said[name, 77].replace("77", str(consumer))
        assert "theirs" not in said[name, consumer]


async def test_a_consumer_of_others_is_unknown_also_while_rules_change_and_its_own_stream_goes_on(
    tenants: Tenants,
) -> None:
    consumer = await joined(tenants, "other", FOREIGN)
    other, owner = tenants.client("other"), tenants.client("owner")
    lookup = Lookup(request_id=1, topic=TopicName.parse(FOREIGN))
    own, foreign = receiving(other, consumer), receiving(owner, consumer)
    await own.opened()
    with pytest.raises(NotPermittedError):  # behind the stream on the same connection: the broker has seen both
        await owner.call("/danube.Discovery/TopicLookup", client_messages.LOOKUP.encode(lookup))
    await tenants.bind("somebody", "observer", at="default")  # every open stream is checked again
    with pytest.raises(ConsumerNotFoundError):
        await foreign.receive()
    key = messages.DELETE_BINDING.encode(
        BindingKey(scope=BindingScope.NAMESPACE, resource_name="other", binding_id="other-other")
    )
    assert await health(tenants, "other", ClientKind.CONSUMER, consumer) is HealthStatus.OK
    await tenants.of(ROOT).call("/danube_admin.SecurityAdmin/DeleteBinding", key)
    with pytest.raises(NotPermittedError, match=f"no binding grants Consume on {FOREIGN}"):
        await own.receive()


def receiving(of: Proven, identity: int) -> ClientStream:
    request = client_messages.RECEIVE.encode(Receive(request_id=1, consumer_id=identity))
    return of.channel.server_stream("/danube.ConsumerService/ReceiveMessages", request, metadata=of.metadata)


async def joined(tenants: Tenants, name: str, topic: str) -> int:
    wanted = Subscribe(
        request_id=1,
        topic=TopicName.parse(topic),
        consumer_name="reader",
        subscription="readers",
        type=SubscriptionType.EXCLUSIVE,
        key_filters=(),
    )
    made = await tenants.client(name).call(
        "/danube.ConsumerService/Subscribe", client_messages.SUBSCRIBE.encode(wanted)
    )
    return client_messages.SUBSCRIBED.decode(made).consumer_id


async def outcome(tenants: Tenants, name: str, kind: ClientKind, identity: int) -> str:
    """Words on a health check and on closing."""
    path, codec = {
        ClientKind.PRODUCER: ("CloseProducer", client_messages.CLOSE_PRODUCER),
        ClientKind.CONSUMER: ("CloseConsumer", client_messages.CLOSE_CONSUMER),
    }[kind]
    said = []
    try:
        said.append(str(await health(tenants, name, kind, identity)))
    except DanubeError as error:
        said.append(f"{error.code} {error}")
    try:
        await tenants.client(name).call(f"/danube.stream.StreamService/{path}", codec.encode(identity))
        said.append("closed")
    except DanubeError as error:
        said.append(f"{error.code} {error}")
    return " ".join(said)


async def health(tenants: Tenants, name: str, kind: ClientKind, identity: int) -> HealthStatus:
    asked = client_messages.HEALTH_CHECK.encode(HealthCheck(request_id=1, client=kind, id=identity))
    found = await tenants.client(name).call("/danube.HealthCheck/HealthCheck", asked)
    return client_messages.HEALTH_STATUS.decode(found)


async def test_runner_of_one_tenant_is_neither_overwritten_nor_ended_by_another(tenants: Tenants) -> None:
    report = RunnerReport(runner="etl-1", principal="user:other")
    for theirs in (report, replace(report, release=True)):
        await tenants.report("owner", report)
        with pytest.raises(AlreadyExistsError, match="another principal has a runner 'etl-1'"):
            await tenants.report("other", theirs)
        assert await tenants.runners() == {"etl-1": "user:owner"}
    await tenants.report("owner", replace(report, release=True))
    await tenants.report("other", report)
    assert await tenants.runners() == {"etl-1": "user:other"}


async def test_runners_of_one_tenant_leave_room_for_those_of_others(
    tenants: Tenants, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(records, "CONNECT_RUNNERS_OF_ONE_MAX", 1)
    await tenants.report("owner", RunnerReport(runner="a"))
    with pytest.raises(LimitReachedError, match="user:owner has 1 runners, the most it may"):
        await tenants.report("owner", RunnerReport(runner="b"))
    await tenants.report("owner", RunnerReport(runner="a"))
    await tenants.report("other", RunnerReport(runner="c"))
    assert await tenants.runners() == {"a": "user:owner", "c": "user:other"}
