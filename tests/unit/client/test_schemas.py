import pytest
from google.protobuf.message import Message as ProtobufMessage

from danube.client import CompatibilityMode, DanubeClient, SchemaInfo, SchemaType
from danube.model.errors import NotFoundError, PreconditionFailedError, UnsupportedError
from danube.model.schema import TopicSchemaConfig
from danube.rpc.carrier import Service, UnaryCall, UnaryHandler
from danube.testing.simulated.network import MemoryCarrier
from danube.wire import decode
from danube.wire.gen import SchemaRegistry_pb2 as Pb
from tests.unit.client.fake_broker import FakeBroker

TOPIC = "/default/orders"


class FakeRegistry:
    """One subject, `orders`, with the id 5 and two versions."""

    def __init__(self, broker: FakeBroker) -> None:
        self.broker = broker
        self.requests: list[object] = []

    def service(self) -> Service:
        done = Pb.SetCompatibilityModeResponse(success=True, message="done").SerializeToString()
        answers: dict[str, tuple[type[ProtobufMessage], ProtobufMessage]] = {
            "RegisterSchema": (Pb.RegisterSchemaRequest, Pb.RegisterSchemaResponse(schema_id=5, version=2)),
            "ListVersions": (
                Pb.ListVersionsRequest,
                Pb.ListVersionsResponse(versions=[Pb.SchemaVersionInfo(version=n) for n in (1, 2)]),
            ),
            "CheckCompatibility": (
                Pb.CheckCompatibilityRequest,
                Pb.CheckCompatibilityResponse(is_compatible=False, errors=["field gone"]),
            ),
            "GetTopicSchemaConfig": (
                Pb.GetTopicSchemaConfigRequest,
                Pb.GetTopicSchemaConfigResponse(schema_subject="orders", validation_policy="warn", schema_id=5),
            ),
        }
        fixed = {name: self._fixed(kind, answer.SerializeToString()) for name, (kind, answer) in answers.items()}
        outcomes = {
            "SetCompatibilityMode": self._fixed(Pb.SetCompatibilityModeRequest, done),
            "DeleteSchemaVersion": self._fixed(Pb.DeleteSchemaVersionRequest, done),
            "ConfigureTopicSchema": self._fixed(Pb.ConfigureTopicSchemaRequest, done),
            "UpdateTopicValidationPolicy": self._fixed(Pb.UpdateTopicValidationPolicyRequest, done),
        }
        found = {"GetSchema": self._get, "GetLatestSchema": self._latest}
        return Service("danube_schema.SchemaRegistry", {**fixed, **outcomes, **found})

    def _fixed(self, kind: type[ProtobufMessage], answer: bytes) -> UnaryHandler:
        def handle(request: bytes, call: UnaryCall) -> bytes:
            self.requests.append(kind.FromString(request))
            return answer

        return handle

    def _get(self, request: bytes, call: UnaryCall) -> bytes:
        wanted = Pb.GetSchemaRequest.FromString(request)
        return self._info(wanted.version if wanted.HasField("version") else 2)

    def _latest(self, request: bytes, call: UnaryCall) -> bytes:
        subject = Pb.GetLatestSchemaRequest.FromString(request).subject
        if subject != "orders":
            raise NotFoundError(f"Schema not found for subject: {subject}")
        return self._info(2)

    def _info(self, version: int) -> bytes:
        info = Pb.GetSchemaResponse(
            schema_id=5,
            version=version,
            subject="orders",
            schema_type="avro",
            schema_definition=b"{}",
            fingerprint=f"v{version}",
        )
        return info.SerializeToString()


@pytest.fixture
async def registry(carrier: MemoryCarrier) -> FakeRegistry:
    """A broker with a registry, at the service URL."""
    registry = FakeRegistry(FakeBroker(carrier, "memory:6650"))
    await carrier.serve("memory:6650", [*registry.broker._services(), registry.service()])
    return registry


async def test_registering_answers_the_id_of_the_subject(client: DanubeClient, registry: FakeRegistry) -> None:
    builder = client.schema().register_schema("orders").with_type(SchemaType.AVRO).with_schema_data(b"{}")
    assert await builder.with_description("d").with_tags(["a", "b"]).execute() == 5
    expected = Pb.RegisterSchemaRequest(
        subject="orders", schema_type="avro", schema_definition=b"{}", description="d", tags=["a", "b"]
    )
    expected.created_by = "danube-py"
    assert registry.requests == [expected]


async def test_registering_without_type_or_definition_is_refused(client: DanubeClient) -> None:
    with pytest.raises(ValueError, match="type"):
        await client.schema().register_schema("orders").with_schema_data(b"{}").execute()
    with pytest.raises(ValueError, match="data"):
        await client.schema().register_schema("orders").with_type(SchemaType.AVRO).execute()


async def test_schemas_are_found_by_subject_by_id_and_by_version(client: DanubeClient, registry: FakeRegistry) -> None:
    schemas = client.schema()
    latest = SchemaInfo(5, "orders", 2, "avro", b"{}", "v2")
    assert await schemas.get_latest_schema("orders") == latest
    assert await schemas.get_schema_by_id(5) == latest
    assert (await schemas.get_schema_version(5, 1)).fingerprint == "v1"
    assert await schemas.list_versions("orders") == [1, 2]
    assert latest.schema_definition_as_string() == "{}"


async def test_compatibility_is_checked_with_the_mode_that_was_given(
    client: DanubeClient, registry: FakeRegistry
) -> None:
    answer = await client.schema().check_compatibility("orders", b"{}", SchemaType.AVRO, CompatibilityMode.FULL)
    assert answer == (False, ["field gone"])
    assert registry.requests == [
        Pb.CheckCompatibilityRequest(
            subject="orders", new_schema_definition=b"{}", schema_type="avro", compatibility_mode="full"
        )
    ]


async def test_topics_are_bound_to_subjects(client: DanubeClient, registry: FakeRegistry) -> None:
    schemas = client.schema()
    assert await schemas.set_compatibility_mode("orders", CompatibilityMode.NONE) == (True, "done")
    assert await schemas.delete_schema_version("orders", 1) == (True, "done")
    assert await schemas.configure_topic_schema(TOPIC, "orders", "enforce", True) == (True, "done")
    assert await schemas.update_topic_validation_policy(TOPIC, "warn") == (True, "done")
    assert await schemas.get_topic_schema_config(TOPIC) == TopicSchemaConfig(
        schema_subject="orders", validation_policy="warn", enable_payload_validation=False, schema_id=5
    )


async def test_a_broker_without_a_registry_is_said_to_have_none(client: DanubeClient, broker: FakeBroker) -> None:
    with pytest.raises(UnsupportedError, match="has no schema registry"):
        await client.schema().get_latest_schema("orders")
    with pytest.raises(UnsupportedError, match="has no schema registry"):
        await client.new_producer().with_topic(TOPIC).with_name("p").with_schema_subject("orders").build().create()


@pytest.mark.parametrize(
    ("reference", "version"),
    [(("orders", None), 2), (("orders", 1), 1), (("orders", 2), 2)],
)
async def test_messages_carry_the_version_that_their_producer_was_built_with(
    client: DanubeClient, registry: FakeRegistry, reference: tuple[str, int | None], version: int
) -> None:
    subject, pinned = reference
    builder = client.new_producer().with_topic(TOPIC).with_name("p")
    builder = builder.with_schema_version(subject, pinned) if pinned else builder.with_schema_subject(subject)
    async with builder.build() as producer:
        await producer.send(b"x")
    message = decode.send_message(registry.broker.topics[TOPIC][0])
    assert (message.schema_id, message.schema_version) == (5, version)


async def test_a_version_that_is_not_there_stops_the_producer(client: DanubeClient, registry: FakeRegistry) -> None:
    builder = client.new_producer().with_topic(TOPIC).with_name("p")
    with pytest.raises(PreconditionFailedError, match="no version 3"):
        await builder.with_schema_version("orders", 3).build().create()
    with pytest.raises(PreconditionFailedError, match="asks for 4 or newer"):
        await builder.with_schema_min_version("orders", 4).build().create()


@pytest.mark.parametrize(("text", "expected"), [("PROTO", SchemaType.PROTOBUF), ("jsonschema", SchemaType.JSON_SCHEMA)])
def test_schema_types_have_other_spellings(text: str, expected: SchemaType) -> None:
    assert SchemaType.parse(text) is expected


def test_unknown_words_are_refused() -> None:
    with pytest.raises(ValueError, match="unknown schema type: xml"):
        SchemaType.parse("xml")
    with pytest.raises(ValueError, match="unknown compatibility mode: strict"):
        CompatibilityMode.parse("strict")
