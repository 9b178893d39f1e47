"""Durations and sizes are typed with their units in every operation, and read the same on every face."""

import json

import pytest
from typer.testing import CliRunner

from danube.admin.operations import REGISTRY
from danube.admin.operations.fields import FieldKind, field_specs
from danube.admin.operations.operation import AnyOperation
from danube.cli.__main__ import app as danube
from danube.model.ownership import OwnershipState
from danube.model.plans.plan import PlanStatus
from danube.report.tones import alarm_of, class_of, tone_of
from spark_analytics.__main__ import app as spark
from tests.unit.admin.cli.conftest import Admin

MOMENTS = {"as_of_ms", "first_ms", "issued_before_ms", "until_ms"}


@pytest.mark.parametrize("operation", REGISTRY, ids=lambda operation: operation.name)
def test_every_duration_and_size_takes_a_unit(operation: AnyOperation) -> None:
    plain = [
        field.name
        for field in field_specs(operation.params)
        if field.kind is FieldKind.NUMBER
        and field.name.endswith(("_s", "_ms", "bytes", "_size"))
        and field.name not in MOMENTS
    ]
    assert plain == []


def test_the_same_duration_is_taken_by_all_programs(admin: Admin) -> None:
    run = admin("analytics", "run", "--since-s", "7d", "--dry-run", "-o", "json")
    assert "--since=604800s" in run.out, run.error
    kept = json.loads(admin("analytics", "schedule", "add", "weekly", "lag", "--every-s", "1d", "-o", "json").out)
    assert kept["every_s"] == 86_400
    shown = CliRunner().invoke(spark, ["lag", "--since", "1h30m", "--as-of", "yesterday"])
    assert "'yesterday' is not a time" in shown.stderr  # the span was taken


def test_flags_of_programs_take_durations_too(admin: Admin) -> None:
    assert admin("brokers", "list", "--timeout-s", "1m").code == 0
    assert "no duration" in admin("brokers", "list", "--timeout-s", "soon").error
    produce = ["produce", "--topic", "/default/orders", "--connect-timeout-s"]
    assert "no duration" in CliRunner().invoke(danube, [*produce, "soon"]).stderr
    assert "0.1 seconds at least" in CliRunner().invoke(danube, [*produce, "50ms"]).stderr
    shown = CliRunner().invoke(spark, ["lag", "--time-limit-s", "5m", "--as-of", "yesterday"])
    assert "'yesterday' is not a time" in shown.stderr


def test_html_colours_words_as_terminals_do() -> None:
    words = ("REWIND", "refused", "write", "destroy", "read", "unknown")
    assert [class_of(word) for word in words] == ["warn", "warn", "warn", "bad", "", ""]


def test_a_word_has_one_tone() -> None:
    assert [tone_of(word) for word in ("OK", "WARN", "STOP", "NOT_KEPT", "orders", None)] == [
        "ok",
        "warning",
        "error",
        "dim",
        "",
        "",
    ]
    assert {tone_of(status) for status in PlanStatus} <= {"ok", "warning", "error", "dim"}
    assert {state for state in OwnershipState if not tone_of(state)} == set()
    assert [alarm_of(word) for word in ("active", "draining")] == ["", "warning"]
