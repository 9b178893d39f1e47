"""The server over HTTP: token, host and origin, in this process; the command as a process of its own."""

import asyncio
import os
import re
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from danube.admin.access import Guard
from danube.admin.mcp.server import build_server
from danube.admin.mcp.tool_catalogue import ToolCatalogue
from danube.admin.mcp.transport.http import HttpOptions
from danube.admin.mcp.transport.tokens import VARIABLE, find_token
from danube.model.errors import SettingsError
from tests.faces.memory_gateway import MemoryGateway
from tests.unit.admin.mcp.hosts import ERAS, Person, listening, text_of
from tests.unit.admin.mcp.test_stdio import HELLO, WAIT_S, process

pytestmark = pytest.mark.slow  # together they take long

SECRET = "a-token-that-is-long-enough"
ACCEPTED = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
HOLDER = {"Authorization": f"Bearer {SECRET}"}


@asynccontextmanager
async def serving(gateway: MemoryGateway) -> AsyncIterator[str]:
    """The address of a server in this process."""
    server = build_server(gateway, gateway.clock, ToolCatalogue(guard=Guard()), who="ann@desk")
    async with asyncio.timeout(WAIT_S), listening(server, SECRET) as address:
        yield address


@asynccontextmanager
async def web(**headers: str) -> AsyncIterator[httpx2.AsyncClient]:
    async with httpx2.AsyncClient(headers=headers, trust_env=False, timeout=WAIT_S) as client:
        yield client


@asynccontextmanager
async def host_over_http(address: str, era: str, person: Person | None = None) -> AsyncIterator[Client]:
    async with web(**HOLDER) as http:
        transport = streamable_http_client(address, http_client=http)
        async with Client(transport, mode=era, elicitation_callback=person) as client:
            yield client


@pytest.mark.parametrize("era", ERAS)
async def test_who_has_the_token_calls_tools_and_is_on_record_as_its_bearer(gateway: MemoryGateway, era: str) -> None:
    async with serving(gateway) as address, host_over_http(address, era) as client:
        answer = await client.call_tool("list_namespaces", {})
    assert "staging" in text_of(answer)
    assert gateway.audit_records[-1].entry.caller.who == "bearer@127.0.0.1"


@pytest.mark.parametrize("era", ERAS)
async def test_a_person_can_be_asked_over_http(gateway: MemoryGateway, era: str) -> None:
    person = Person("accept", approve=True)
    async with serving(gateway) as address, host_over_http(address, era, person) as client:
        answer = await client.call_tool("delete_topic", {"topic": "/default/ticks"})
    assert answer.structured_content["status"] == "applied"
    assert len(person.questions) == 1


@pytest.mark.parametrize(
    "given",
    [{}, {"Authorization": "Bearer wrong-but-as-long-as-it-has-to"}, {"Authorization": f"Basic {SECRET}"}],
    ids=["none", "another", "another kind"],
)
async def test_without_the_token_nothing_is_answered(gateway: MemoryGateway, given: dict[str, str]) -> None:
    async with serving(gateway) as address, web(**ACCEPTED, **given) as client:
        answers = [await client.request(method, address, json=HELLO) for method in ("POST", "GET", "DELETE")]
        answers.append(await client.get(address.removesuffix("/mcp") + "/elsewhere"))
    assert {answer.status_code for answer in answers} == {401}
    assert {answer.headers["WWW-Authenticate"] for answer in answers} == {'Bearer realm="danube"'}
    assert gateway.calls == []


@pytest.mark.parametrize(
    ("given", "status"),
    [
        ({"Origin": "http://evil.example"}, 403),
        ({"Host": "evil.example"}, 421),
        ({"Origin": "http://localhost:3000"}, 200),
    ],
)
async def test_pages_and_names_of_strangers_are_refused(
    gateway: MemoryGateway, given: dict[str, str], status: int
) -> None:
    async with serving(gateway) as address, web(**ACCEPTED, **HOLDER, **given) as client:
        assert (await client.post(address, json=HELLO)).status_code == status


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"host": "0.0.0.0"}, "--allow-remote"),
        ({"host": "0.0.0.0", "allow_remote": True}, "--public-host"),
        ({"host": "0.0.0.0", "allow_remote": True, "public_hosts": ("a.example",)}, "has no TLS"),
        ({"certificate": Path("pem")}, "belong together"),
        ({"path": "mcp"}, "slash"),
    ],
)
def test_what_would_be_open_by_accident_is_refused(options: dict[str, Any], words: str) -> None:
    with pytest.raises(SettingsError, match=words):
        HttpOptions(**options)


def test_a_name_that_was_given_is_answered_with_and_without_a_port() -> None:
    named: dict[str, Any] = {"host": "0.0.0.0", "allow_remote": True, "public_hosts": ("admin.example",)}
    security = HttpOptions(**named, is_plain_meant=True).security()
    assert {"admin.example", "admin.example:*"} <= set(security.allowed_hosts)
    assert "https://admin.example" in security.allowed_origins


# Tokens


def test_a_token_is_made_once_for_its_owner_alone(tmp_path: Path) -> None:
    first = find_token(None, {"XDG_STATE_HOME": str(tmp_path)})
    second = find_token(None, {"XDG_STATE_HOME": str(tmp_path)})
    path = Path(first.origin)
    assert (first.is_new, second.is_new) == (True, False)
    assert first.secret == second.secret == path.read_text().strip()
    assert path.stat().st_mode & 0o777 == 0o600
    assert len(first.secret) > 40
    assert first.secret not in repr(first)


def test_a_named_file_stands_over_the_variable(tmp_path: Path) -> None:
    environ = {VARIABLE: "of-the-variable-of-the-user"}
    assert find_token(tmp_path / "token", environ).origin == str(tmp_path / "token")
    assert find_token(None, environ).secret == environ[VARIABLE]


@pytest.mark.parametrize("text", ["", "tiny", "two words in one token", "t\x00oken-with-a-control", "ü" * 20])
def test_what_is_no_token_is_refused_and_not_shown(text: str) -> None:
    with pytest.raises(SettingsError) as error:
        find_token(None, {VARIABLE: text})
    assert not text or text not in str(error.value)


def test_a_token_file_that_others_can_read_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text(f"{SECRET}\n")
    path.chmod(0o644)
    with pytest.raises(SettingsError, match="others can read"):
        find_token(path, {})


# As a process


@pytest.mark.cluster
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 0)])
async def test_the_command_tells_where_it_is_and_ends_with_a_signal(
    tmp_path: Path, number: signal.Signals, code: int
) -> None:
    token = tmp_path / "token"
    async with process("mcp", "--http", "--port", "0", "--token-file", str(token)) as started:
        assert started.stderr is not None
        line = (await started.stderr.readline()).decode()
        address = re.search(r"http://127\.0\.0\.1:\d+/mcp", line)
        assert address is not None, line
        assert str(token) in line
        assert token.read_text().strip() not in line
        headers = {"Authorization": f"Bearer {token.read_text().strip()}"}
        async with web(**headers) as http, Client(streamable_http_client(address[0], http_client=http)) as client:
            assert "default" in text_of(await client.call_tool("list_namespaces", {}))
        started.send_signal(number)
        assert await started.wait() == code
        assert b"Traceback" not in await started.stderr.read()


@pytest.mark.cluster
async def test_the_command_serves_nobody_without_a_token() -> None:
    os.environ[VARIABLE] = ""
    try:
        async with process("mcp", "--http", "--port", "0") as started:
            _, errors = await started.communicate()
    finally:
        del os.environ[VARIABLE]
    assert started.returncode == 2
    assert VARIABLE.encode() in errors
