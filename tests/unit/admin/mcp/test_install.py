"""`danube-admin mcp install`: settings of programs keep what they had, and hold a server that starts."""

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner, Result

from danube.admin.__main__ import app
from danube.admin.mcp.install.hosts import HOSTS, entry_of, host_of, snippet, with_server
from danube.model.errors import InvalidRequestError, SettingsError
from tests.faces.memory_gateway import connect_to
from tests.faces.seeded import seeded_gateway

ARGUMENTS = ["mcp", "--endpoint", "http://127.0.0.1:50051"]
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


def run(*words: str, answer: str | None = None, **environ: str) -> Result:
    return CliRunner().invoke(app(connect_to(seeded_gateway())), ["mcp", "install", *words], input=answer, env=environ)


def servers(host: str, text: str) -> dict[str, Any]:
    settings = tomllib.loads(text) if HOSTS[host].is_toml else json.loads(text)
    found: dict[str, Any] = settings[HOSTS[host].key]
    return found


@pytest.mark.parametrize("name", HOSTS)
def test_settings_of_each_program_hold_a_server_that_our_command_line_takes(name: str, tmp_path: Path) -> None:
    file = tmp_path / "settings"
    done = run(name, "--file", str(file), "--yes")
    assert done.exit_code == 0, done.output
    server = servers(name, file.read_text())["danube"]
    assert Path(server["command"]).name.startswith("danube-admin")
    assert server["args"] == ARGUMENTS
    assert HOSTS[name].next_step in done.output
    printed = run(name, "--print").stdout
    assert servers(name, printed) == servers(name, file.read_text())


@pytest.mark.parametrize(
    ("name", "platform", "path"),
    [
        ("claude-desktop", "darwin", "Library/Application Support/Claude/claude_desktop_config.json"),
        ("claude-desktop", "win32", "AppData/Roaming/Claude/claude_desktop_config.json"),
        ("claude-desktop", "linux", ".config/Claude/claude_desktop_config.json"),
        ("claude-code", "linux", ".claude.json"),
        ("cursor", "darwin", ".cursor/mcp.json"),
        ("vscode", "linux", ".config/Code/User/mcp.json"),
        ("windsurf", "linux", ".codeium/windsurf/mcp_config.json"),
        ("codex", "linux", ".codex/config.toml"),
    ],
)
def test_each_program_has_its_file(name: str, platform: str, path: str) -> None:
    assert host_of(name).path(Path("/home"), platform) == Path("/home") / path


@given(
    st.sampled_from([name for name, host in HOSTS.items() if not host.is_toml]),
    st.dictionaries(st.text(), JSON, max_size=4),
    st.dictionaries(st.text(), JSON, max_size=3),
)
def test_json_settings_keep_all_else(name: str, other: dict[str, Any], others: dict[str, Any]) -> None:
    host = HOSTS[name]
    before = {**other, host.key: others}
    entry = entry_of(host, "danube-admin", ARGUMENTS)
    after = json.loads(with_server(host, json.dumps(before), "danube", entry))
    assert after == {**other, host.key: {**others, "danube": entry}}


def test_toml_settings_keep_their_comments_and_other_tables() -> None:
    before = (
        '# mine\nmodel = "x"\n\n[mcp_servers.danube]\ncommand = "old"\n[mcp_servers.danube.env]\nA = "1"\n'
        '[mcp_servers.danube-2]\ncommand = "other"  # stays\n\n[profiles.a]\nb = 1\n'
    )
    after = with_server(HOSTS["codex"], before, "danube", {"command": "danube-admin", "args": ARGUMENTS})
    assert after.startswith('# mine\nmodel = "x"\n')
    assert 'command = "other"  # stays' in after
    found = tomllib.loads(after)
    assert found["mcp_servers"] == {
        "danube": {"command": "danube-admin", "args": ARGUMENTS},
        "danube-2": {"command": "other"},
    }
    assert found["profiles"] == {"a": {"b": 1}}
    assert with_server(HOSTS["codex"], "", "a", {"command": "b"}) == snippet(HOSTS["codex"], "a", {"command": "b"})


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("cursor", "{ // comment\n}"),
        ("cursor", "[]"),
        ("vscode", '{"servers": []}'),
        ("codex", "a = "),
        ("codex", 'mcp_servers = { danube = { command = "x" } }'),
    ],
)
def test_settings_that_cannot_be_changed_safely_are_left_alone(name: str, text: str, tmp_path: Path) -> None:
    file = tmp_path / "settings"
    file.write_text(text)
    refused = run(name, "--file", str(file), "--yes")
    assert refused.exit_code == 2
    assert "by hand, see --print" in refused.output
    assert file.read_text() == text
    with pytest.raises(SettingsError):
        with_server(HOSTS[name], text, "danube", {"command": "x"})


def test_the_file_as_it_was_is_kept_and_a_second_time_changes_nothing(tmp_path: Path) -> None:
    file = tmp_path / "mcp.json"
    file.write_text('{"mcpServers": {"other": {}}}')
    file.chmod(0o640)
    assert run("cursor", "--file", str(file), "--yes").exit_code == 0
    (copy,) = tmp_path.glob("mcp.json.before-danube-*")
    assert copy.read_text() == '{"mcpServers": {"other": {}}}'
    assert file.stat().st_mode & 0o777 == 0o640
    assert "nothing to do" in run("cursor", "--file", str(file), "--yes").output
    assert len(list(tmp_path.iterdir())) == 2


def test_without_an_agreement_nothing_is_changed(tmp_path: Path) -> None:
    file = tmp_path / "mcp.json"
    asked = run("cursor", "--file", str(file))
    assert asked.exit_code != 0
    assert "--yes makes this change without a question" in asked.output
    assert not file.exists()


def test_a_token_never_becomes_part_of_settings(tmp_path: Path) -> None:
    refused = run("cursor", "--file", str(tmp_path / "mcp.json"), "--yes", DANUBE_ADMIN_TOKEN="secret-of-ann")
    assert refused.exit_code == 2
    assert "contexts set" in refused.output
    assert "secret-of-ann" not in refused.output
    assert not list(tmp_path.iterdir())


def test_the_current_context_is_named_and_its_limits_stay(tmp_path: Path) -> None:
    contexts = tmp_path / "contexts.yaml"
    contexts.write_text(
        "current: live\ncontexts: {live: {endpoint: 'http://b:1', access: read, token_env: LIVE_TOKEN}}\n"
    )
    printed = run("cursor", "--print", DANUBE_ADMIN_CONFIG=str(contexts), LIVE_TOKEN="secret-of-ann").stdout
    assert servers("cursor", printed)["danube"]["args"] == ["mcp", "--context", "live", "--access", "read"]
    named = run("cursor", "--print", "--config-file", str(contexts), LIVE_TOKEN="secret-of-ann").stdout
    assert servers("cursor", named)["danube"]["args"][3:5] == ["--config-file", str(contexts)]


def test_limits_of_variables_become_arguments() -> None:
    printed = run("cursor", "--print", DANUBE_ADMIN_ACCESS="write", DANUBE_ADMIN_APPROVAL="move").stdout
    assert servers("cursor", printed)["danube"]["args"][3:] == ["--access", "write", "--approval", "move"]


def test_a_toolset_that_is_not_there_is_refused() -> None:
    assert "there is no toolset 'mesages'" in run("cursor", "--print", "--toolsets", "mesages").output


def test_flags_become_arguments(tmp_path: Path) -> None:
    words = ["--access", "read", "--toolsets", "default,messages", "--name", "live", "--endpoint", "http://b:1"]
    printed = run("windsurf", *words, "--print").stdout
    expected = [
        "mcp",
        "--endpoint",
        "http://b:1",
        "--access",
        "read",
        "--toolsets",
        "default,messages",
        "--name",
        "live",
    ]
    assert servers("windsurf", printed)["live"]["args"] == expected


def test_a_program_that_is_not_known_is_refused_with_those_that_are() -> None:
    with pytest.raises(InvalidRequestError, match="use claude-desktop, claude-code"):
        host_of("emacs")
    assert "has no settings of a project" in run("windsurf", "--project", "--yes").output
