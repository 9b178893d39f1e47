"""The commands as they are typed, as far as they get without a broker."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from danube.cli.__main__ import app

NOBODY = "http://127.0.0.1:1"


def invoke(*arguments: str, environment: dict[str, str] | None = None) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, arguments, env=environment)
    return result.exit_code, result.stdout, result.stderr


def test_the_version_is_printed() -> None:
    code, out, _ = invoke("--version")
    assert code == 0
    assert out.startswith("danube ")


@pytest.mark.parametrize("command", [[], ["produce"], ["consume"]])
def test_help_has_examples_and_exit_codes(command: list[str]) -> None:
    code, out, _ = invoke(*command, "--help")
    assert code == 0
    assert "Examples:" in out
    assert "Exit codes: 0 done" in out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["produce", "-t", "orders", "-m", "x", "--service-addr", NOBODY], "/namespace_name/topic_name"),
        (["produce", "-t", "/default/t", "-m", "x", "--service-addr", "localhost"], "http://host:port"),
        (["produce", "-t", "/default/t", "--count", "3"], "--message or --file"),
        (["produce", "-t", "/default/t", "-", "-m", "x"], "exclude each other"),
        (["produce", "-t", "/default/t", "no-such-file"], "there is no file no-such-file"),
        (["produce", "-t", "/default/t", "--file", "no-such-file"], "there is no file no-such-file"),
        (["produce", "-t", "/default/t", "-m", "x", "-a", "k"], "key=value"),
        (["consume", "-t", "/default/t", "-s", "a", "-s", "b"], "-s my-subscription"),
        (["consume", "-t", "/default/t", "-s", "s", "--sub-type", "queue"], "exclusive, shared, failover"),
    ],
)
def test_wrong_usage_exits_2_with_the_next_step(arguments: list[str], said: str) -> None:
    code, out, error = invoke(*arguments)
    assert (code, out) == (2, "")
    assert error.startswith("danube: ")
    assert said in error
    assert error.count("\n") == 1


@pytest.mark.parametrize(
    "command", [["produce", "-t", "/default/t", "-m", "x"], ["consume", "-t", "/default/t", "-s", "s"]]
)
def test_a_broker_that_is_not_there_exits_5_and_is_named(command: list[str]) -> None:
    code, out, error = invoke(*command, "--connect-timeout-s", "0.3", environment={"DANUBE_SERVICE_ADDR": NOBODY})
    assert (code, out) == (5, "")
    assert f"no broker answers at {NOBODY}" in error
    assert error.count("\n") == 1


@pytest.mark.parametrize(
    "arguments",
    [
        ["produce", "-s", NOBODY, "-t", "/default/t", "-m", "x", "-c", "2", "-i", "500", "-y", "-n", "me", "-p", "2"],
        [
            "produce",
            "-t",
            "/default/t",
            "--service-addr",
            NOBODY,
            "--message",
            "x",
            "--count",
            "2",
            "--interval",
            "500",
            "--reliable",
        ],
        ["produce", "-s", NOBODY, "-t", "/default/t", "-m", "x", "-a", "k:v,l:w", "--partitions", "2"],
        ["consume", "-s", NOBODY, "-t", "/default/t", "-n", "me", "-m", "sub", "--sub-type", "fail-over"],
        ["consume", "-t", "/default/t", "--service-addr", NOBODY, "--consumer", "me", "--subscription", "sub"],
    ],
)
def test_the_words_of_the_originals_command_are_understood(arguments: list[str]) -> None:
    code, _, error = invoke(*arguments, "--connect-timeout-s", "0.1")
    assert code == 5, error


def test_help_is_quick_and_loads_no_grpc() -> None:
    program = "import sys; sys.argv = ['danube', '--help']; from danube.cli.__main__ import main\ntry: main()\n"
    program += "finally: assert not {'grpc', 'google.protobuf', 'rich'} & set(sys.modules)"
    begun = os.times().children_user
    subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, cwd=Path(__file__).parents[3])
    assert os.times().children_user - begun < 10
