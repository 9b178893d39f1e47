"""`danube-admin mcp`: flags and refusals. What is heavy is imported when the server starts."""

import os
import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.main import get_command

from danube.admin.access import AccessLevel, ApprovalMode
from danube.admin.mcp.install.command import EXAMPLES as INSTALL_EXAMPLES
from danube.admin.mcp.install.command import HELP as INSTALL_HELP
from danube.admin.mcp.install.command import install, words_of
from danube.admin.profiles import TargetFlags, resolve_target
from danube.admin.target import PROGRAM, Connect, Target
from danube.model.errors import SettingsError
from danube.model.exit_codes import ExitCode
from danube.model.text import install_text
from danube.runtime.console import awaited, ended
from danube.runtime.paths import PATH_FLAG

if TYPE_CHECKING:
    from danube.admin.mcp.transport.serve import McpOptions

_HELP = """Serve the cluster's administration to an assistant, as an MCP server.

Without --http it speaks the protocol on standard input and output and is started by the assistant's program. What
destroys waits for a person: `danube-admin plans approve`, or a question where that program can ask one.

`danube-admin mcp install HOST` adds it to the settings of Claude Desktop, Claude Code, Cursor, VS Code, Windsurf, Cline
or Codex; `danube-admin mcp install --help` says how.

Standard output carries the protocol alone; what there is to say goes to standard error.
"""

_HELP_SETTINGS = {"help_option_names": ["-h", "--help"], "max_content_width": 110}
_INSTALL = "danube.mcp.install"
_HTTP = "HTTP server (with --http)"
_Certificate = Annotated[
    Path | None,
    typer.Option(**PATH_FLAG, help="Certificate of this server in PEM, with its chain.", rich_help_panel=_HTTP),
]
_Key = Annotated[Path | None, typer.Option(**PATH_FLAG, help="Its private key in PEM.", rich_help_panel=_HTTP)]
_PassTokens = Annotated[
    bool,
    typer.Option(
        "--pass-tokens",
        help="Take the callers' own tokens and send them to the broker, which decides.",
        rich_help_panel=_HTTP,
    ),
]
_Plain = Annotated[
    bool, typer.Option("--without-tls", help="Let other machines reach it without TLS.", rich_help_panel=_HTTP)
]


def add_commands(app: typer.Typer, connect: Connect) -> None:
    """Add `mcp` to the command line; it parses as the commands there are, so it takes the options of the root too."""
    kind = next((each.cls for each in app.registered_commands if each.cls is not None), None)
    of_install = typer.Typer(rich_markup_mode=None, add_completion=False, context_settings=_HELP_SETTINGS)
    of_install.command("install", cls=kind, help=INSTALL_HELP, epilog=INSTALL_EXAMPLES)(install)

    @app.command(
        "mcp", cls=_with_install(kind, of_install), help=_HELP, short_help="Serve the cluster to an assistant."
    )
    def mcp(
        context: typer.Context,
        *,
        access: Annotated[
            AccessLevel | None, typer.Option(help="The most that the assistant may do.", show_default="destroy")
        ] = None,
        approval: Annotated[
            ApprovalMode | None, typer.Option(help="Which plans wait for a person.", show_default="destroy")
        ] = None,
        toolsets: Annotated[
            str, typer.Option(help="Groups of tools, with commas between them; `all` for all.")
        ] = "default",
        name: Annotated[
            str, typer.Option(help="The server's name, where an assistant has several clusters.")
        ] = "danube",
        http: Annotated[bool, typer.Option("--http", help="Serve over HTTP with a bearer token instead.")] = False,
        host: Annotated[str, typer.Option(help="Listen on this address.", rich_help_panel=_HTTP)] = "127.0.0.1",
        port: Annotated[
            int, typer.Option(min=0, max=65_535, help="Listen on this port; 0 takes a free one.", rich_help_panel=_HTTP)
        ] = 8765,
        path: Annotated[str, typer.Option(help="The path of the server.", rich_help_panel=_HTTP)] = "/mcp",
        token_file: Annotated[
            Path | None,
            typer.Option(
                **PATH_FLAG,
                help="File with the bearer token; written if it is not there. DANUBE_MCP_TOKEN is asked otherwise.",
                rich_help_panel=_HTTP,
            ),
        ] = None,
        allow_remote: Annotated[
            bool, typer.Option("--allow-remote", help="Let other machines reach it.", rich_help_panel=_HTTP)
        ] = False,
        public_host: Annotated[
            list[str] | None,
            typer.Option(help="A name by which hosts reach it; may be repeated.", rich_help_panel=_HTTP),
        ] = None,
        tls_cert: _Certificate = None,
        tls_key: _Key = None,
        without_tls: _Plain = False,
        pass_tokens: _PassTokens = False,
        authorization_server: Annotated[
            list[str] | None,
            typer.Option(help="URL of who issues these tokens, told to hosts; may be repeated.", rich_help_panel=_HTTP),
        ] = None,
    ) -> None:
        given = context.find_root().obj or TargetFlags()
        flags = replace(given, access=access or given.access, approval=approval or given.approval)

        def serve() -> ExitCode:
            target, options = resolve_target(flags, os.environ), _options(toolsets, name)
            if not http:
                awaited(_serve_stdio(connect, target, options))
                return ExitCode.OK
            at: dict[str, Any] = {"host": host, "port": port, "path": path, "allow_remote": allow_remote}
            at |= {"certificate": tls_cert, "key": tls_key, "is_plain_meant": without_tls}
            names = {"public_hosts": public_host, "authorization_servers": authorization_server}
            at |= {name: tuple(each or ()) for name, each in names.items()}
            _serve_over_http(connect, target, options, at, None if pass_tokens else (token_file,))
            return ExitCode.OK

        raise typer.Exit(ended(serve, PROGRAM))


def _with_install(kind: Any, of_install: typer.Typer) -> Any:  # noqa: ANN401 - classes of commands
    """The class of a command that serves, or does what its word `install` asks for."""

    class ServeOrInstall(kind):  # type: ignore[misc]  # as above
        def parse_args(self, ctx: Any, args: list[str]) -> list[str]:  # noqa: ANN401 - as in Typer
            words = words_of(args)
            if words is None:
                parsed: list[str] = super().parse_args(ctx, args)
                return parsed
            command = get_command(of_install)
            ctx.meta[_INSTALL] = command.make_context(f"{ctx.info_name} install", words, parent=ctx.parent)
            return []

        def invoke(self, ctx: Any) -> Any:  # noqa: ANN401 - as in Typer
            inner = ctx.meta.get(_INSTALL)
            if inner is None:
                return super().invoke(ctx)
            with inner:
                return inner.command.invoke(inner)

    return ServeOrInstall


def _serve_over_http(
    connect: Connect, target: Target, options: "McpOptions", at: dict[str, Any], own_token: tuple[Path | None] | None
) -> None:
    """Serve until the end. `own_token` has the file of the server's token, if one is named; None passes tokens on."""
    from danube.admin.mcp.transport.http import HttpOptions  # noqa: PLC0415 - the extra is loaded when it is used
    from danube.admin.mcp.transport.serve import serve_http  # noqa: PLC0415 - as above
    from danube.admin.mcp.transport.tokens import PassedTokens, find_token  # noqa: PLC0415 - as above

    where = HttpOptions(**at)
    token = PassedTokens() if own_token is None else find_token(own_token[0], os.environ)
    awaited(serve_http(connect, target, options, where, token))


async def serve_mcp(connect: Connect, target: Target, config_file: Path | None) -> None:
    """The assistant's side of `danube-admin serve`. Raises SettingsError for an extra that is missing."""
    await _serve_stdio(connect, target, _options_type()(config_file=config_file))


async def _serve_stdio(connect: Connect, target: Target, options: "McpOptions") -> None:
    from danube.admin.mcp.transport.serve import serve_stdio  # noqa: PLC0415 - the extra is loaded when it is used

    await serve_stdio(connect, target, options)


def _options_type() -> "type[McpOptions]":
    """Raises SettingsError for an extra that is missing."""
    try:
        from danube.admin.mcp.transport.serve import McpOptions  # noqa: PLC0415 - as above
    except ModuleNotFoundError as error:
        raise SettingsError(f"the MCP server needs the package {error.name}: {install_text('mcp')}") from None
    return McpOptions


def _options(toolsets: str, name: str) -> "McpOptions":
    """Raises SettingsError for an extra that is missing, and for a toolset that is not there."""
    options = _options_type()
    from danube.admin.mcp.tool_catalogue import check_toolsets  # noqa: PLC0415 - as above

    if not re.fullmatch(r"[\w.-]{0,60}", name):
        raise SettingsError(f"--name {name[:60]!r} cannot name a server: use letters, digits, '_', '.' and '-'")
    names = [each.strip() for each in toolsets.split(",") if each.strip()]
    return options(toolsets=check_toolsets(names), name=name)
