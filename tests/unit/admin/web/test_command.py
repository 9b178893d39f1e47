"""`danube-admin serve`: its flags, the original's, and its refusals."""

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from danube.admin.access import AccessLevel
from danube.admin.profiles import TargetFlags
from danube.admin.target import Connect, Target
from danube.admin.web.command import ServeMcp, add_commands, read_tokens
from danube.model.errors import SettingsError
from danube.model.limits.faces import WEB_TOKEN_FILE_BYTES_MAX
from danube.testing.patience import PATIENCE_S
from tests.faces.memory_gateway import connect_to
from tests.faces.seeded import seeded_gateway
from tests.unit.admin.web.site import TOKEN

Served = list[tuple[Target, Path | None]]


@pytest.fixture(autouse=True)
def _quiet_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path))


def run(*words: str, serve_mcp: ServeMcp | None = None) -> Any:
    """The command alone, with what it wrote."""
    app = typer.Typer()

    @app.callback()
    def root(context: typer.Context) -> None:
        context.obj = TargetFlags()

    add_commands(app, connect_to(seeded_gateway()), serve_mcp)
    return CliRunner().invoke(app, list(words))


def served(log: Served) -> ServeMcp:
    async def serve_mcp(connect: Connect, target: Target, config_file: Path | None) -> None:
        log.append((target, config_file))

    return serve_mcp


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--listen-addr", "0.0.0.0:0"), "there is no token: give --token-file or DANUBE_ADMIN_WEB_TOKEN"),
        (("--access", "destroy"), "--access destroy lets whoever reaches the port change the cluster"),
        (("--listen-addr", "here"), "is not an address"),
        (("--token-file", "nope"), "cannot read the tokens in nope"),
        (("--public-url", "https://a.example"), "there is no token"),
        (("--listen-addr", "0.0.0.0:0", "--pass-tokens"), "has no TLS"),
        (("--tls-cert", "broker.pem"), "belong together"),
        (("--mode", "mcp"), "pip install '.[mcp]'"),
        (("--mode", "ALL"), "pip install '.[mcp]'"),
        (("--grpc-cert", "cert.pem"), "a client certificate needs its key"),
    ],
)
def test_what_cannot_be_served_is_one_sentence_and_exit_code_2(words: tuple[str, ...], sentence: str) -> None:
    ended = run("serve", *words)
    assert (ended.exit_code, ended.stdout) == (2, "")
    assert sentence in ended.stderr
    assert len(ended.stderr.splitlines()) == 1


def test_the_assistants_side_is_served_with_the_flags_of_the_original() -> None:
    log: Served = []
    words = ["--mode", "MCP", "--config", "mcp.yml", "--broker-endpoint", "b1:50051", "--request-timeout-ms", "2500"]
    words += ["--grpc-enable-tls", "true", "--grpc-domain", "broker", "--grpc-ca", "ca.pem"]
    ended = run("server", *words, serve_mcp=served(log))
    assert ended.exit_code == 0, ended.stderr
    ((target, wanted),) = log
    assert (target.endpoint, target.timeout_s, target.tls_domain) == ("https://b1:50051", 2.5, "broker")
    assert (str(target.ca_file), wanted) == ("ca.pem", Path("mcp.yml"))


def test_in_mode_all_both_sides_run_and_end_together_with_their_own_access_levels() -> None:
    log: Served = []
    ended = run("serve", "--mode", "all", "--listen-addr", "127.0.0.1:0", serve_mcp=served(log))
    assert ended.exit_code == 0, ended.stderr
    assert re.search(r"serving http://127.0.0.1:50051 on http://127.0.0.1:\d+ with access read", ended.stderr)
    assert log[0][0].guard.level is AccessLevel.DESTROY


@pytest.mark.parametrize(
    "words",
    [
        ("--cache-ttl-ms", "3000"),
        ("--cors-allow-origin", "*"),
        ("--metrics-timeout-ms", "5000"),
    ],
)
def test_flags_of_the_original_without_a_meaning_are_told(words: tuple[str, str]) -> None:
    ended = run("serve", "--mode", "mcp", *words, serve_mcp=served([]))
    assert ended.exit_code == 0
    assert f"{words[0]} has no meaning here" in ended.stderr


def test_what_is_served_without_tls_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DANUBE_ADMIN_WEB_TOKEN", TOKEN)
    ended = run("serve", "--mode", "all", "--listen-addr", "0.0.0.0:0", "--without-tls", serve_mcp=served([]))
    assert ended.exit_code == 0, ended.stderr
    assert "is served without TLS" in ended.stderr
    assert TOKEN not in ended.output


def test_the_access_of_the_environment_never_makes_the_server_write(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DANUBE_ADMIN_ACCESS", "destroy")
    ended = run("serve", "--mode", "all", "--listen-addr", "127.0.0.1:0", serve_mcp=served([]))
    assert "with access read" in ended.stderr


def test_tokens_come_from_the_file_else_from_the_variable(tmp_path: Path) -> None:
    file = tmp_path / "tokens"
    file.write_text(f"ada {TOKEN}\n")
    assert [token.label for token in read_tokens(file, {"DANUBE_ADMIN_WEB_TOKEN": TOKEN})] == ["ada"]
    assert [token.label for token in read_tokens(None, {"DANUBE_ADMIN_WEB_TOKEN": TOKEN})] == ["web"]
    assert read_tokens(None, {}) == ()


@pytest.mark.parametrize("content", [b"x" * (WEB_TOKEN_FILE_BYTES_MAX + 1), b"\xff\xfe token"])
def test_a_file_that_holds_no_tokens_is_refused(content: bytes, tmp_path: Path) -> None:
    file = tmp_path / "tokens"
    file.write_bytes(content)
    with pytest.raises(SettingsError, match="file of tokens"):
        read_tokens(file, {})


def test_adding_the_command_loads_nothing_heavy() -> None:
    program = "import sys, danube.admin.web.command; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.split()
    assert {"grpc", "jinja2", "mcp", "starlette", "textual", "uvicorn"} & set(loaded) == set()


@pytest.mark.parametrize("name", ["starlette", "jinja2"])
def test_a_missing_extra_is_one_sentence(name: str) -> None:
    program = (
        f"import sys; sys.modules[{name!r}] = None; from danube.admin.__main__ import app, connect;"
        "app(connect)(args=['serve', '--listen-addr', '127.0.0.1:0'], prog_name='danube-admin')"
    )
    ended = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=PATIENCE_S
    )
    assert (ended.returncode, ended.stdout) == (2, "")
    assert f"needs the package {name}" in ended.stderr
    assert "pip install '.[web]'" in ended.stderr
