"""`danube-admin tui`: what it refuses, the picture it draws, and what it loads."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from danube.admin.tui.command import add_commands
from danube.model.exit_codes import ExitCode
from danube.runtime.clock import SystemClock
from tests.faces.memory_gateway import connect_to
from tests.faces.seeded import seeded_gateway

pytestmark = pytest.mark.slow  # together they take long


@pytest.fixture
def app() -> typer.Typer:
    app = typer.Typer()
    app.command("other")(lambda: None)
    add_commands(app, connect_to(seeded_gateway(SystemClock())))
    return app


def test_without_a_terminal_it_says_so_in_one_sentence(app: typer.Typer) -> None:
    result = CliRunner().invoke(app, ["tui"])
    assert result.exit_code == ExitCode.USAGE
    assert "needs a terminal" in result.output
    assert "Traceback" not in result.output


@pytest.mark.slow
def test_a_screenshot_needs_no_web_and_shows_the_cluster(app: typer.Typer, tmp_path: Path) -> None:
    file = tmp_path / "screen.svg"
    result = CliRunner().invoke(app, ["tui", "--screenshot", str(file), "--size", "100x30"])
    assert (result.exit_code, result.output) == (0, "")
    picture = file.read_text()
    assert "/default/orders" in picture
    assert "@font-face" not in picture
    assert re.findall(r"url\((?!#)[^)]*\)", picture) == []


def test_a_size_that_is_none_is_refused(app: typer.Typer) -> None:
    result = CliRunner().invoke(app, ["tui", "--screenshot", "x.svg", "--size", "large"])
    assert result.exit_code == ExitCode.USAGE
    assert "as in 120x36" in result.output


def test_a_missing_extra_is_one_sentence(app: typer.Typer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("danube.admin.tui.command.find_spec", lambda _: None)
    result = CliRunner().invoke(app, ["tui"])
    assert result.exit_code == ExitCode.USAGE
    assert "pip install '.[tui]'" in result.output


def test_the_command_loads_nothing_of_the_screen() -> None:
    program = "import sys, danube.admin.tui.command; print({'textual', 'grpc', 'jinja2'} & {*sys.modules})"
    root = Path(__file__).parents[4]
    output = subprocess.run([sys.executable, "-c", program], cwd=root, capture_output=True, text=True, check=True)
    assert output.stdout.strip() == "set()"
