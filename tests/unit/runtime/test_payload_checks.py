"""The process that checks payloads: it answers as a check in the process does, and outlives what is too expensive."""

import asyncio
import contextlib
import json
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from danube.model.errors import ShuttingDownError, UnavailableError
from danube.model.schema import SchemaType
from danube.runtime.payload_checks.process import CheckProcess
from danube.schema.formats import parse
from danube.schema.validation import Judgement, Validator, judge, validator
from danube.testing.patience import PATIENCE_S
from tests.unit.schema.compiling import protobuf

pytestmark = pytest.mark.timeout(2 * PATIENCE_S)

JSON = {"$ref": "other.json", "type": "object"}
OTHER = {"required": ["id"], "properties": {"id": {"$ref": "#/$defs/id"}}, "$defs": {"id": {"type": "integer"}}}
AVRO = {
    "type": "record",
    "name": "R",
    "fields": [{"name": "id", "type": "int"}, {"name": "next", "type": ["null", "R"]}],
}
PROTOBUF = (
    'syntax = "proto2"; import "google/protobuf/timestamp.proto";'
    " message M { required int32 id = 1; optional google.protobuf.Timestamp at = 2; repeated M next = 3; }"
)
BOMB = {"items": {"not": {"enum": [number + 0.5 for number in range(5_000)]}}}

Kinds = list[tuple[Validator, list[bytes]]]


@pytest.fixture
async def process() -> AsyncIterator[CheckProcess]:
    found = CheckProcess()
    yield found
    await found.aclose()


@pytest.fixture
def kinds() -> Kinds:
    """Validators, each with a payload that is valid and one that is not."""
    texts = {"other.json": json.dumps(OTHER)}
    by_json = validator(parse(SchemaType.JSON_SCHEMA, json.dumps(JSON), texts))
    by_avro = validator(parse(SchemaType.AVRO, json.dumps(AVRO)))
    by_text = validator(parse(SchemaType.STRING, ""))
    return [
        (by_json, [b'{"id": 1}', b'{"id": "x"}']),
        (by_avro, [b"\2\2\2\0", b"\2\4"]),
        (validator(protobuf(PROTOBUF)), [b"\x08\x01\x1a\x02\x08\x02", b"\x1a\x02\x08\x02"]),
        (by_text, [b"a", b"\xff"]),
    ]


@pytest.fixture
def many_fields() -> Validator:
    fields = "".join(f"optional int64 a{number} = {number};" for number in range(100, 1_000))
    return validator(protobuf(f'syntax = "proto2"; message M {{ repeated M m = 1; {fields} }}'))


async def test_it_answers_of_each_kind_of_schema_as_a_check_in_the_process_does(
    process: CheckProcess, kinds: Kinds
) -> None:
    for number, (checks, payloads) in enumerate(kinds):
        for with_reason in (True, False):
            found = await process.judge(number, checks, payloads, with_reason=with_reason)
            assert found == judge(checks, payloads, with_reason=with_reason)
            assert found is not None
            assert (found.invalid, found.first) == (1, with_reason)


async def test_a_check_that_takes_too_much_has_no_answer_and_the_next_one_has(process: CheckProcess) -> None:
    bomb = validator(parse(SchemaType.JSON_SCHEMA, json.dumps(BOMB)))
    heavy = b"[" + b",".join([b"1.25"] * 100_000) + b"]"
    assert await process.judge(1, bomb, [b"[1.25]"], with_reason=True) == Judgement()
    assert await process.judge(1, bomb, [heavy], with_reason=True) is None
    assert await process.judge(1, bomb, [b"[1.25]"], with_reason=True) == Judgement()


async def test_a_check_that_takes_too_much_memory_has_no_answer(process: CheckProcess, many_fields: Validator) -> None:
    assert await process.judge(1, many_fields, [b"\x0a\x00" * 450_000], with_reason=True) is None


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="asks /proc for children")
async def test_a_process_that_somebody_ends_refuses_no_message(process: CheckProcess, kinds: Kinds) -> None:
    checks, payloads = kinds[0]
    before = await asyncio.to_thread(children)
    await process.judge(1, checks, payloads, with_reason=True)
    (pid,) = await asyncio.to_thread(children) - before
    os.kill(int(pid), signal.SIGSTOP)
    judging = asyncio.ensure_future(process.judge(1, checks, payloads, with_reason=True))
    await asyncio.sleep(0)
    os.kill(int(pid), signal.SIGKILL)
    with contextlib.suppress(UnavailableError):  # or the process was gone before it was asked, and another one answers
        assert await judging == judge(checks, payloads, with_reason=True)
    assert await process.judge(1, checks, payloads, with_reason=True) == judge(checks, payloads, with_reason=True)


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="asks /proc for children")
async def test_it_is_gone_once_it_is_closed_and_starts_no_more(process: CheckProcess, kinds: Kinds) -> None:
    checks, payloads = kinds[0]
    before = await asyncio.to_thread(children)
    await process.judge(1, checks, payloads, with_reason=True)
    assert len(await asyncio.to_thread(children) - before) == 1
    await process.aclose()
    assert await asyncio.to_thread(children) <= before
    with pytest.raises(ShuttingDownError):
        await process.judge(1, checks, payloads, with_reason=True)


def children() -> set[str]:
    return {
        pid for task in Path(f"/proc/{os.getpid()}/task").iterdir() for pid in (task / "children").read_text().split()
    }
