"""Programs of assistants: where each keeps its settings, and how a server stands in them. Pure.

Sources: the pages of these programs, as `docs/mcp/` has them.
"""

import json
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePath
from typing import Any

from danube.model.errors import InvalidRequestError, SettingsError
from danube.model.untrusted_json import decode_json

Settings = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """One program."""

    name: str
    title: str
    folders: Mapping[str, str]
    """Folder of its settings below the home folder, by `sys.platform`; `""` for any other platform."""
    file: str
    key: str = "mcpServers"
    """The table of servers."""
    project_file: str | None = None
    """Settings of one project, in its folder."""
    more: Mapping[str, object] = field(default_factory=dict)
    """Entries of a server beside its command and arguments."""
    next_step: str

    def path(self, home: Path, platform: str) -> Path:
        """The file of settings of one person."""
        return home / self.folders.get(platform, self.folders[""]) / self.file

    @property
    def is_toml(self) -> bool:
        """True if the settings are TOML, and not JSON."""
        return PurePath(self.file).suffix == ".toml"


_CODE = {
    "darwin": "Library/Application Support/Code/User",
    "win32": "AppData/Roaming/Code/User",
    "": ".config/Code/User",
}
_CLINE = "globalStorage/saoudrizwan.claude-dev/settings"
_STDIO = {"type": "stdio"}

HOSTS: Mapping[str, Host] = {
    host.name: host
    for host in (
        Host(
            name="claude-desktop",
            title="Claude Desktop",
            folders={
                "darwin": "Library/Application Support/Claude",
                "win32": "AppData/Roaming/Claude",
                "": ".config/Claude",
            },
            file="claude_desktop_config.json",
            next_step="restart Claude Desktop",
        ),
        Host(
            name="claude-code",
            title="Claude Code",
            folders={"": ""},
            file=".claude.json",
            project_file=".mcp.json",
            more=_STDIO,
            next_step="/mcp in Claude Code shows the connection",
        ),
        Host(
            name="cursor",
            title="Cursor",
            folders={"": ".cursor"},
            file="mcp.json",
            project_file=".cursor/mcp.json",
            next_step="Settings, MCP in Cursor shows the connection",
        ),
        Host(
            name="vscode",
            title="VS Code",
            folders=_CODE,
            file="mcp.json",
            key="servers",
            project_file=".vscode/mcp.json",
            more=_STDIO,
            next_step="MCP: List Servers in VS Code starts it",
        ),
        Host(
            name="windsurf",
            title="Windsurf",
            folders={"": ".codeium/windsurf"},
            file="mcp_config.json",
            next_step="refresh the MCP servers in Windsurf",
        ),
        Host(
            name="cline",
            title="Cline",
            folders={platform: f"{folder}/{_CLINE}" for platform, folder in _CODE.items()},
            file="cline_mcp_settings.json",
            more={"disabled": False, "autoApprove": []},
            next_step="MCP Servers in Cline shows the connection",
        ),
        Host(
            name="codex",
            title="Codex",
            folders={"": ".codex"},
            file="config.toml",
            key="mcp_servers",
            next_step="start Codex again",
        ),
    )
}


def host_of(name: str) -> Host:
    """The program of a name. Raises InvalidRequestError."""
    if name not in HOSTS:
        raise InvalidRequestError(f"{name[:40]!r} is no program that is known here: use {', '.join(HOSTS)}")
    return HOSTS[name]


def entry_of(host: Host, command: str, arguments: Sequence[str]) -> Settings:
    """The server as it stands in the settings of a program."""
    return {**host.more, "command": command, "args": list(arguments)}


def snippet(host: Host, name: str, entry: Settings) -> str:
    """Settings that hold this server alone."""
    return _section(name, entry) if host.is_toml else _json({host.key: {name: entry}})


def with_server(host: Host, text: str, name: str, entry: Settings) -> str:
    """Settings with the server in them, and all else as it is. Raises SettingsError for settings that are none."""
    return _in_toml(text, name, entry) if host.is_toml else _in_json(host, text, name, entry)


def _in_json(host: Host, text: str, name: str, entry: Settings) -> str:
    try:
        settings = decode_json(text) if text.strip() else {}
    except ValueError as error:
        raise SettingsError(f"it is no JSON ({error}), or has comments: add the server by hand, see --print") from None
    servers = settings.setdefault(host.key, {}) if isinstance(settings, dict) else None
    if not isinstance(servers, dict):
        raise SettingsError(f"{host.key} is no table in it: add the server by hand, see --print")
    servers[name] = entry
    return _json(settings)


def _in_toml(text: str, name: str, entry: Settings) -> str:
    try:
        known = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise SettingsError(f"it is no TOML ({error}): add the server by hand, see --print") from None
    lines = text.splitlines(keepends=True)
    if name in known.get("mcp_servers", {}):
        lines = _without(lines, name)
        if name in tomllib.loads("".join(lines)).get("mcp_servers", {}):
            raise SettingsError(f"{name} stands in it in another form: change it by hand, see --print")
    kept = "".join(lines).rstrip("\n")
    return (kept + "\n\n" if kept else "") + _section(name, entry)


def _without(lines: Sequence[str], name: str) -> list[str]:
    """The lines without a server's table, and the tables in it."""
    ours = re.compile(rf"\s*\[\s*mcp_servers\s*\.\s*\"?{re.escape(name)}\"?\s*[\].]")
    kept: list[str] = []
    inside = False
    for line in lines:
        if line.lstrip().startswith("["):
            inside = ours.match(line) is not None
        if not inside:
            kept.append(line)
    return kept


def _section(name: str, entry: Settings) -> str:
    values = "".join(f"{key} = {json.dumps(value, ensure_ascii=False)}\n" for key, value in entry.items())
    return f"[mcp_servers.{name}]\n{values}"


def _json(settings: Settings) -> str:
    return json.dumps(settings, indent=2, ensure_ascii=False) + "\n"
