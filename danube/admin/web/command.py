"""`danube-admin serve`: flags and refusals. What is heavy is imported when the server starts."""

import os
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import replace
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from danube.admin.access import AccessLevel
from danube.admin.profiles import TargetFlags, resolve_target
from danube.admin.target import PROGRAM, Connect, Target
from danube.admin.web.protection.exposure import (
    DEFAULT_LISTEN_ADDR,
    TOKEN_VARIABLE,
    Exposure,
    WebToken,
    check_exposure,
    parse_tokens,
    warnings_of,
)
from danube.model.errors import SettingsError
from danube.model.exit_codes import ExitCode
from danube.model.limits.faces import WEB_TOKEN_FILE_BYTES_MAX
from danube.model.text import install_text
from danube.runtime.console import awaited, ended, say
from danube.runtime.paths import PATH_FLAG
from danube.runtime.ready_file import ReadyFile

_HELP = f"""Serve the web pages and the HTTP API, or an assistant, or both.

The pages are at http://{DEFAULT_LISTEN_ADDR}/ and the API's description at /docs. The server only reads, and only this
machine reaches it, until you say otherwise: that needs a token (--token-file, or {TOKEN_VARIABLE}).
"""

_ORIGINAL = "Accepted for the original's sake"
_TLS = ("DANUBE_ADMIN_TLS", "DANUBE_ADMIN_DOMAIN", "DANUBE_ADMIN_CA", "DANUBE_ADMIN_CERT", "DANUBE_ADMIN_KEY")
_VARIABLES = (*_TLS, "DANUBE_ADMIN_PROMETHEUS")
_NO_MEANING = {
    "cache_ttl_ms": "nothing is cached",
    "cors_allow_origin": "pages of other sites are never let in",
    "metrics_timeout_ms": "metrics come from the brokers themselves",
}


class Mode(StrEnum):
    """The faces that are served."""

    UI = "ui"
    MCP = "mcp"
    ALL = "all"


ServeMcp = Callable[[Connect, Target, Path | None], Coroutine[Any, Any, None]]
"""Serves an assistant on standard input and output, until it closes its end; the file is the original's configuration.
"""

Beside = Callable[[], Coroutine[Any, Any, None]]


def add_commands(app: typer.Typer, connect: Connect, serve_mcp: ServeMcp | None = None) -> None:
    """Add `serve`; it parses as the commands there are, so it takes the options of the root too."""
    kind = next((each.cls for each in app.registered_commands if each.cls is not None), None)
    command = _Serve(connect, serve_mcp)
    app.command("serve", cls=kind, help=_HELP, short_help="Serve web pages and an HTTP API.")(command.serve)
    app.command("server", cls=kind, help=_HELP, hidden=True)(command.serve)


class _Serve:
    def __init__(self, connect: Connect, serve_mcp: ServeMcp | None) -> None:
        self._connect = connect
        self._serve_mcp = serve_mcp

    def serve(
        self,
        context: typer.Context,
        *,
        mode: Annotated[
            Mode,
            typer.Option(
                envvar="DANUBE_ADMIN_MODE",
                case_sensitive=False,
                help="ui: pages and API; mcp: an assistant on standard input and output; all: both.",
            ),
        ] = Mode.UI,
        listen_addr: Annotated[
            str,
            typer.Option(
                envvar="DANUBE_ADMIN_LISTEN_ADDR", metavar="HOST:PORT", help="Listen here; port 0 takes a free one."
            ),
        ] = DEFAULT_LISTEN_ADDR,
        access: Annotated[
            AccessLevel | None, typer.Option(help="The most that may be done.", show_default="read")
        ] = None,
        token_file: Annotated[
            Path | None,
            typer.Option(**PATH_FLAG, help="File with tokens: a line each, `label token` or the token alone."),
        ] = None,
        public_url: Annotated[
            str | None, typer.Option(metavar="URL", help="How browsers know it, where a proxy stands in front.")
        ] = None,
        pass_tokens: Annotated[
            bool,
            typer.Option(
                "--pass-tokens",
                help="Let people and programs log in with their own tokens or API keys of the cluster, which decides.",
            ),
        ] = False,
        tls_cert: Annotated[
            Path | None, typer.Option(**PATH_FLAG, help="Certificate of this server in PEM, with its chain.")
        ] = None,
        tls_key: Annotated[Path | None, typer.Option(**PATH_FLAG, help="Its private key in PEM.")] = None,
        without_tls: Annotated[
            bool, typer.Option("--without-tls", help="Let other machines reach it without TLS.")
        ] = False,
        ready_file: Annotated[
            Path | None,
            typer.Option(**PATH_FLAG, help="Write address, URL and pid here, as JSON, while it serves."),
        ] = None,
        config: Annotated[
            Path | None,
            typer.Option(
                envvar="DANUBE_MCP_CONFIG",
                **PATH_FLAG,
                help="The original's mcp-config.yml.",
                rich_help_panel=_ORIGINAL,
            ),
        ] = None,
        broker_endpoint: Annotated[
            str | None, typer.Option(metavar="URL", help="The same as --endpoint.", rich_help_panel=_ORIGINAL)
        ] = None,
        request_timeout_ms: Annotated[
            int | None, typer.Option(min=1, help="The same as --timeout-s.", rich_help_panel=_ORIGINAL)
        ] = None,
        grpc_enable_tls: Annotated[
            str | None, typer.Option(metavar="BOOL", help="As DANUBE_ADMIN_TLS.", rich_help_panel=_ORIGINAL)
        ] = None,
        grpc_domain: Annotated[
            str | None, typer.Option(help="As DANUBE_ADMIN_DOMAIN.", rich_help_panel=_ORIGINAL)
        ] = None,
        grpc_ca: Annotated[str | None, typer.Option(help="As DANUBE_ADMIN_CA.", rich_help_panel=_ORIGINAL)] = None,
        grpc_cert: Annotated[str | None, typer.Option(help="As DANUBE_ADMIN_CERT.", rich_help_panel=_ORIGINAL)] = None,
        grpc_key: Annotated[str | None, typer.Option(help="As DANUBE_ADMIN_KEY.", rich_help_panel=_ORIGINAL)] = None,
        cache_ttl_ms: Annotated[int | None, typer.Option(hidden=True)] = None,
        cors_allow_origin: Annotated[str | None, typer.Option(hidden=True)] = None,
        prometheus_url: Annotated[
            str | None, typer.Option(help="As DANUBE_ADMIN_PROMETHEUS.", rich_help_panel=_ORIGINAL)
        ] = None,
        metrics_timeout_ms: Annotated[int | None, typer.Option(hidden=True)] = None,
    ) -> None:
        given = context.find_root().obj or TargetFlags()
        flags = replace(
            given,
            endpoint=broker_endpoint or given.endpoint,
            access=access or given.access,
            timeout_s=given.timeout_s if request_timeout_ms is None else request_timeout_ms / 1_000,
        )
        own = (grpc_enable_tls and grpc_enable_tls.lower(), grpc_domain, grpc_ca, grpc_cert, grpc_key, prometheus_url)
        idle = (cache_ttl_ms, cors_allow_origin, metrics_timeout_ms)

        def work() -> ExitCode:
            with ReadyFile(ready_file) as ready:
                return served(ready)

        def served(ready: ReadyFile) -> ExitCode:
            warn_of_idle_flags(dict(zip(_NO_MEANING, idle, strict=True)))
            environ = with_variables(os.environ, own)
            most = None if pass_tokens else AccessLevel.READ  # the broker decides what each caller may do
            web = resolve_target(replace(flags, access=flags.access or most), environ)
            assisted = resolve_target(flags, environ)
            exposure = Exposure(
                listen_addr=listen_addr,
                public_url=public_url,
                tokens=read_tokens(token_file, os.environ),
                passes_tokens=pass_tokens,
                certificate=tls_cert,
                key=tls_key,
                is_plain_meant=without_tls,
            )
            assistant = self._assistant(mode, assisted, config)
            if mode is Mode.MCP and assistant is not None:
                awaited(assistant())
            else:
                awaited(_serving(self._connect, web, exposure, ready, assistant))
            return ExitCode.OK

        raise typer.Exit(ended(work, PROGRAM))

    def _assistant(self, mode: Mode, target: Target, config: Path | None) -> Beside | None:
        """The assistant's side; None where the mode has none. Raises SettingsError where it cannot be served."""
        if mode is Mode.UI:
            return None
        if self._serve_mcp is None:
            raise SettingsError(f"--mode {mode} needs the MCP server: {install_text('mcp')}")
        return partial(self._serve_mcp, self._connect, target, config)


def with_variables(environ: Mapping[str, str], given: Sequence[str | None]) -> Mapping[str, str]:
    """The environment with what the original's flags say, in the order of _VARIABLES; a flag goes first."""
    return {**environ, **{name: value for name, value in zip(_VARIABLES, given, strict=True) if value}}


def read_tokens(file: Path | None, environ: Mapping[str, str]) -> tuple[WebToken, ...]:
    """The tokens of the file, else that of the variable, else none. Raises SettingsError."""
    if file is None:
        text = environ.get(TOKEN_VARIABLE, "")
        return parse_tokens(text, source=TOKEN_VARIABLE) if text else ()
    try:
        with file.open("rb") as opened:
            content = opened.read(WEB_TOKEN_FILE_BYTES_MAX + 1)
    except OSError as error:
        raise SettingsError(f"cannot read the tokens in {file}: {error.strerror}") from None
    if len(content) > WEB_TOKEN_FILE_BYTES_MAX:
        raise SettingsError(f"{file} is larger than {WEB_TOKEN_FILE_BYTES_MAX} bytes: is it the file of tokens?")
    try:
        return parse_tokens(content.decode(), source=str(file))
    except UnicodeDecodeError:
        raise SettingsError(f"{file} is no text: a file of tokens has `label token` on each line") from None


def warn_of_idle_flags(given: Mapping[str, object]) -> None:
    """Say which of the original's flags do nothing here."""
    for name, value in given.items():
        if value is not None:
            say(f"--{name.replace('_', '-')} has no meaning here: {_NO_MEANING[name]}", PROGRAM)


def _serving(
    connect: Connect, target: Target, exposure: Exposure, ready: ReadyFile, beside: Beside | None
) -> Coroutine[Any, Any, None]:
    """The web server, with all that it needs imported. Raises SettingsError."""
    check_exposure(exposure, target.guard.level)
    for warning in warnings_of(exposure):
        say(warning, PROGRAM)
    try:
        from danube.admin.web.serving import serve_until_told  # noqa: PLC0415 - the extra is loaded when used
    except ModuleNotFoundError as error:
        raise SettingsError(f"the web server needs the package {error.name}: {install_text('web')}") from None

    def tell(url: str) -> None:
        shown = exposure.public_url or url
        say(f"serving {target.endpoint} on {shown} with access {target.guard.level}; Ctrl-C stops it", PROGRAM)

    return serve_until_told(connect, target, exposure, tell=tell, ready=ready, beside=beside)
