"""The command: what it loads, what it refuses, and the original's settings file."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from danube.admin.__main__ import app
from danube.admin.mcp.transport.serve import _configured, read_original_config
from danube.admin.target import Target
from danube.model.errors import SettingsError
from danube.testing.patience import PATIENCE_S
from tests.faces.memory_gateway import connect_to
from tests.faces.seeded import seeded_gateway

ROOT = Path(__file__).parents[4]
HEAVY = ("mcp", "starlette", "uvicorn", "grpc", "danube.admin.mcp.transport.serve")


def python(program: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_S,
        stdin=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )


def run(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(app(connect_to(seeded_gateway())), ["mcp", *arguments])
    return result.exit_code, result.output


@pytest.mark.cluster
def test_the_command_line_loads_nothing_heavy_until_the_server_starts() -> None:
    ended = python(f"import sys, danube.admin.mcp.command; print([m for m in {HEAVY} if m in sys.modules])")
    assert ended.stdout.strip() == "[]", ended.stderr


@pytest.mark.cluster
def test_without_the_extra_it_says_what_to_install() -> None:
    ended = python(
        "import sys; sys.modules['mcp'] = None\n"
        "from danube.admin.__main__ import app\nfrom tests.faces.memory_gateway import connect_to\n"
        "from tests.faces.seeded import seeded_gateway\n"
        "app(connect_to(seeded_gateway()))(['mcp'], prog_name='danube-admin')"
    )
    assert ended.returncode == 2
    assert "pip install '.[mcp]'" in ended.stderr
    assert len(ended.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--toolsets", "defualt"], "there is no toolset 'defualt'"),
        (["--http", "--host", "0.0.0.0"], "--allow-remote"),
        (["--name", "a b"], "cannot name a server"),
        (["--access", "admin"], "admin"),
    ],
)
def test_wrong_flags_are_refused_with_the_next_step(arguments: list[str], words: str) -> None:
    code, output = run(*arguments)
    assert code == 2
    assert words in output


def test_the_help_fits_a_terminal_and_names_what_waits() -> None:
    code, output = run("--help")
    assert code == 0
    assert "plans approve" in output


# The original's mcp-config.yml


def written(folder: Path, text: str) -> Path:
    path = folder / "mcp-config.yml"
    path.write_text(text)
    return path


def test_an_original_settings_file_gives_its_endpoint_and_tells_what_it_does_not_do(tmp_path: Path) -> None:
    text = (
        "broker_endpoint: http://broker:50051\nprometheus_url: http://p:9090\nsurprise: 1\ndeployment: {type: docker}\n"
    )
    config = read_original_config(written(tmp_path, text))
    assert config.broker_endpoint == "http://broker:50051"
    assert config.prometheus_url == "http://p:9090"
    assert [remark.split(": ")[1] for remark in config.remarks] == [
        "surprise is not known",
        "deployment is not used",
    ]


@pytest.mark.parametrize("text", ["prometheus_url: x\n", "broker_endpoint: 5\n", "broker_endpoint: ''\n"])
def test_an_original_settings_file_without_an_endpoint_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(SettingsError, match="no broker_endpoint"):
        read_original_config(written(tmp_path, text))


async def test_the_token_of_a_context_does_not_go_to_another_cluster(tmp_path: Path) -> None:
    path = written(tmp_path, "broker_endpoint: elsewhere:50051\n")
    of_context = await _configured(Target(endpoint="http://here:50051", context="prod", token="t0ken"), path)
    named = await _configured(Target(endpoint="http://here:50051", token="t0ken"), path)
    assert (of_context.endpoint, of_context.token, of_context.context) == ("http://elsewhere:50051", None, None)
    assert named.token == "t0ken"
