"""JSON from outside: whatever the bytes are, each decoder answers a value or an error that it is known to raise."""

import contextlib
import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from danube.admin.analytics.published import lag_of, newest_lag
from danube.admin.operations.analytics.lag import AnalyzeLagParams, report_of_run
from danube.admin.web.pages.forms import parse_json_object
from danube.data_folder.after_repair import recorded_repair
from danube.data_folder.data_folder import IDENTITY, REPAIRED, read_identity
from danube.metadata.records import keys
from danube.metadata.records.families import fault_of, value_of
from danube.metadata.records.record_format import encode_plan
from danube.metadata.store import Entry
from danube.model.errors import DamagedDataError, DataFolderError, InvalidRequestError, SettingsError
from danube.model.lag.group import LagFilter
from danube.model.lag.rows import GROUPS, PARTITIONS
from danube.model.limits.broker import JSON_DEPTH_MAX
from danube.model.plans.plan import Effect, Impact, PlanRequest, new_plan
from danube.model.records import analytics, audit, telemetry
from danube.model.untrusted_json import UntrustedJsonError, decode_json
from danube.testing.peers.admin import PERSON
from danube.testing.simulated.disk import SimDisk
from danube.wire import admin_messages, plan_messages
from danube.wire.gen import DanubeAdmin_pb2, DanubeControl_pb2
from spark_analytics.options import parse_options
from tests.golden.analytics.make import records as results
from tests.golden.audit.make import records as audited
from tests.golden.telemetry.make import records as told

ROOT = Path(__file__).parents[3]
DEEP = b"[" * 100_000
HOSTILE = (
    DEEP,
    b'{"a":' * 100_000,
    b"\xff\xfe",
    b'"\\ud800"',
    b"NaN",
    b"-Infinity",
    b"1e999",
    b"9" * 5_000,
    b"",
    b"\x00",
)
"""JSON that is none, or that some reader somewhere cannot go on with."""
STRANGE: tuple[Any, ...] = (
    None,
    True,
    -1,
    2**64 - 1,
    -(2**63),
    1e308,
    0.5,
    "",
    "\x00",
    "x" * 300,
    [],
    [[]],
    {},
    {"a": {}},
)
"""Values that JSON allows and a field does not expect."""


@pytest.mark.parametrize("data", HOSTILE)
def test_what_no_reader_can_go_on_with_is_one_error(data: bytes) -> None:
    with pytest.raises(UntrustedJsonError):
        decode_json(data)
    with pytest.raises(UntrustedJsonError):
        decode_json(data.decode(errors="surrogateescape"))


@pytest.mark.parametrize(
    "value", [None, True, 0, -5, 2**64 - 1, -(2**63), 1.5, "größe", "\U0001f600", [[1], {"a": [{}]}]]
)
def test_values_within_bounds_are_as_json_has_them(value: object) -> None:
    for text in (json.dumps(value), json.dumps(value, ensure_ascii=False)):
        assert decode_json(text) == decode_json(text.encode()) == value


def test_integers_have_64_bits_and_values_so_many_levels() -> None:
    for number in (2**64, -(2**63) - 1, 10**4_000):
        with pytest.raises(UntrustedJsonError):
            decode_json(f"[{number}]" if number < 10**100 else "1" + "0" * 4_000)
    whole = "[" * JSON_DEPTH_MAX + "]" * JSON_DEPTH_MAX
    assert decode_json(whole)
    for deeper in (f"[{whole}]", f'{{"a":{whole}}}'):
        with pytest.raises(UntrustedJsonError, match="64 levels"):
            decode_json(deeper)
    wide = f"[{','.join(['[]'] * 1_000)}]"
    assert len(decode_json(wide)) == 1_000


def test_half_of_a_surrogate_pair_is_a_text_where_any_is_taken() -> None:
    assert decode_json('["\\ud800"]', any_text=True) == ["\ud800"]


def test_nothing_else_reads_json() -> None:
    """One home: what bounds it has hold everywhere."""
    found = [
        str(path.relative_to(ROOT))
        for folder in ("danube", "spark_analytics")
        for path in (ROOT / folder).rglob("*.py")
        if re.search(r"\bjson\.loads?\(|JSONDecoder\(", path.read_text(encoding="utf-8"))
    ]
    others = {path for path in found if not path.startswith("danube/testing/")}
    own_facts = "danube/offline/output.py"
    assert others == {"danube/model/untrusted_json.py", own_facts}


# Decoders of what is stored


ROOTS = (
    *(keys.NAMESPACES, keys.TOPICS, keys.PARTITIONED, keys.SUBSCRIPTIONS, keys.CONSUMERS, keys.COUNTERS, keys.PLANS),
    *(keys.PRODUCERS, keys.STORED_TOPICS, keys.DELETED_TOPICS, keys.STORED_JOURNALS, keys.REGISTERED, keys.CLUSTER_ID),
    *(keys.RESTORED, keys.LEADER, keys.LOST_LOGS),
)


def _plans_and_audit(data: bytes) -> None:
    request = DanubeControl_pb2.CreatePlanRequest(
        operation="x", arguments=data.decode(errors="replace"), effect="destroy"
    )
    request.caller.CopyFrom(DanubeControl_pb2.Caller(who="ada", face="cli"))
    plan_messages.CREATE_PLAN.decode(request.SerializeToString())


def _policies(data: bytes) -> None:
    answer = DanubeAdmin_pb2.PolicyResponse(policies=data.decode(errors="replace"))
    admin_messages.POLICIES.decode(answer.SerializeToString())


def _metadata(data: bytes) -> None:
    """Every family: what is wrong is said, and the value is shown."""
    for key in ROOTS:
        entry = Entry(f"{key}/a/b/c", data, 1, 1, 0)
        fault_of(entry)
        value_of(entry)
    for own in (
        keys.plan("plan-1"),
        keys.CLUSTER_ID,
        keys.RESTORED,
        keys.LEADER,
        keys.PLAN_COUNTER,
        f"{keys.REGISTERED}/7",
    ):
        fault_of(Entry(own, data, 1, 1, 0))


def _repair(data: bytes) -> None:
    disk = SimDisk()
    disk.replace_file(REPAIRED, data)
    recorded_repair(disk)


def _positions(data: bytes) -> None:
    parse_options({"topic": "/default/orders", "starting": data.decode(errors="replace")})


PLAN = new_plan(
    PlanRequest(
        operation="delete_topic", arguments={"topic": "/a/b"}, effect=Effect.DESTROY, caller=PERSON, needs_approval=True
    ),
    Impact(changes=("Delete it.",), fingerprint="0"),
    plan_id="plan-1",
    now_ms=1,
)
DECODERS: Mapping[str, tuple[Callable[[bytes], object], tuple[type[Exception], ...]]] = {
    "telemetry": (telemetry.decode_record, (InvalidRequestError,)),
    "analytics": (analytics.decode_record, ()),
    "audit": (audit.decode_record, (InvalidRequestError,)),
    "plan arguments": (_plans_and_audit, (InvalidRequestError,)),
    "policies": (_policies, (InvalidRequestError,)),
    "metadata": (_metadata, ()),
    "repair": (_repair, (DataFolderError,)),
    "web body": (parse_json_object, (InvalidRequestError,)),
    "spark positions": (_positions, (SettingsError,)),
}
SAMPLES = [
    *(telemetry.encode_record(*record) for record in told()),
    *map(analytics.encode_record, results()),
    *map(audit.encode_record, audited()),
    b'{"version": 1, "format": 1, "topics": {"5": 7}, "max_producers_per_topic": 5}',
]


def _changed(sample: bytes, name: int, value: Any) -> bytes:
    """The record with one field's value replaced."""
    fields = json.loads(sample)
    fields[sorted(fields)[name % len(fields)]] = value
    return json.dumps(fields, separators=(",", ":")).encode()


def _cut(sample: bytes, at: int, inserted: bytes) -> bytes:
    at %= len(sample)
    return sample[:at] + inserted + sample[at + len(inserted) :]


ANY_BYTES = st.one_of(
    st.binary(max_size=200),
    st.sampled_from(HOSTILE),
    st.builds(_changed, st.sampled_from(SAMPLES), st.integers(0, 50), st.sampled_from(STRANGE)),
    st.builds(_cut, st.sampled_from([*SAMPLES, encode_plan(PLAN)]), st.integers(0, 10_000), st.binary(max_size=4)),
    st.builds(_cut, st.sampled_from(SAMPLES), st.integers(0, 10_000), st.sampled_from(HOSTILE)),
)


@pytest.mark.parametrize("name", DECODERS)
@given(data=ANY_BYTES)
@example(data=DEEP)
@example(data=b'{"version": 1, "kind": [], "at_ms": 1e999}')
def test_a_decoder_survives_any_bytes(name: str, data: bytes) -> None:
    decode, allowed = DECODERS[name]
    with contextlib.suppress(*allowed):
        decode(data)


@pytest.mark.parametrize("data", HOSTILE)
def test_a_damaged_identity_of_a_data_folder_is_said_to_be_so(data: bytes, tmp_path: Path) -> None:
    (tmp_path / IDENTITY).write_bytes(data)
    with pytest.raises(DamagedDataError, match="damaged"):
        read_identity(tmp_path)


# Runs that are made of such records

STARTED, *TOLD = [record for record in results() if record.run_id == "nightly"]


@given(
    table=st.sampled_from([GROUPS, PARTITIONS]),
    name=st.integers(0, 50),
    value=st.sampled_from(STRANGE),
    head=st.sampled_from(["parts", "rows", "totals", "window", "time_limit_s", "as_of_ms", "at_ms"]),
    is_head=st.booleans(),
)
def test_a_result_with_any_values_is_shown_or_left_out(
    table: str, name: int, value: Any, head: str, is_head: bool
) -> None:
    decoded = []
    for record in (STARTED, *TOLD):
        fields = json.loads(analytics.encode_record(record))
        if is_head and head in fields:
            fields[head] = value
        elif not is_head and fields.get("table") == table:
            row = fields["rows"][0]
            row[sorted(row)[name % len(row)]] = value
        decoded.append(analytics.decode_record(json.dumps(fields).encode()))
    runs = analytics.runs_of((record for record in decoded if record is not None), STARTED.at_ms)
    run = newest_lag(runs, LagFilter())
    if run is not None:
        lag_of(run, LagFilter())
        report_of_run(run, AnalyzeLagParams(partitions=True), STARTED.at_ms).model_dump_json()
