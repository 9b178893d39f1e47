"""The commands that are generated, as they are typed."""

import shlex
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from danube.admin.cli.output.help_text import command_line
from danube.admin.cli.typer_classes import _with_interval
from danube.admin.operations import REGISTRY
from danube.admin.operations.operation import AnyOperation, Example
from danube.model.errors import BrokerUnreachableError
from tests.faces.memory_gateway import ANY_CALL, MemoryGateway
from tests.unit.admin.cli.conftest import Admin

EXAMPLES = [
    pytest.param(operation, example, id=f"{operation.name}-{index}")
    for operation in REGISTRY
    for index, example in enumerate(operation.examples)
]


@pytest.mark.parametrize(("operation", "example"), EXAMPLES)
def test_every_example_is_a_command_that_works(operation: AnyOperation, example: Example, admin: Admin) -> None:
    _, *words = shlex.split(command_line(operation, example))
    code = admin(*words).code
    expected = 6 if operation.needs_person else 3 if operation.is_planned else 0
    assert code == (0 if operation.name == "trigger_rebalance" else expected)  # one broker has nothing to move


@pytest.mark.parametrize("operation", REGISTRY, ids=lambda operation: operation.name)
def test_every_operation_has_help_with_its_fields_examples_and_exit_codes(
    operation: AnyOperation, admin: Admin
) -> None:
    shown = admin(*operation.words, "--help")
    assert shown.code == 0
    for name in operation.params.model_fields:
        assert (name.upper() if name in operation.positional else f"--{name.replace('_', '-')}") in shown.out
    assert command_line(operation, operation.examples[0]) in shown.out
    assert "Exit codes: 0 done" in shown.out


@pytest.mark.parametrize(
    "words",
    [
        ["--endpoint", "http://b:1", "-o", "json", "brokers", "list"],
        ["brokers", "list", "--endpoint", "http://b:1", "-o", "json"],
        ["brokers", "--help"],
        ["brokers", "list", "--output", "json", "--timeout-s", "3", "--no-color", "-q"],
    ],
)
def test_the_options_of_the_root_are_taken_after_the_command_too(words: list[str], admin: Admin) -> None:
    assert admin(*words).code == 0


@pytest.mark.parametrize("words", [["--timeout-s", "0", "brokers", "list"], ["brokers", "list", "--timeout-s", "0"]])
def test_a_timeout_of_0_is_refused_and_no_word_for_the_default(words: list[str], admin: Admin) -> None:
    ended = admin(*words)
    assert (ended.code, ended.out) == (2, "")
    assert "a timeout of 0.0 s cannot be: use more than 0, up to" in ended.error


@pytest.mark.parametrize(
    ("storage", "code"),
    [({}, 0), ({"disk_is_low": True}, 9), ({"refused_topics": 2}, 10)],
    ids=["ok", "warning", "critical"],
)
def test_cluster_health_ends_as_its_verdict_says(
    storage: dict[str, Any], code: int, admin: Admin, gateway: MemoryGateway
) -> None:
    gateway.storage = replace(gateway.storage, **storage)
    for output in ("table", "json"):
        assert admin("cluster", "health", "-o", output).code == code


def test_what_stands_after_the_command_wins(admin: Admin) -> None:
    assert admin("-o", "json", "namespaces", "list", "-o", "jsonl").out == '"default"\n"staging"\n"system"\n'


@pytest.mark.parametrize(
    "words",
    [
        ["topics", "subscriptions", "orders", "--namespace", "default"],
        ["topics", "subscriptions", "default/orders"],
        ["topics", "subscriptions", "/default/orders"],
        ["topics", "subscriptions", "/default/orders", "--namespace", "other"],
    ],
)
def test_a_topic_is_named_as_in_the_original(words: list[str], admin: Admin) -> None:
    assert admin(*words).out == "audit\nbilling\n"


def test_a_bare_topic_without_its_namespace_is_refused_with_both_ways_to_say_it(admin: Admin) -> None:
    ended = admin("topics", "describe", "orders")
    assert (ended.code, ended.out) == (2, "")
    assert "write /default/orders, or add --namespace default" in ended.error


def test_a_subscription_has_its_short_option(admin: Admin) -> None:
    assert admin("topics", "unsubscribe", "/default/orders", "-s", "audit", "--yes").code == 0


@pytest.mark.parametrize("word", ["reliable", "Reliable", "reliable_dispatch", "reliable-dispatch"])
def test_the_originals_spellings_of_a_value_are_understood(word: str, admin: Admin) -> None:
    assert "Delivery: Reliable" in admin("topics", "create", "/default/new", "--dispatch-strategy", word).out


@pytest.mark.parametrize(
    ("words", "out"),
    [
        (["namespaces", "topics", "default", "-o", "json"], '[\n  "/default/events-part-0",\n'),
        (["brokers", "leader-broker"], "Leader: -\n"),
        (["brokers", "namespaces"], "default\nstaging\nsystem\n"),
    ],
)
def test_the_originals_other_names_for_an_operation_work(words: list[str], out: str, admin: Admin) -> None:
    assert admin(*words).out.startswith(out)


def test_other_names_for_scripts_are_not_in_the_help(admin: Admin) -> None:
    assert "leader-broker" not in admin("brokers", "--help").out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["topcs", "list"], "Did you mean 'topics'?"),
        (["topics", "lst"], "Did you mean 'list'?"),
        (["topics", "list", "--namspace", "x"], "Did you mean '--namespace'?"),
        (["--endpont", "x", "topics", "list"], "Did you mean '--endpoint'?"),
        (["topics", "list", "--limit", "0"], "'--limit'"),
        (["topics", "list", "--limit", "many"], "'--limit'"),
        (["topics", "list", "-o", "xml"], "use table|wide|json"),
        (["topics", "list", "--namespace", "a", "--broker", "1"], "namespace and broker exclude each other"),
        (["topics", "create", "/default/x", "--dispatch-strategy", "no"], "--dispatch-strategy: Input should be"),
        (["topics", "create", "/default/a b"], "is not a valid name"),
        (["topics", "list", "--endpoint", "ftp://x"], "is no endpoint"),
        (["topics", "list", "--context", "nowhere"], "there is no context 'nowhere'"),
        (["topics", "list", "--watch=0.1"], "'--watch'"),
        (["topics", "set-policies", "/default/x", "--unset", "retention"], ": --unset: Input should be"),
        (["topics", "set-policies", "/default/x"], ": Nothing to change"),
        (["topics", "seek", "/default/x", "-s", "a", "--to", "soon"], ": --to: 'soon' is no start"),
    ],
)
def test_wrong_usage_is_one_sentence_with_the_next_step(words: list[str], said: str, admin: Admin) -> None:
    ended = admin(*words)
    assert (ended.code in {2, 4}, ended.out) == (True, "")
    assert ended.error.startswith("danube-admin: ")
    assert said in ended.error
    assert ended.error.count("\n") == 1


@pytest.mark.parametrize(
    ("words", "read"),
    [
        (["--watch", "-o", "json"], ["--watch=2", "-o", "json"]),
        (["--watch"], ["--watch=2"]),
        (["--watch", "5"], ["--watch=5"]),
        (["--watch=5", "x"], ["--watch=5", "x"]),
        (["--watch", "orders"], ["--watch=2", "orders"]),
    ],
)
def test_a_watch_needs_no_number(words: list[str], read: list[str]) -> None:
    assert _with_interval(words) == read


def test_what_is_not_there_exits_4(admin: Admin) -> None:
    ended = admin("topics", "describe", "/default/none")
    assert (ended.code, ended.out, ended.error.count("\n")) == (4, "", 1)


def test_a_broker_that_does_not_answer_exits_5(admin: Admin, gateway: MemoryGateway) -> None:
    gateway.failures[ANY_CALL] = BrokerUnreachableError("no broker answers at http://b:1: start one")
    ended = admin("topics", "list")
    assert (ended.code, ended.out, ended.error) == (5, "", "danube-admin: no broker answers at http://b:1: start one\n")


def test_what_the_access_level_forbids_exits_6_and_is_in_the_log(admin: Admin, gateway: MemoryGateway) -> None:
    ended = admin("topics", "delete", "/default/orders", "--access", "read", "--yes")
    assert ended.code == 6
    assert "--access destroy" in ended.error
    assert [record.entry.outcome for record in gateway.audit_records] == ["refused"]


def test_a_damaged_audit_log_exits_8(admin: Admin, gateway: MemoryGateway) -> None:
    admin("topics", "list")
    admin("topics", "list")
    gateway.audit_records[0] = replace(gateway.audit_records[0], keeper="somebody else")
    ended = admin("audit", "--verify-all")
    assert ended.code == 8
    assert "record 0 does not fit: it was changed after it was written" in ended.error


def test_an_audit_log_that_cannot_be_read_exits_5_and_is_told_apart(admin: Admin, gateway: MemoryGateway) -> None:
    admin("topics", "list")
    gateway.other_audit_logs = {"2": None}
    ended = admin("audit", "--verify-all")
    assert (ended.code, "1 of what was to be checked cannot be read" in ended.error) == (5, True)
    verdicts = {words[0]: words[2] for line in ended.out.splitlines() if len(words := line.split()) > 2}
    assert (verdicts["/system/audit-part-0"], verdicts["/system/audit-part-1"]) == ("intact", "unreachable")


def test_a_damaged_log_of_another_broker_exits_8_and_is_named(admin: Admin, gateway: MemoryGateway) -> None:
    for _ in range(3):
        admin("topics", "list")
    whole = gateway.audit_records
    gateway.other_audit_logs = {"2": None}
    ended = admin("audit")
    assert (ended.code, "/system/audit-part-1 are missing here" in ended.out + ended.error) == (0, True)
    gateway.other_audit_logs = {"2": None, "3": [whole[0], whole[2]]}
    ended = admin("audit", "--verify-all")
    assert ended.code == 8
    assert "record 2 does not fit: /system/audit-part-2: record 1 should stand in its place" in ended.error


def test_an_error_without_a_name_shows_no_traceback_unless_asked(
    admin: Admin, gateway: MemoryGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken() -> None:
        raise RuntimeError("\x1b[31mboom")

    monkeypatch.setattr(gateway, "namespaces", broken)
    ended = admin("namespaces", "list")
    assert (ended.code, ended.error.count("\n")) == (1, 1)
    assert "RuntimeError: \\x1b[31mboom; --debug shows where" in ended.error
    assert "Traceback" in admin("namespaces", "list", "--debug").error


@pytest.mark.parametrize("words", [[], ["topics"], ["topics", "delete"]])
def test_a_command_that_lacks_its_words_shows_its_help_beside_the_data(words: list[str], admin: Admin) -> None:
    ended = admin(*words)
    assert (ended.code, ended.out) == (2, "")
    assert ended.error.startswith("Usage: danube-admin")


def test_every_call_is_in_the_audit_log_under_the_callers_name(admin: Admin, gateway: MemoryGateway) -> None:
    admin("topics", "list")
    admin("topics", "create", "/default/new")
    entries = [record.entry for record in gateway.audit_records]
    assert [(each.operation, each.outcome) for each in entries] == [
        ("list_topics", "done"),
        ("create_topic", "started"),
        ("create_topic", "done"),
    ]
    assert {each.caller.face for each in entries} == {"cli"}
    assert all("@" in each.caller.who for each in entries)


def test_help_loads_nothing_heavy(tmp_path: Path) -> None:
    heavy = {"grpc", "jinja2", "mcp", "rich.console", "starlette", "textual", "uvicorn", "danube.broker"}
    program = (
        "import sys\nfrom danube.admin.__main__ import app, connect\n"
        "try:\n    app(connect)(args=['--help'])\nexcept SystemExit:\n    pass\n"
        f"print(sorted(set(sys.modules) & {heavy}), file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=Path(__file__).parents[4], capture_output=True, text=True, check=True
    )
    assert done.stderr == "[]\n"
