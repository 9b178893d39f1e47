"""The protocol over HTTP, for hosts on this machine and beyond: with a token, for named hosts and origins alone."""

import asyncio
import contextlib
import json
import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mcp.server.lowlevel import Server
from mcp.server.transport_security import TransportSecuritySettings

from danube.admin.mcp.transport.tokens import PASSED, BearerToken, PassedTokens, bearer_of
from danube.admin.ports.cluster_logins import ClusterLogins
from danube.admin.ports.tls import check_pair
from danube.model.errors import DanubeError, NotPermittedError, SettingsError, UnauthenticatedError
from danube.model.limits.faces import (
    MCP_DRAIN_S,
    MCP_MESSAGE_BYTES_MAX,
    MCP_PROOF_TIMEOUT_S,
    MCP_REQUESTS_MAX,
    MCP_SESSION_IDLE_S,
    MCP_SESSIONS_MAX,
)
from danube.rpc.address import is_loopback
from danube.rpc.http_port import App, HttpPort, Message, Receive, Send, listen
from danube.runtime.tasks import TaskScope

DEFAULT_PORT = 8765
DEFAULT_PATH = "/mcp"
_THIS_MACHINE = ("127.0.0.1", "localhost", "[::1]")
_UNAUTHORIZED = b"a token is needed: Authorization: Bearer ..."


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpOptions:
    """The address of the server, and its names among those who may reach it."""

    host: str = "127.0.0.1"
    port: int = DEFAULT_PORT
    """0 takes a free one."""
    path: str = DEFAULT_PATH
    allow_remote: bool = False
    """Said in words, since whoever has the token then administers the cluster from anywhere."""
    public_hosts: tuple[str, ...] = ()
    """`name` or `name:port`, as they stand in the addresses that hosts use."""
    authorization_servers: tuple[str, ...] = ()
    """URLs of who issues the tokens that are passed on; told to hosts as RFC 9728 has it."""
    certificate: Path | None = None
    """Of this server, with its chain, in PEM; None: no TLS."""
    key: Path | None = None
    is_plain_meant: bool = False
    """Said in words: other machines reach it without TLS."""

    def __post_init__(self) -> None:
        """Raise SettingsError for what would be open without having been asked for."""
        if not self.path.startswith("/"):
            raise SettingsError(f"--path {self.path[:60]!r} has to begin with a slash")
        check_pair(self.certificate, self.key)
        if is_loopback(self.host):
            return
        if not self.allow_remote:
            raise SettingsError(
                f"--host {self.host[:60]} can be reached from other machines: add --allow-remote if that is meant, or"
                " listen on 127.0.0.1 behind a proxy with TLS"
            )
        if not self.public_hosts:
            raise SettingsError("--allow-remote needs --public-host NAME: the name by which hosts know this server")
        if self.certificate is None and not self.is_plain_meant:
            raise SettingsError(
                f"--host {self.host[:60]} can be reached from other machines and has no TLS, so tokens could be read on"
                " the way: give --tls-cert and --tls-key, or --without-tls if that is meant"
            )

    def security(self) -> TransportSecuritySettings:
        """Names in Host, and origins of web pages, that are answered: against DNS rebinding."""
        names = [*_THIS_MACHINE, *self.public_hosts]
        hosts = [each for name in names for each in (name, f"{name}:*")]
        origins = [f"{scheme}://{host}" for scheme in ("http", "https") for host in hosts]
        return TransportSecuritySettings(allowed_hosts=hosts, allowed_origins=origins)


class HttpServer:
    """The listening port."""

    def __init__(
        self,
        server: Server[Any],
        options: HttpOptions,
        token: BearerToken | PassedTokens,
        tls: ssl.SSLContext | None = None,
        *,
        logins: ClusterLogins | None = None,
    ) -> None:
        """`logins` has the broker prove tokens that are passed on; without it none of them opens a session."""
        self._options = options
        self._scheme = "http" if tls is None else "https"
        self._listener = listen(options.host, options.port, "choose another with --port")
        self.port: int = self._listener.getsockname()[1]
        app = server.streamable_http_app(
            streamable_http_path=options.path,
            max_request_body_size=MCP_MESSAGE_BYTES_MAX,
            session_idle_timeout=MCP_SESSION_IDLE_S,
            max_sessions=MCP_SESSIONS_MAX,
            transport_security=options.security(),
        )
        guarded = _Guarded(app, token, options, f"{self._scheme}://{options.host}:{self.port}", logins)
        self._http = HttpPort(guarded, lifespan="on", requests_max=MCP_REQUESTS_MAX, drain_s=MCP_DRAIN_S, tls=tls)

    @property
    def address(self) -> str:
        host = self._options.host
        return f"{self._scheme}://{f'[{host}]' if ':' in host else host}:{self.port}{self._options.path}"

    async def serve(self) -> None:
        """Answer until this is cancelled; calls that run have a moment to end."""
        tasks = TaskScope("mcp")
        serving = tasks.spawn(self._http.serve(sockets=[self._listener]), "http")
        try:
            await asyncio.shield(serving)
        finally:
            with contextlib.suppress(asyncio.CancelledError):
                await self._http.stop(serving)
            await tasks.close()
            self._listener.close()


class _Guarded:
    """Lets through what has the token, and the server's own start and stop."""

    def __init__(
        self,
        app: App,
        token: BearerToken | PassedTokens,
        options: HttpOptions,
        own: str,
        logins: ClusterLogins | None,
    ) -> None:
        """`own` is the origin where no public host is named."""
        self._app = app
        self._token = token
        self._logins = logins
        self._origin = f"https://{options.public_hosts[0]}" if options.public_hosts else own
        self._options = options

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and self._options.authorization_servers and scope["path"] == self._metadata_path:
            await _tell(send, self._metadata())
        elif scope["type"] == "http" and not self._token.opens(_authorization(scope)):
            await self._refuse(send)
        elif scope["type"] == "http" and isinstance(self._token, PassedTokens):
            await self._passed(scope, receive, send)
        elif scope["type"] in {"http", "lifespan"}:
            await self._app(scope, receive, send)

    async def _passed(self, scope: Message, receive: Receive, send: Send) -> None:
        """Pass a token on once the broker has proved it: what counts for nothing opens no session."""
        try:
            async with asyncio.timeout(MCP_PROOF_TIMEOUT_S):
                token = await self._proved(bearer_of(_authorization(scope)))
        except (UnauthenticatedError, NotPermittedError) as error:
            await self._refuse(send, str(error).encode())
        except (DanubeError, TimeoutError) as error:
            reason = str(error) or "the broker does not answer"
            await _answer(send, 503, f"the token cannot be proved now: {reason}".encode())
        else:
            await self._app({**scope, "state": {**scope.get("state", {}), PASSED: token}}, receive, send)

    async def _proved(self, token: str) -> str:
        if self._logins is None:
            raise UnauthenticatedError("this server cannot prove tokens")
        return (await self._logins.prove(token, asyncio.get_running_loop().time())).token

    async def _refuse(self, send: Send, reason: bytes = _UNAUTHORIZED) -> None:
        """401; with the URL of the resource's metadata, where there is one."""
        metadata = f"{self._origin}{self._metadata_path}" if self._options.authorization_servers else ""
        wanted = f'Bearer realm="danube"{f", resource_metadata={chr(34)}{metadata}{chr(34)}" if metadata else ""}'
        await _answer(send, 401, reason, (b"www-authenticate", wanted.encode()))

    @property
    def _metadata_path(self) -> str:
        return f"/.well-known/oauth-protected-resource{self._options.path}"

    def _metadata(self) -> dict[str, object]:
        return {
            "resource": f"{self._origin}{self._options.path}",
            "authorization_servers": list(self._options.authorization_servers),
            "bearer_methods_supported": ["header"],
            "resource_name": "Danube",
        }


def _authorization(scope: Message) -> bytes | None:
    found = [value for name, value in scope["headers"] if name == b"authorization"]
    return found[0] if len(found) == 1 else None


async def _tell(send: Send, document: dict[str, object]) -> None:
    headers = [(b"content-type", b"application/json")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": json.dumps(document).encode()})


async def _answer(send: Send, status: int, text: bytes, *headers: tuple[bytes, bytes]) -> None:
    given = [(b"content-type", b"text/plain; charset=utf-8"), *headers]
    await send({"type": "http.response.start", "status": status, "headers": given})
    await send({"type": "http.response.body", "body": text})
