"""What standard output holds, in every format."""

import json
import time

import pytest
import yaml

from danube.admin.cli.output.draw import Screen, cells_of, drawn
from danube.admin.operations import BY_NAME
from danube.admin.operations.analytics.lag import LagGroupRow, LagReport
from danube.admin.operations.topics.topic_list import TopicList, TopicRow
from danube.admin.present import Table, View, view_of
from danube.model.exit_codes import ExitCode
from danube.model.ownership import OwnershipState
from danube.model.topic import DispatchStrategy, TopicName
from tests.faces.memory_gateway import HOSTILE, MemoryGateway
from tests.unit.admin.cli.conftest import Admin

FORMATS = ["table", "wide", "json", "yaml", "jsonl"]
LISTED = (
    ["brokers", "list"],
    ["topics", "list"],
    ["namespaces", "list"],
    ["plans", "list"],
    ["audit"],
    ["cluster", "health"],
)
TERMINAL = Screen(is_terminal=True, width=60)
LONG = "a" * 200


@pytest.mark.parametrize("words", LISTED, ids="-".join)
def test_the_formats_for_programs_say_the_same(words: list[str], admin: Admin) -> None:
    from_json, from_yaml, from_lines = (
        without_log(read(admin(*words, "-o", each).out))
        for each, read in (("json", json.loads), ("yaml", yaml.safe_load), ("jsonl", lines_of))
    )
    assert from_json == from_yaml
    assert from_lines == (from_json if isinstance(from_json, list) else [from_json])


def lines_of(text: str) -> list[object]:
    return [json.loads(line) for line in text.splitlines()]


def without_log(data: object) -> object:
    """The audit log grows with each look at it."""
    for each in data if isinstance(data, list) else [data]:
        if isinstance(each, dict) and "records" in each:
            each.update(records=[], checked=0, total=0)
    return data


@pytest.mark.parametrize(
    ("words", "first"),
    [
        (
            ["brokers", "list"],
            {"broker_id", "broker_status", "broker_addr", "broker_role", "admin_addr", "metrics_addr"},
        ),
        (
            ["topics", "list"],
            {
                "name",
                "broker_id",
                "delivery",
                "state",
                "lag_messages",
                "stored_bytes",
                "partitions",
            },  # from `state` on ours
        ),
    ],
)
def test_a_listing_is_an_array_of_objects_as_in_the_original(words: list[str], first: set[str], admin: Admin) -> None:
    assert set(json.loads(admin(*words, "-o", "json").out)[0]) == first


def test_rows_of_one_field_are_strings_as_in_the_original(admin: Admin) -> None:
    assert json.loads(admin("namespaces", "list", "-o", "json").out) == ["default", "staging", "system"]
    assert json.loads(admin("topics", "subscriptions", "/default/orders", "-o", "json").out) == ["audit", "billing"]


@pytest.mark.parametrize("line", ["Self Node ID: 1\n", "Leader: -\n", "Voters: -\n"])
def test_the_lines_that_scripts_look_for_are_there(line: str, admin: Admin) -> None:
    assert line in admin("cluster", "status").out


def test_what_was_created_is_said_as_in_the_original(admin: Admin) -> None:
    shown = admin("topics", "create", "/default/new", "--schema-subject", "orders-value").out
    assert "Topic created: /default/new" in shown
    assert "orders-value" in shown


def test_a_limit_says_how_to_go_on_beside_the_data(admin: Admin) -> None:
    first = admin("topics", "list", "--limit", "2", "-o", "json")
    assert len(json.loads(first.out)) == 2
    cursor = first.error.split("--cursor ")[1].strip()
    assert len(json.loads(admin("topics", "list", "--limit", "9", "--cursor", cursor, "-o", "json").out)) == 3


def test_an_empty_listing_is_said_and_is_no_data(admin: Admin) -> None:
    ended = admin("namespaces", "topics", "staging")
    assert (ended.code, ended.out, ended.error) == (0, "", "danube-admin: there are no topics\n")
    assert admin("namespaces", "topics", "staging", "-q").error == ""
    assert admin("namespaces", "topics", "staging", "-o", "json").out == "[]\n"


@pytest.mark.parametrize("output", FORMATS)
@pytest.mark.parametrize("words", LISTED, ids="-".join)
def test_hostile_names_move_no_cursor_in_any_format(
    words: list[str], output: str, admin: Admin, gateway: MemoryGateway
) -> None:
    gateway.serve_hostile_names()
    admin("topics", "describe", f"/default/{HOSTILE}")
    ended = admin(*words, "-o", output)
    assert ended.code == (ExitCode.CRITICAL if words == ["cluster", "health"] else 0)
    assert all(each.isprintable() or each == "\n" for each in ended.out + ended.error)


@pytest.mark.parametrize(("output", "read"), [("json", json.loads), ("yaml", yaml.safe_load), ("jsonl", lines_of)])
def test_programs_read_hostile_names_as_they_are(
    output: str, read: object, admin: Admin, gateway: MemoryGateway
) -> None:
    gateway.serve_hostile_names()
    assert callable(read)
    assert HOSTILE in read(admin("namespaces", "list", "-o", output).out)


def test_ten_thousand_topics_are_listed_whole_and_soon(admin: Admin, gateway: MemoryGateway) -> None:
    for number in range(10_000):
        gateway.cluster.add_topic(TopicName("default", f"topic-{number:05}"), DispatchStrategy.RELIABLE)
    before = time.process_time()
    lines = admin("topics", "list").out.splitlines()
    assert len(lines) == 10_000 + 5 + 1
    assert len(json.loads(admin("topics", "list", "-o", "json").out)) == 10_005
    assert time.process_time() - before < 20


@pytest.mark.parametrize("screen", [Screen(), TERMINAL])
def test_nothing_is_cut_however_narrow_the_screen(screen: Screen) -> None:
    view = View((("Label", LONG),), (Table("Rows", ("Name", "Other"), ((LONG, "x"),)),))
    text = drawn(view, screen).replace("\n", "").replace(" ", "")
    assert text.count("a") - text.count("Label") - text.count("Name") * 1 >= 400


def test_a_pipe_gets_one_line_a_row(admin: Admin) -> None:
    lines = admin("topics", "list").out.splitlines()
    assert lines[0].split() == ["NAME", "BROKER", "STATE", "LAG", "SIZE"]
    assert [line.split()[0] for line in lines[1:]] == [
        "/default/events-part-0",
        "/default/events-part-1",
        "/default/events-part-2",
        "/default/orders",
        "/default/ticks",
    ]


def test_names_are_not_broken_between_lines_and_a_topic_is_one_line_of_80_columns() -> None:
    names = [f"/default/orders-of-the-west-part-{index}" for index in range(3)]
    rows = [
        TopicRow(
            name=name,
            broker_id="127.0.0.1:6650",
            delivery="Reliable",
            state=OwnershipState.SERVED,
            lag_messages=12_345,
            stored_bytes=123_456_789,
            partitions=3,
        )
        for name in names
    ]
    view = view_of(BY_NAME["list_topics"], TopicList(total=3, topics=rows))
    lines = drawn(view, Screen(is_terminal=True, width=80)).splitlines()
    assert [line.split()[0] for line in lines[1:]] == names
    longer = Table("Rows", ("Name", "Note"), ((f"/default/{'x' * 40}", "a sentence that is folded between its words"),))
    first, *more = drawn(View((), (longer,)), Screen(is_terminal=True, width=80)).splitlines()[1:]
    assert f"/default/{'x' * 40}" in first
    assert f"{first} {' '.join(more)}".split()[1:] == longer.rows[0][1].split()


def test_wide_has_more_columns_than_the_table(admin: Admin) -> None:
    headings = [set(admin("topics", "list", "-o", each).out.splitlines()[0].split()) for each in ("table", "wide")]
    assert headings[1] - headings[0] == {"DELIVERY", "PARTITIONS"}


def test_wide_characters_stay_in_their_columns() -> None:
    view = View((), (Table("Rows", ("Name", "Other"), (("東京", "x"), ("abcdef", "y"))),))
    assert drawn(view, Screen()) == "NAME    OTHER\n東京    x\nabcdef  y\n"


def test_markup_in_a_name_is_shown_and_not_obeyed() -> None:
    view = View((), (Table("Rows", ("Name", "Other"), (("[bold red]x[/]", ":smile:"),)),))
    assert "[bold red]x[/]" in drawn(view, TERMINAL)
    assert ":smile:" in drawn(view, TERMINAL)


def test_what_has_changed_is_marked() -> None:
    before = View((("Leader", "1"),), (Table("Rows", ("Name", "Lag"), (("orders", "1"),)),))
    after = View((("Leader", "1"),), (Table("Rows", ("Name", "Lag"), (("orders", "2"),)),))
    old, new = cells_of(before), cells_of(after)
    changed = frozenset(place for place, text in new.items() if old[place] != text)
    assert changed == {("Rows", "orders", "Lag")}
    text = drawn(after, Screen(is_terminal=True, width=60, color=True), changed)
    assert "\x1b[7m2\x1b[0m" in text.replace(" ", "")


def test_lag_is_a_table_from_100_columns_on_with_units_and_its_evidence_below_once() -> None:
    row = LagGroupRow.model_construct(
        status="STOP", topic="/default/invoices", subscription="billing", lag_messages=12_345, lag_s=1_965.0,
        arrival_rate=12.5, consume_rate=0.0, eta_s=None, eta_reason="nothing_consumed", cause="nobody_reads",
        evidence="no consumer for 90 s", consumers=0,
    )  # fmt: skip
    report = LagReport.model_construct(
        answered_by="live", reason="last 180 s (no recent Spark run)", as_of_ms=0, statuses={"OK": 2, "STOP": 1},
        groups=[row], partitions=[], next_cursor=None, total=3,
    )  # fmt: skip
    view = view_of(BY_NAME["analyze_consumer_lag"], report)
    lines = drawn(view, Screen(is_terminal=True, width=100)).splitlines()
    assert "Groups:  1 of 3 are behind (2 OK, 1 STOP)" in lines
    told = "STOP /default/invoices billing 12,345 32 m 45 s 12.5 0.0 never nobody reads"
    assert [" ".join(line.split()) for line in lines[-3:]] == [told, "", f"{told[:30]}: no consumer for 90 s"]
    assert drawn(view, Screen(is_terminal=True, width=100, verbose=True)).splitlines() == lines
