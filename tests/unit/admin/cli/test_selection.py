"""Output for scripts: names, CSV, JSONPath, sorted rows; units, filters of the audit log, completion scripts."""

import csv
import io
import json

import pytest

from danube.admin.cli.output.selection import csv_text, jsonpath_text
from danube.model.errors import InvalidRequestError
from danube.model.plans.plan import Face
from tests.faces.memory_gateway import MemoryGateway
from tests.unit.admin.cli.conftest import Admin


def test_names_are_the_keys_of_rows_one_a_line(admin: Admin) -> None:
    names = [row["name"] for row in json.loads(admin("topics", "list", "-o", "json").out)]
    assert admin("topics", "list", "-o", "name").out.splitlines() == names
    assert admin("namespaces", "list", "-o", "name").out == "default\nstaging\nsystem\n"
    assert admin("topics", "describe", "/default/orders", "-o", "name").out == "/default/orders\n"


def test_csv_has_a_header_and_every_column(admin: Admin) -> None:
    rows = list(csv.DictReader(io.StringIO(admin("topics", "list", "-o", "csv").out)))
    known = json.loads(admin("topics", "list", "-o", "json").out)
    assert [row["name"] for row in rows] == [row["name"] for row in known]
    assert set(rows[0]) == set(known[0])
    assert csv_text([{"a": 'x,"y"', "b": [1, None]}, {"c": "line\nend"}]) == (
        'a,b,c\n"x,""y""","[1, null]",\n,,line\\nend\n'
    )


@pytest.mark.parametrize(
    ("words", "field"),
    [
        (("topics", "connections", "/default/orders"), "connections"),
        (("topics", "peek", "/default/orders"), "messages"),
        (("analytics", "lag"), "groups"),
        (("cluster", "health"), "checks"),
        (("brokers", "balance"), "brokers"),
        (("audit",), "records"),
    ],
)
def test_csv_of_a_result_with_facts_and_a_table_is_the_rows_of_the_table(
    words: tuple[str, ...], field: str, admin: Admin
) -> None:
    admin("topics", "describe", "/default/none")  # for the audit log
    rows = list(csv.DictReader(io.StringIO(admin(*words, "-o", "csv").out)))
    known = json.loads(admin(*words, "-o", "json").out)[field]
    assert rows
    assert len(rows) + (words == ("audit",)) == len(known)  # each look is a record
    assert [list(row) for row in rows] == [list(row) for row in known][: len(rows)]
    text = next(name for name, value in known[0].items() if isinstance(value, str))
    assert [row[text] for row in rows] == [str(row[text]) for row in known][: len(rows)]


def test_csv_of_no_rows_is_its_header(admin: Admin) -> None:
    assert admin("topics", "list", "--namespace", "staging", "-o", "csv").out.startswith("name,broker_id,")
    assert admin("namespaces", "list", "-o", "csv").out == "name\ndefault\nstaging\nsystem\n"


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("{[*].name}", "a\nb\n"),
        ("[1].in[0].x", "2\n"),
        ("$[-1]['name']", "b\n"),
        ("{[0].none}", "\n"),
        ("[0].in", '[{"x": 1}]\n'),
    ],
)
def test_a_path_answers_its_values(path: str, found: str) -> None:
    data = [{"name": "a", "none": None, "in": [{"x": 1}]}, {"name": "b", "none": 1, "in": [{"x": 2}]}]
    assert jsonpath_text(data, path) == found


@pytest.mark.parametrize("path", ["{[*].nothing}", "[7]", "..name", "[?(@.x)]", "." * 600])
def test_a_path_that_leads_nowhere_is_refused(path: str) -> None:
    with pytest.raises(InvalidRequestError):
        jsonpath_text([{"name": "a"}], path)


def test_a_path_is_asked_for_on_the_command_line(admin: Admin) -> None:
    assert admin("topics", "describe", "/default/orders", "-o", "jsonpath={.subscription_states[*].name}").out == (
        "audit\nbilling\n"
    )
    for wrong in ("jsonpath", "xml", "csv=1"):
        ended = admin("topics", "list", "-o", wrong)
        assert ended.code == 2
        assert "jsonpath='{[*].name}'" in ended.error


def test_rows_are_sorted_by_a_field_upwards_and_downwards(admin: Admin) -> None:
    names = admin("topics", "list", "-o", "name").out.splitlines()
    assert admin("topics", "list", "-o", "name", "--sort-by", "-name").out.splitlines() == sorted(names, reverse=True)
    tables = admin("topics", "list", "--sort-by", "delivery").out.splitlines()[1:]
    assert [line.split()[2] for line in tables] == sorted(line.split()[2] for line in tables)
    ended = admin("topics", "list", "--sort-by", "size")
    assert ended.code == 2
    assert "they have name, broker_id" in ended.error


def test_retention_is_typed_with_units_and_shown_with_them(admin: Admin) -> None:
    words = ("--time-s", "7d", "--bytes", "10GiB", "--dry-run", "-o", "json")
    plan = json.loads(admin("topics", "set-retention", "/default/orders", *words).out)["plan"]
    assert (plan["arguments"]["time_s"], plan["arguments"]["bytes"]) == (604_800, 10 * 2**30)
    ended = admin("topics", "set-message-ttl", "/default/orders", "--ttl-s", "a week")
    assert ended.code == 2
    assert "--ttl-s: 'a week' is no duration: give seconds, or a duration such as 90s" in ended.error


def test_the_audit_log_is_filtered_by_operation_outcome_face_and_time(admin: Admin, gateway: MemoryGateway) -> None:
    for _ in range(3):
        admin("namespaces", "list")
    admin("topics", "describe", "/default/none")

    def operations(*words: str) -> list[str]:
        return [row["operation"] for row in json.loads(admin("audit", "-o", "json", *words).out)["records"]]

    assert operations("--operation", "list_namespaces") == ["list_namespaces"] * 3
    assert operations("--operation", "list_namespaces", "--limit", "2") == ["list_namespaces"] * 2
    assert operations("--outcome", "failed", "--last", "1h") == ["describe_topic"]
    assert operations("--face", "web") == []
    assert operations("--who", "nobody-of-this-name") == []
    assert len(operations("--face", "cli")) >= 4
    assert all(record.entry.caller.face is Face.CLI for record in gateway.audit_records)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_completion_script_of_a_shell_is_printed(admin: Admin, shell: str) -> None:
    ended = admin("completion", shell)
    assert ended.code == 0
    assert f"_DANUBE_ADMIN_COMPLETE=complete_{shell}" in ended.out
    assert admin("completion", "tcsh").code == 2
