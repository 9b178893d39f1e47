"""Assistants over HTTP with tokens of their own, before a secured broker: each does what its token may."""

import asyncio
import re
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.server.lowlevel import Server

from danube.admin.access import Guard
from danube.admin.grpc_gateway import open_gateway
from danube.admin.grpc_gateway.broker_connection import ConnectionPool
from danube.admin.grpc_gateway.gateway import GrpcGateway
from danube.admin.local_state import LocalState
from danube.admin.mcp.server import build_server
from danube.admin.mcp.tool_catalogue import ToolCatalogue
from danube.admin.mcp.transport.http import HttpOptions, HttpServer
from danube.admin.mcp.transport.serve import McpOptions, serve_http
from danube.admin.mcp.transport.tokens import PassedTokens
from danube.admin.ports.cluster_logins import ClusterLogins
from danube.admin.ports.tls import certificates_of
from danube.admin.target import Target
from danube.model.errors import SettingsError
from danube.model.security.grants import BindingScope
from danube.model.security.principal import TokenScope
from danube.runtime.blocking import BlockingThread
from danube.runtime.clock import SystemClock
from danube.runtime.rng import SystemRng
from danube.testing.patience import PATIENCE_S
from danube.wire.security import messages
from tests.unit.admin.mcp.hosts import text_of
from tests.unit.broker.security.conftest import ROOT, SecureCell, binding

ISSUER = "https://login.example"


@asynccontextmanager
async def mcp_server(secure: SecureCell, folder: Path, authority: Path) -> AsyncIterator[str]:
    """The address of a server with TLS, and without a token of its own."""
    endpoint = f"https://{secure.cell.broker.addresses.admin}"
    runner = BlockingThread("admin-files")
    pool = ConnectionPool(Target(endpoint=endpoint, tls=True, timeout_s=PATIENCE_S), secure.cell.carrier)
    state = LocalState(lambda: folder, endpoint, clock=SystemClock(), rng=SystemRng(), runner=runner)
    gateway = GrpcGateway(pool, state)
    server: Server[object] = build_server(
        gateway, SystemClock(), ToolCatalogue(guard=Guard()), who="whoever started it"
    )
    tls = await certificates_of(authority / "broker.pem", authority / "broker.key")
    assert tls is not None
    options = HttpOptions(port=0, authorization_servers=(ISSUER,))
    http = HttpServer(server, options, PassedTokens(), tls.context, logins=ClusterLogins(gateway))
    assert http.address.startswith("https://")
    async with asyncio.timeout(PATIENCE_S), asyncio.TaskGroup() as tasks:
        task = tasks.create_task(http.serve())
        try:
            yield http.address
        finally:
            task.cancel()
            for each in asyncio.all_tasks():  # of the SDK's event streams, which end with their process
                if getattr(each.get_coro(), "__name__", "") == "_shutdown_watcher":
                    each.cancel()
    await pool.close()
    await runner.aclose()


@asynccontextmanager
async def web(authority: Path, token: str | None = None) -> AsyncIterator[httpx2.AsyncClient]:
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    trusts = await asyncio.to_thread(lambda: ssl.create_default_context(cafile=authority / "ca.pem"))
    async with httpx2.AsyncClient(headers=headers, trust_env=False, timeout=PATIENCE_S, verify=trusts) as client:
        yield client


@asynccontextmanager
async def assistant(address: str, token: str, authority: Path) -> AsyncIterator[Client]:
    async with web(authority, token) as http, Client(streamable_http_client(address, http_client=http)) as client:
        yield client


async def test_each_assistant_does_what_its_own_token_may(secure: SecureCell, tmp_path: Path, authority: Path) -> None:
    root = secure.channel(secure.token(ROOT))
    wanted = binding("tenant", "observer", scope=BindingScope.NAMESPACE, resource="default")
    await root.call("/danube_admin.SecurityAdmin/CreateBinding", messages.CREATE_BINDING.encode(wanted))
    said = {}
    async with mcp_server(secure, tmp_path / "state", authority) as address:
        tokens = {
            "root": secure.token(ROOT),
            "observer": secure.token(ROOT, TokenScope.OBSERVER),
            "tenant": secure.token("tenant"),
        }
        for name, token in tokens.items():
            async with assistant(address, token, authority) as client:
                seen = await client.call_tool("list_namespaces", {})
                made = await client.call_tool("create_namespace", {"namespace": f"by-{name}"})
                said[name] = ("other" in str(seen.structured_content), seen.is_error, made.is_error)
                assert token not in text_of(seen) + text_of(made)
    assert said == {
        "root": (True, False, False),
        "observer": (True, False, True),
        "tenant": (False, False, True),
    }


async def test_a_token_that_the_broker_has_not_proved_opens_no_session(
    secure: SecureCell, tmp_path: Path, authority: Path
) -> None:
    client = {"name": "test", "version": "1"}
    params = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client}
    opening = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}
    accepts = {"Accept": "application/json, text/event-stream"}
    tokens = {
        "garbage": "garbage",
        "forged": secure.token(ROOT)[:-8] + "AAAAAAAA",
        "expired": secure.token(ROOT, expires_s=1_000.0),
        "api key": "danube_key_of_nobody",
        "proved": secure.token("stranger"),
    }
    said = {}
    async with mcp_server(secure, tmp_path / "state", authority) as address:
        for name, token in tokens.items():
            async with web(authority, token) as http:
                answer = await http.post(address, json=opening, headers=accepts)
                said[name] = (answer.status_code, "mcp-session-id" in answer.headers)
                assert token not in answer.text
                if answer.status_code == 401:
                    assert "resource_metadata" in answer.headers["www-authenticate"]
    assert said == {**dict.fromkeys(tokens, (401, False)), "proved": (200, True)}


async def test_who_has_no_token_is_told_where_there_are_some(
    secure: SecureCell, tmp_path: Path, authority: Path
) -> None:
    async with mcp_server(secure, tmp_path / "state", authority) as address, web(authority) as http:
        refused = await http.post(address, json={})
        assert refused.status_code == 401
        found = re.search(r'resource_metadata="([^"]+)"', refused.headers["www-authenticate"])
        assert found
        told = (await http.get(found[1])).json()
    assert (told["resource"], told["authorization_servers"]) == (address, [ISSUER])


@pytest.mark.parametrize("given", [b"Bearer a b", b"Basic abc", b"Bearer", b"Bearer \xe9", b"Bearer " + b"a" * 9_000])
async def test_what_can_be_no_token_goes_no_further(given: bytes) -> None:
    assert not PassedTokens().opens(given)


async def test_tokens_are_not_passed_on_in_plain_text() -> None:
    target = Target(endpoint="http://broker.example:50051")
    with pytest.raises(SettingsError, match="--pass-tokens needs an https:// endpoint"):
        await serve_http(open_gateway, target, McpOptions(), HttpOptions(port=0), PassedTokens())
