"""Running the server: on standard input and output, or over HTTP, until the host or a signal ends it."""

import asyncio
import contextlib
import signal
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from danube.admin.mcp.server import DEFAULT_NAME, build_server
from danube.admin.mcp.tool_catalogue import DEFAULT_TOOLSETS, ToolCatalogue
from danube.admin.mcp.transport.http import HttpOptions, HttpServer
from danube.admin.mcp.transport.stdio import MessageReader, MessageWriter, OpenRequests, standard_streams
from danube.admin.mcp.transport.tokens import BearerToken, PassedTokens
from danube.admin.ports.cluster_logins import ClusterLogins
from danube.admin.ports.tls import certificates_of, keep_fresh
from danube.admin.present import printable
from danube.admin.profiles import checked_endpoint
from danube.admin.target import PROGRAM, Connect, Target
from danube.model.errors import SettingsError
from danube.runtime.blocking import run_apart
from danube.runtime.clock import SystemClock
from danube.runtime.console import say, whoever_calls
from danube.runtime.process import on_end
from danube.runtime.settings import read_settings_file
from danube.runtime.tasks import TaskScope

_NOT_USED = {
    "deployment": "brokers tell their logs themselves",
    "resources": "the original does not use it either",
}
"""Fields of the original's configuration that mean nothing here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class McpOptions:
    """Options of the server, beside the target."""

    toolsets: tuple[str, ...] = DEFAULT_TOOLSETS
    name: str = DEFAULT_NAME
    config_file: Path | None = None
    """The original's mcp-config.yml; its endpoint wins."""


async def serve_stdio(connect: Connect, target: Target, options: McpOptions | None = None) -> None:
    """Serve one host on standard input and output, until it closes its end, SIGTERM or cancellation.

    Raises SettingsError for the original's file.
    """
    options = options or McpOptions()
    target = await _configured(target, options.config_file) if options.config_file is not None else target
    catalogue = ToolCatalogue(guard=target.guard, toolsets=options.toolsets)
    with standard_streams() as (source, sink):
        async with connect(target) as gateway:
            server = build_server(gateway, SystemClock(), catalogue, who=whoever_calls(), name=options.name)
            requests = OpenRequests()
            reader, writer = MessageReader(source, requests), MessageWriter(sink, requests)
            with _ended_by_sigterm(), _cancelled_as_one():
                await server.run(reader, writer, server.create_initialization_options())


async def serve_http(
    connect: Connect, target: Target, options: McpOptions, http: HttpOptions, token: BearerToken | PassedTokens
) -> None:
    """Serve hosts over HTTP until SIGTERM or cancellation. Raises SettingsError when the port cannot be had.

    Tokens are passed on to brokers over TLS, or on this machine, alone.
    """
    if isinstance(token, PassedTokens):
        target = target.passing_tokens()
    catalogue = ToolCatalogue(guard=target.guard, toolsets=options.toolsets)
    async with connect(target) as gateway:
        server = build_server(gateway, SystemClock(), catalogue, who=whoever_calls(), name=options.name)
        tls = await certificates_of(http.certificate, http.key)
        listening = HttpServer(server, http, token, tls.context if tls else None, logins=ClusterLogins(gateway))
        origin = f"a new token is in {token.origin}" if token.is_new else f"the token is in {token.origin}"
        say(f"MCP server at {listening.address}, for the cluster at {target.endpoint}; {origin}", PROGRAM)
        tasks = TaskScope("certificates")
        if tls is not None:
            tasks.spawn(keep_fresh(tls, SystemClock()), "certificates")
        try:
            with _ended_by_sigterm():
                await listening.serve()
        finally:
            await tasks.close()


async def _configured(target: Target, config_file: Path) -> Target:
    """The target with the endpoint of the original's file; a context's token goes to that context's cluster alone."""
    config = await run_apart("mcp-config", lambda: read_original_config(config_file))
    for remark in config.remarks:
        say(remark, PROGRAM)
    target = replace(target, prometheus=config.prometheus_url or target.prometheus)
    endpoint = checked_endpoint(config.broker_endpoint, tls=target.tls)
    if endpoint == target.endpoint:
        return target
    token = target.token if target.context is None else None
    return replace(target, endpoint=endpoint, tls=endpoint.startswith("https://"), context=None, token=token)


@dataclass(frozen=True, slots=True)
class OriginalConfig:
    """The part of the original's `mcp-config.yml` that counts."""

    broker_endpoint: str
    prometheus_url: str | None
    remarks: tuple[str, ...]
    """What of the file has no meaning here, a sentence each."""


def read_original_config(path: Path) -> OriginalConfig:
    """Read the file. Raises SettingsError, also where `broker_endpoint` is missing, as the original does."""
    values: dict[str, Any] = dict(read_settings_file(path))
    endpoint = values.pop("broker_endpoint", None)
    if not isinstance(endpoint, str) or not endpoint:
        raise SettingsError(f"{path} has no broker_endpoint: write `broker_endpoint: http://127.0.0.1:50051`")
    prometheus = values.pop("prometheus_url", None)
    return OriginalConfig(
        endpoint, str(prometheus) if prometheus else None, tuple(_remark(path, str(name)) for name in values)
    )


def _remark(path: Path, name: str) -> str:
    reason = _NOT_USED.get(name)
    return f"{path}: {name} is not used: {reason}" if reason else f"{path}: {printable(name[:60])} is not known"


@contextlib.contextmanager
def _cancelled_as_one() -> Iterator[None]:
    """Turn errors of the SDK's streams, while the work inside is cancelled, into that cancellation."""
    try:
        yield
    except BaseExceptionGroup:
        task = asyncio.current_task()
        if task is None or not task.cancelling():
            raise
        raise asyncio.CancelledError from None


@contextlib.contextmanager
def _ended_by_sigterm() -> Iterator[None]:
    """End the work inside at SIGTERM or SIGHUP as at Ctrl-C, and go on after it as if it had come to its end."""
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    came = asyncio.Event()

    def end() -> None:
        came.set()
        if task is not None:
            task.cancel()

    handled = on_end(end, (signal.SIGTERM, signal.SIGHUP))
    try:
        yield
    except asyncio.CancelledError:
        if not came.is_set() or task is None or task.uncancel() > 0:
            raise
    finally:
        for number in handled:
            loop.remove_signal_handler(number)
