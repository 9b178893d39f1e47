"""`danube produce` with a schema, `danube consume` of it, and `danube schema`, as processes at a real broker."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from danube.testing.patience import LONG_S
from danube.testing.processes.broker import BrokerProcess
from tests.cluster.danube_command import Danube

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(180)]

ORDER = {"type": "object", "properties": {"id": {"type": "integer"}}, "required": ["id"]}
PARCEL = {
    "type": "record",
    "name": "Parcel",
    "fields": [{"name": "id", "type": "long"}, {"name": "label", "type": "bytes", "default": ""}],
}
LINE = '{"id": 7, "label": "YQ=="}'
PROTO = 'syntax = "proto3";\nmessage Tick { int64 at = 1; string of = 2; }\n'


@pytest.fixture(scope="module")
def shared_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path_factory.mktemp("cli") / "data", settings={"ack_timeout_s": round(LONG_S)}) as process:
        yield process


@pytest.fixture
def danube(shared_broker: BrokerProcess, request: pytest.FixtureRequest) -> Danube:
    """A topic of the test's own."""
    return Danube(shared_broker, f"/default/{request.node.name}")


@pytest.fixture
def files(tmp_path: Path) -> dict[str, str]:
    """The definitions, by their format, and one that breaks the readers of the first."""
    broken = json.dumps({**ORDER, "properties": {"id": {"type": "string"}}})
    texts = {"json_schema": json.dumps(ORDER), "avro": json.dumps(PARCEL), "protobuf": PROTO, "broken": broken}
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    return {name: str(tmp_path / name) for name in texts}


def flags(files: dict[str, str], kind: str, file: str = "") -> tuple[str, ...]:
    return ("--schema-file", files[file or kind], "--schema-type", kind)


def received(danube: Danube, count: int) -> list[tuple[object, object]]:
    """Values and versions of so many messages, as JSON shows them."""
    shown = danube.done("consume", "-t", danube.topic, "-s", "s", "-o", "json", "--count", str(count))
    rows = [json.loads(line) for line in shown.splitlines()]
    assert all(int(row["schema_id"]) > 0 for row in rows)
    return [(row.get("value"), row["schema_version"]) for row in rows]


def test_lines_of_json_become_avro_and_come_back_decoded(danube: Danube, files: dict[str, str]) -> None:
    danube.with_subscription()
    danube.done("produce", "-t", danube.topic, *flags(files, "avro"), stdin=f"{LINE}\n{LINE}\n".encode())
    danube.done("produce", "-t", danube.topic, "--schema-subject", f"default-{danube.topic[9:]}", "-m", LINE)
    shown = danube.done("consume", "-t", danube.topic, "-s", "s", "--count", "1").decode()
    assert shown.rstrip().endswith('{"id": 7, "label": "YQ=="}')
    assert received(danube, 2) == [({"id": 7, "label": "YQ=="}, 1)] * 2
    danube.done("produce", "-t", danube.topic, *flags(files, "avro"), "-m", LINE)
    assert danube.done(*danube.raw, "--count", "1") == b"\x0e\x02a\n"


def test_each_message_is_decoded_by_the_version_that_wrote_it(danube: Danube, files: dict[str, str]) -> None:
    danube.with_subscription()
    Path(files["broken"]).write_text(json.dumps({**ORDER, "title": "second"}))
    for file in ("json_schema", "broken"):
        danube.done("produce", "-t", danube.topic, *flags(files, "json_schema", file), "-m", '{"id": 1}')
    danube.done("produce", "-t", danube.topic, *flags(files, "json_schema"), "-m", '{"id": 2}')
    assert received(danube, 3) == [({"id": 1}, 1), ({"id": 1}, 2), ({"id": 2}, 1)]


def test_messages_of_protobuf_are_shown_by_their_fields(danube: Danube, files: dict[str, str]) -> None:
    danube.with_subscription()
    Path(files["broken"]).write_bytes(b"\x08\x07\x12\x03abc")
    danube.done("produce", "-t", danube.topic, *flags(files, "protobuf"), "-f", files["broken"])
    ((value, version),) = received(danube, 1)
    assert value == {"at": "7", "of": "abc"}
    assert version == 1


def test_what_cannot_be_written_is_refused_in_a_sentence(danube: Danube, files: dict[str, str]) -> None:
    to = ("produce", "-t", danube.topic)
    assert "go together" in danube.refused(2, *to, "--schema-file", files["avro"], "-m", LINE)
    assert "unknown schema type: xml" in danube.refused(2, *to, *flags({"xml": files["avro"]}, "xml"), "-m", LINE)
    assert "cannot read" in danube.refused(2, *to, *flags({"avro": "/nowhere/a.avsc"}, "avro"), "-m", LINE)
    assert "/type: object" in danube.refused(2, *to, *flags(files, "avro", "json_schema"), "-m", LINE)
    assert "no JSON" in danube.refused(6, *to, *flags(files, "avro"), "-m", "seven")
    assert "Parcel.id" in danube.refused(6, *to, *flags(files, "avro"), "-m", '{"id": "seven"}')
    other = ("produce", "-t", f"{danube.topic}-2")
    danube.done(*other, *flags(files, "json_schema"), "-m", '{"id": 1}')
    assert "properties/id" in danube.refused(6, *other, *flags(files, "json_schema", "broken"), "-m", "{}")


def test_the_commands_of_schemas_register_show_list_and_check(danube: Danube, files: dict[str, str]) -> None:
    subject = "orders-value"
    json_schema = ("--schema-type", "json_schema", "-f")
    register = ("schema", "register", subject, *json_schema)
    assert danube.done(*register, files["json_schema"], "-o", "json")
    again = json.loads(danube.done(*register, files["json_schema"], "-o", "json"))
    assert (again["version"], again["is_new_version"]) == (1, False)
    Path(files["avro"]).write_text(json.dumps({**ORDER, "title": "second"}))
    assert "Version: 2" in danube.done(*register, files["avro"]).decode()
    assert danube.done("schema", "versions", subject) == b"1\n2\n"
    first = json.loads(danube.done("schema", "get", subject, "--version", "1", "-o", "json"))
    assert (json.loads(first["definition"]), first["schema_type"]) == (ORDER, "json_schema")
    assert f"{subject}, version 2" in danube.done("schema", "get", subject).decode()
    assert danube.done("schema", "check", subject, *json_schema, files["avro"]) == b"compatible\n"
    refused = danube("schema", "check", subject, *json_schema, files["broken"])
    assert (refused.returncode, refused.stdout.splitlines()[0]) == (6, b"not compatible")
    assert b"properties/id" in refused.stdout
    assert "properties/id" in danube.refused(6, *register, files["broken"])
    assert "not" in danube.refused(4, "schema", "get", "nothing")
