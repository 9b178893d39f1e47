"""The server as something that is started and ends: for the command, and for tests in the same process.

async with serving(connect, target, Exposure(listen_addr="127.0.0.1:0")) as running:
    ...  # running.url is where it answers
"""

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from danube.admin.ports.tls import certificates_of, keep_fresh
from danube.admin.target import Connect, Target
from danube.admin.web.app import build_app
from danube.admin.web.protection.exposure import Exposure, check_exposure
from danube.admin.web.protection.protection import PROBE_PATHS
from danube.admin.web.server import WebServer
from danube.model.limits.faces import WEB_DRAIN_TIMEOUT_S, WEB_REQUESTS_MAX
from danube.rpc.address import join_address, split_address
from danube.rpc.http_port import HttpPort, listen
from danube.runtime.blocking import run_apart
from danube.runtime.clock import Clock, SystemClock
from danube.runtime.process import on_end
from danube.runtime.ready_file import ReadyFile
from danube.runtime.tasks import TaskScope

_INSTEAD = "choose another address with --listen-addr"


@dataclass(frozen=True, slots=True)
class Running:
    """A server that listens."""

    address: str
    """`host:port`, the real port."""
    ended: "asyncio.Task[None]"
    """Done when it has stopped by itself; then something is wrong."""
    scheme: str = "http"

    @property
    def url(self) -> str:
        return f"{self.scheme}://{self.address}"


@asynccontextmanager
async def serving(
    connect: Connect, target: Target, exposure: Exposure, *, clock: Clock | None = None
) -> AsyncIterator[Running]:
    """Serve until the block ends; requests under way have WEB_DRAIN_TIMEOUT_S. Raises SettingsError."""
    check_exposure(exposure, target.guard.level)
    if exposure.passes_tokens:
        target = target.passing_tokens()
    tls = await certificates_of(exposure.certificate, exposure.key)
    tasks = TaskScope("web server")
    with listen(*split_address(exposure.listen_addr), _INSTEAD) as listener:
        address = join_address(*listener.getsockname()[:2])
        async with connect(target) as gateway:
            web = WebServer(
                gateway=gateway,
                guard=target.guard,
                clock=clock or SystemClock(),
                exposure=exposure,
                endpoint=target.endpoint,
            )
            port = HttpPort(
                build_app(web),
                requests_max=WEB_REQUESTS_MAX,
                drain_s=WEB_DRAIN_TIMEOUT_S,
                probes=PROBE_PATHS,
                tls=tls.context if tls else None,
            )
            if tls is not None:
                tasks.spawn(keep_fresh(tls, web.clock), "certificates")
            ended = tasks.spawn(port.serve(sockets=[listener]), "http")
            try:
                yield Running(address, ended, "https" if tls else "http")
            finally:
                await port.stop(ended)
                await tasks.close()


Beside = Callable[[], Coroutine[Any, Any, None]]
"""Other work of the same process: when it ends or fails, so does the server, and the other way round."""


async def serve_until_told(
    connect: Connect,
    target: Target,
    exposure: Exposure,
    *,
    tell: Callable[[str], None],
    ready: ReadyFile | None = None,
    beside: Beside | None = None,
) -> None:
    """Serve until SIGTERM, SIGINT or SIGHUP, or the end of what runs beside; `tell` hears the URL once it serves.

    Raises SettingsError, and what ended the work beside.
    """
    stop = asyncio.Event()
    tasks = TaskScope("serve")
    async with serving(connect, target, exposure) as running:
        on_end(stop.set)
        watched = [running.ended, *([tasks.spawn(beside(), "beside")] if beside else [])]
        for task in watched:
            task.add_done_callback(lambda _: stop.set())
        if ready is not None:
            await _tell_ready(ready, running)
        tell(running.url)
        try:
            await stop.wait()
        finally:
            await tasks.close()
        for task in watched:
            if task.done() and not task.cancelled():
                task.result()


async def _tell_ready(ready: ReadyFile, running: Running) -> None:
    content = {"web": running.address, "url": running.url, "pid": os.getpid()}
    await run_apart("ready-file", lambda: ready.write(content))
