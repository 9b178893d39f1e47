"""Whatever a schema and its payload are, a check on the event loop is over soon: what may take longer is made apart."""

import json
import time
from collections.abc import Callable
from random import Random

import pytest

from danube.model.errors import SchemaInvalidError
from danube.model.limits.schema import SCHEMA_INLINE_STEPS_MAX, SCHEMA_REASON_STEPS_MAX
from danube.model.schema import SchemaType
from danube.runtime.protoc.compiler import compile_protos
from danube.schema.formats import parse
from danube.schema.validation import Validator, judge, validator
from danube.testing.patience import PATIENCE_S
from tests.fuzz.hostile_payloads import JSON_VALUES, binaries, json_schema

HELD_S_MAX = 0.05
LARGEST_BYTES = 1_000_000


def largest(checks: Validator, payload: Callable[[int], bytes], steps_max: int) -> bytes | None:
    """The largest payload, within a quarter, whose check may take so many steps."""
    found, size, grows = None, 64.0, 2.0
    while size < LARGEST_BYTES and grows > 1.2:
        tried = payload(int(size))
        if checks.steps(tried) <= steps_max:
            found, size = tried, size * grows
        elif found is None:
            return None
        else:
            size, grows = size / grows, grows**0.5
            size *= grows
    return found


def held_s(checks: Validator, payload: Callable[[int], bytes]) -> float:
    """Processor time of the longest check that is made on the event loop."""
    longest_s = 0.0
    for steps_max, with_reason in ((SCHEMA_INLINE_STEPS_MAX, False), (SCHEMA_REASON_STEPS_MAX, True)):
        found = largest(checks, payload, steps_max)
        if found is not None:
            began_s = time.thread_time()
            judge(checks, [found], with_reason=with_reason)
            longest_s = max(longest_s, time.thread_time() - began_s)
    return longest_s


def check_seeds(seeds: list[int]) -> None:
    for seed in seeds:
        random = Random(seed)
        schema = json_schema(random)
        try:
            checks = validator(parse(SchemaType.JSON_SCHEMA, json.dumps(schema)))
        except SchemaInvalidError:
            continue
        for value in random.sample(JSON_VALUES, 4):
            held = held_s(checks, lambda size: json.dumps(value(Random(seed), size)).encode())  # noqa: B023 - at once
            assert held < HELD_S_MAX, (seed, json.dumps(schema)[:500], JSON_VALUES.index(value))


def test_a_check_of_json_never_holds_the_event_loop_up(seeds: list[int]) -> None:
    check_seeds(seeds)


@pytest.mark.nightly
@pytest.mark.timeout(30 * PATIENCE_S)
def test_a_check_of_json_never_holds_the_event_loop_up_in_thousands_of_schemas() -> None:
    check_seeds([*range(10_000, 12_000)])


def test_a_check_of_avro_or_protobuf_never_holds_the_event_loop_up() -> None:
    compiled: dict[str, Validator] = {}
    for kind, definition, payload in binaries():
        if definition not in compiled:
            compiled[definition] = validator(parse(kind, definition, compile_proto=compile_protos))
        held = held_s(compiled[definition], payload)
        assert held < HELD_S_MAX, (definition[:300], payload(1)[:40])
