"""One registry, two faces: what Danube's calls and Confluent's registry say of the same subjects."""

import asyncio
import base64
import json
from collections.abc import Callable
from typing import Any, TypeVar

import pytest

from danube.broker.schemas.control import SchemaControl
from danube.broker.schemas.definitions import Definitions
from danube.broker.schemas.http import OwnRegistry
from danube.metadata.memory import MemoryStore
from danube.metadata.schemas.schema_records import SchemaRecords
from danube.model.calls.schemas import CheckVersion, FindVersion, SetMode
from danube.model.errors import SchemaIncompatibleError, SchemaInvalidError
from danube.model.schema import CompatibilityMode, JsonPolicy, RegisterSchema, SchemaType
from danube.runtime.payload_checks.process import CheckProcess
from danube.runtime.rng import SystemRng
from danube.schema_http.app import SchemaApp
from danube.testing.patience import PATIENCE_S
from danube.testing.simulated.clock import SimClock
from tests.unit.schema.test_proto_text import IMPORTED, ORDERS, compiled

pytestmark = pytest.mark.timeout(PATIENCE_S)

T = TypeVar("T")
JSON, STRICT, ORIGINAL = SchemaType.JSON_SCHEMA, JsonPolicy.STRICT, JsonPolicy.ORIGINAL
LIST_OF_ITEMS = {"type": "array", "items": [{"type": "string"}], "additionalItems": False}


class _Thread:
    async def run(self, work: Callable[[], T]) -> T:
        return await asyncio.to_thread(work)

    def rest(self) -> None:
        """Nothing else runs."""

    async def aclose(self) -> None:
        """Nothing was begun."""


class Faces:
    """A registry in memory."""

    def __init__(self) -> None:
        clock = SimClock()
        self.store = MemoryStore(clock)
        records, topics = SchemaRecords(self.store, SystemRng()), _NoTopics()
        self.danube = SchemaControl(records, Definitions(records, _Thread(), _Thread(), CheckProcess()), topics, clock)  # type: ignore[arg-type]
        self._confluent = SchemaApp(OwnRegistry(self.danube, lambda _effect, _target: None))

    async def register(self, subject: str, schema: Any) -> int:
        """By the published call of Danube's clients."""
        definition = json.dumps(schema).encode()
        return (await self.danube.register(RegisterSchema(subject=subject, type=JSON, definition=definition))).version

    async def confluent(self, method: str, path: str, body: object = None) -> tuple[int, Any]:
        """Status and answer of Confluent's face."""
        sent: list[dict[str, Any]] = []

        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": b"" if body is None else json.dumps(body).encode()}

        async def send(message: Any) -> None:
            sent.append(message)

        await self._confluent({"type": "http", "method": method, "path": path}, receive, send)
        return sent[0]["status"], json.loads(sent[1]["body"])

    async def post(self, subject: str, schema: object, kind: str = "JSON", references: object = None) -> int:
        """Register by Confluent's face; the status."""
        text = schema if isinstance(schema, str) else json.dumps(schema)
        body = {"schema": text, "schemaType": kind, "references": references}
        return (await self.confluent("POST", f"/subjects/{subject}/versions", body))[0]

    async def policy(self, subject: str = "") -> JsonPolicy:
        return (await self.danube.mode(SetMode(subject=subject, ask=True))).json_policy


class _NoTopics:
    def records(self) -> list[Any]:
        return []


@pytest.fixture
def faces() -> Faces:
    return Faces()


def constant(number: int) -> dict[str, Any]:
    return {"type": "object", "properties": {"version": {"type": "integer", "const": number}}, "required": ["version"]}


async def test_a_constant_changes_for_danubes_clients_and_not_for_confluents(faces: Faces) -> None:
    assert [await faces.register("orders", constant(number)) for number in (1, 2, 3)] == [1, 2, 3]
    assert [await faces.post("orders-value", constant(number)) for number in (1, 2)] == [200, 409]
    for subject, policy in (("orders", ORIGINAL), ("orders-value", STRICT)):
        assert await faces.policy(subject) is policy
        assert (await faces.danube.describe(FindVersion(subject=subject))).json_policy is policy


async def test_types_and_required_properties_count_for_danubes_clients_too(faces: Faces) -> None:
    await faces.register("orders", constant(1))
    text, more = {"type": "string"}, {"type": "integer"}
    properties = constant(1)["properties"]
    for wrong in (
        {"type": "object", "properties": {"version": text}, "required": ["version"]},
        {"type": "object", "properties": {}},
        {"type": "object", "properties": {**properties, "more": more}, "required": ["version", "more"]},
    ):
        with pytest.raises(SchemaIncompatibleError):
            await faces.register("orders", wrong)
    await faces.register(
        "orders", {"type": "object", "properties": {**properties, "more": more}, "required": ["version"]}
    )


async def test_one_subject_has_one_verdict_whoever_asks(faces: Faces) -> None:
    await faces.register("orders", constant(1))
    await faces.post("orders-value", constant(1))
    for subject, fits in (("orders", True), ("orders-value", False)):
        definition = json.dumps(constant(2))
        asked = CheckVersion(subject=subject, type=JSON, definition=definition.encode())
        assert (await faces.danube.check_version(asked)).is_compatible is fits
        path = f"/compatibility/subjects/{subject}/versions/latest"
        body = {"schema": definition, "schemaType": "JSON"}
        assert (await faces.confluent("POST", path, body))[1] == {"is_compatible": fits}


async def test_an_operator_sets_the_policy_of_a_subject_and_the_default_of_the_others(faces: Faces) -> None:
    for subject in ("own", "orders"):
        await faces.register(subject, constant(1))
    await faces.post("orders-value", constant(1))
    await faces.danube.mode(SetMode(subject="own", mode=CompatibilityMode.FULL, json_policy=JsonPolicy.CAUTIOUS))
    await faces.danube.mode(SetMode(mode=CompatibilityMode.BACKWARD, json_policy=JsonPolicy.OPTIONAL_FRIENDLY))
    await faces.danube.mode(SetMode(mode=CompatibilityMode.FULL))
    found = [await faces.policy(subject) for subject in ("", "own", "orders", "orders-value")]
    assert found == [JsonPolicy.OPTIONAL_FRIENDLY, JsonPolicy.CAUTIOUS, JsonPolicy.OPTIONAL_FRIENDLY, STRICT]
    with pytest.raises(SchemaIncompatibleError):
        await faces.register("orders", constant(2))


async def test_a_schema_without_a_draft_is_read_by_the_draft_of_its_face(faces: Faces) -> None:
    assert await faces.post("list-value", LIST_OF_ITEMS) == 200
    more = {**LIST_OF_ITEMS, "items": [{"type": "string"}, {"type": "number"}]}
    assert await faces.post("list-value", more) == 200
    assert await faces.post("list-value", LIST_OF_ITEMS | {"items": [{"type": "number"}]}) == 409
    with pytest.raises(SchemaInvalidError, match="items"):
        await faces.register("list", LIST_OF_ITEMS)
    assert (await faces.danube.describe(FindVersion(subject="list-value"))).as_confluent
    named = {"$schema": "https://json-schema.org/draft/2020-12/schema", **LIST_OF_ITEMS}
    assert await faces.post("named-value", named) == 422


async def test_a_reference_to_the_latest_version_stays_with_the_one_that_is_the_latest_now(faces: Faces) -> None:
    file = 'syntax = "proto3"; package shop; message Money { int64 cents = 1; }'
    later = file.replace("cents = 1;", "cents = 1; string note = 2;")
    order = 'syntax = "proto3"; package shop; import "money.proto"; message Order { Money price = 1; }'
    references = [{"name": "money.proto", "subject": "money", "version": -1}]
    assert await faces.post("order", order, "PROTOBUF", references) == 422
    for text in (file, later):
        assert await faces.post("money", text, "PROTOBUF") == 200
    assert await faces.post("order", order, "PROTOBUF", references) == 200
    assert await faces.post("money", later.replace("note", "text"), "PROTOBUF") == 200
    _, found = await faces.confluent("GET", "/subjects/order/versions/1")
    assert [one["version"] for one in found["references"]] == [2]
    for version in (0, -2, 2**31):
        assert await faces.post("order", order, "PROTOBUF", [{**references[0], "version": version}]) == 422


async def test_a_protobuf_file_comes_back_as_it_was_registered(faces: Faces) -> None:
    references: list[dict[str, object]] = []
    for name, text in IMPORTED.items():
        assert await faces.post(name.replace("/", "."), text, "PROTOBUF", list(references)) == 200
        references.append({"name": name, "subject": name.replace("/", "."), "version": 1})
    assert await faces.post("text", ORDERS, "PROTOBUF", references) == 200
    assert (await faces.confluent("GET", "/subjects/text/versions/1"))[1]["schema"] == ORDERS
    file = compiled(ORDERS)
    encoded = base64.b64encode(file.SerializeToString()).decode()
    assert await faces.post("descriptor", encoded, "PROTOBUF", references) == 200
    _, found = await faces.confluent("GET", "/subjects/descriptor/versions/1")
    assert compiled(found["schema"]) == file


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("google/type/money.proto", "google.type.Money"),
        ("confluent/type/decimal.proto", "confluent.type.Decimal"),
        ("confluent/types/decimal.proto", "confluent.type.Decimal"),
        ("confluent/meta.proto", "confluent.Meta"),
    ],
)
async def test_imports_that_clients_take_for_granted_are_there(faces: Faces, name: str, kind: str) -> None:
    text = f'syntax = "proto3"; package shop; import "{name}"; message Price {{ {kind} price = 1; }}'
    assert await faces.post("price", text, "PROTOBUF") == 200
    file = compiled('syntax = "proto3"; package shop; message Price { int32 price = 1; }')
    file.dependency.append(name)
    field = file.message_type[0].field[0]
    field.type, field.type_name = field.TYPE_MESSAGE, f".{kind}"
    definition = base64.b64encode(file.SerializeToString())
    made = await faces.danube.register(RegisterSchema(subject="price", type=SchemaType.PROTOBUF, definition=definition))
    assert made.version == 1


async def test_a_file_without_a_message_is_registered_and_imported(faces: Faces) -> None:
    enum = 'syntax = "proto3"; package shop; enum Colour { NONE = 0; RED = 1; }'
    car = 'syntax = "proto3"; package shop; import "colour.proto"; message Car { Colour colour = 1; }'
    assert await faces.post("colour.proto", enum, "PROTOBUF") == 200
    reference = {"name": "colour.proto", "subject": "colour.proto", "version": 1}
    assert await faces.post("car", car, "PROTOBUF", [reference]) == 200
