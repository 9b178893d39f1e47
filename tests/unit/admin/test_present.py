"""Results as people read them."""

import unicodedata
from typing import Annotated, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import Field

from danube.admin.access import Guard
from danube.admin.execution import Session, execute, parse_arguments
from danube.admin.operations import REGISTRY, operation_of
from danube.admin.operations.fields import WIDE, Result
from danube.admin.operations.operation import AnyOperation
from danube.admin.operations.plan_views import plan_view
from danube.admin.present import View, cell, label, plan_view_of, printable, view_of
from danube.model.plans.plan import Caller, Face, PlanRequest
from tests.faces.memory_gateway import HOSTILE, MemoryGateway
from tests.faces.seeded import PLAN_ID, SEEDED_REQUEST, seeded_gateway


def texts_of(view: View) -> list[str]:
    cells = [each for table in view.tables for row in table.rows for each in row]
    return [*(word for fact in view.facts for word in fact), *cells, *view.notes]


def is_harmless(text: str) -> bool:
    return not any(unicodedata.category(each) in {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"} for each in text)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("/default/orders", "/default/orders"),
        ("Größe 数 📦", "Größe 数 📦"),
        ("\x1b[31mred", "\\x1b[31mred"),
        ("one\r\ntwo\ttabs\x00", "one\\x0d\\x0atwo\\x09tabs\\x00"),
        ("\u202eright to left", "\\u202eright to left"),
        ("zero\u200bwidth \ufeff", "zero\\u200bwidth \\ufeff"),
        ("\u2028", "\\u2028"),
        ("\U000e0041", "\\U000e0041"),
    ],
)
def test_what_would_move_the_cursor_or_hide_is_shown_as_an_escape(text: str, shown: str) -> None:
    assert printable(text) == shown


@given(st.text())
def test_no_text_at_all_gets_through_as_a_command(text: str) -> None:
    assert is_harmless(printable(text))


@given(st.text())
def test_what_is_printable_once_stays_as_it_is(text: str) -> None:
    assert printable(printable(text)) == printable(text)


async def called(gateway: MemoryGateway, name: str, arguments: dict[str, Any]) -> tuple[AnyOperation, Result]:
    operation = operation_of(name)
    caller = Caller(who=HOSTILE, face=Face.CLI, client=HOSTILE)
    session = Session(gateway=gateway, caller=caller, clock=gateway.clock, guard=Guard())
    return operation, await execute(session, operation, parse_arguments(operation, arguments))


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("list_brokers", {}),
        ("list_namespaces", {}),
        ("list_topics", {}),
        ("describe_topic", {"topic": "/default/orders"}),
        ("list_subscriptions", {"topic": "/default/orders"}),
        ("health_check", {}),
        ("unsubscribe", {"topic": "/default/orders", "subscription": HOSTILE}),
        ("delete_topic", {"topic": "/default/orders"}),
        ("audit", {}),
    ],
)
async def test_hostile_names_are_shown_and_obeyed_by_nobody(name: str, arguments: dict[str, Any]) -> None:
    gateway = seeded_gateway()
    gateway.serve_hostile_names()
    orders = gateway.cluster.topics["/default/orders"].subscriptions
    orders[HOSTILE] = orders["audit"]
    await called(gateway, "list_brokers", {})
    for wide in (False, True):
        operation, result = await called(gateway, name, arguments)
        assert all(is_harmless(text) for text in texts_of(view_of(operation, result, wide=wide)))


def test_the_plan_of_a_hostile_caller_is_harmless_too() -> None:
    gateway = seeded_gateway()
    plan = gateway.stored_plans[PLAN_ID]
    hostile = Caller(who=HOSTILE, face=Face.MCP, client=HOSTILE)
    request = PlanRequest(
        operation=HOSTILE,
        arguments={HOSTILE: HOSTILE},
        effect=SEEDED_REQUEST.effect,
        caller=hostile,
        needs_approval=True,
    )
    fields = {name: getattr(plan, name) for name in type(plan).__dataclass_fields__}
    fields.update(operation=request.operation, arguments=request.arguments, asked_by=hostile, decided_by=hostile)
    view = plan_view_of(plan_view(type(plan)(**{**fields, "plan_id": HOSTILE}), 0))
    assert all(is_harmless(text) for text in texts_of(view))


@pytest.mark.parametrize(
    ("value", "name", "shown"),
    [
        (None, "", "-"),
        (True, "", "yes"),
        (False, "", "no"),
        (1_234_567, "", "1,234,567"),
        (0.25, "", "0.2"),
        (1_750_000_000_000, "created_ms", "2025-06-15 15:06:40Z"),
        (250, "last_round_ms", "250"),
        (10**18, "created_ms", "1,000,000,000,000,000,000"),
        (-1, "created_ms", "-1"),
        (["a", "b"], "", "a, b"),
        ([], "", "-"),
        ({"a": 1, "b": None}, "", "a=1"),
        ({}, "", "-"),
        ("", "", "-"),
    ],
)
def test_values_are_written_for_people(value: object, name: str, shown: str) -> None:
    assert cell(value, name) == shown


@pytest.mark.parametrize(
    ("name", "shown"), [("broker_id", "Broker ID"), ("created_ms", "Created"), ("lag_messages", "Lag messages")]
)
def test_fields_have_headings(name: str, shown: str) -> None:
    assert label(name) == shown


async def test_a_listing_says_how_to_go_on_where_there_is_more() -> None:
    operation, result = await called(seeded_gateway(), "list_topics", {"limit": 2})
    view = view_of(operation, result)
    assert view.facts == ()
    assert len(view.tables[0].rows) == 2
    assert "5 in all" in view.notes[0]
    assert result.model_dump()["next_cursor"] in view.notes[0]


async def test_an_empty_listing_is_a_table_with_columns() -> None:
    operation, result = await called(seeded_gateway(), "list_topics", {"namespace": "staging"})
    (table,) = view_of(operation, result).tables
    assert (table.rows, table.columns) == ((), ("Name", "Broker", "State", "Lag", "Size"))


async def test_rows_beside_facts_are_a_table_where_there_are_any() -> None:
    gateway = seeded_gateway()
    empty = view_of(*await called(gateway, "audit", {}))
    assert (empty.tables, dict(empty.facts)["Records"]) == ((), "-")
    (table,) = view_of(*await called(gateway, "audit", {})).tables
    assert "Operation" in table.columns


def test_wide_fields_are_shown_when_that_is_asked() -> None:
    class Row(Result):
        name: str = Field(description="A name.")
        more: Annotated[str, WIDE] = Field(description="More.")

    row = Row(name="a", more="b")
    operation = REGISTRY[0]
    assert view_of(operation, row).facts == (("Name", "a"),)
    assert view_of(operation, row, wide=True).facts == (("Name", "a"), ("More", "b"))


async def test_a_plan_says_what_it_does_what_cannot_be_undone_and_what_is_next() -> None:
    operation, result = await called(seeded_gateway(), "delete_topic", {"topic": "/default/orders"})
    view = view_of(operation, result)
    facts = dict(view.facts)
    assert facts["Topics"] == "1 (/default/orders)"
    assert facts["Subscriptions"] == "2 (/default/orders audit, /default/orders billing)"
    assert [note.split(":")[0] for note in view.notes] == ["Does", "Cannot be undone", view.notes[-1].split(":")[0]]
    assert facts["Plan"] in view.notes[-1]


async def test_of_many_names_a_plan_shows_the_first_and_counts_the_rest() -> None:
    gateway = seeded_gateway()
    await called(gateway, "create_topic", {"name": "/default/clicks", "partitions": 30})
    operation, result = await called(gateway, "delete_topic", {"topic": "/default/clicks"})
    assert dict(view_of(operation, result).facts)["Topics"].startswith("30 (/default/clicks-part-0, ")
    assert dict(view_of(operation, result).facts)["Topics"].endswith(" and 25 more)")
