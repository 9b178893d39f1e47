"""The server as it runs: a real port, its end, and what it does beside other work."""

import asyncio
import json
import os
import signal
import socket
from pathlib import Path

import httpx2
import pytest

from danube.admin.access import AccessLevel, Guard
from danube.admin.target import Target
from danube.admin.web.protection.exposure import Exposure, WebToken
from danube.admin.web.serving import serve_until_told, serving
from danube.model.errors import SettingsError, UnavailableError
from danube.runtime.ready_file import ReadyFile
from danube.testing.patience import PATIENCE_S
from tests.faces.memory_gateway import connect_to
from tests.faces.seeded import seeded_gateway
from tests.unit.admin.web.site import TOKEN

ANY_PORT = Exposure(listen_addr="127.0.0.1:0")
READS = Target(guard=Guard(level=AccessLevel.READ))


async def test_it_listens_on_a_free_port_and_leaves_it_at_the_end() -> None:
    async with (
        serving(connect_to(seeded_gateway()), READS, ANY_PORT) as running,
        httpx2.AsyncClient(base_url=running.url, timeout=PATIENCE_S) as client,
    ):
        answer = await client.get("/api/v1/namespaces/list")
        assert (answer.status_code, answer.json()["total"]) == (200, 3)
        assert "server" not in answer.headers
    host, port = running.address.rsplit(":", 1)
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection(host, int(port))


async def test_a_request_under_way_ends_before_the_server_does() -> None:
    gateway = seeded_gateway()
    gateway.held = asyncio.Event()
    async with asyncio.TaskGroup() as group, httpx2.AsyncClient(timeout=PATIENCE_S) as client:
        async with serving(connect_to(gateway), READS, ANY_PORT) as running:
            asked = group.create_task(client.get(f"{running.url}/api/v1/namespaces/list"))
            await gateway.waiting.wait()
            asyncio.get_running_loop().call_soon(gateway.held.set)
        assert (await asked).status_code == 200


async def test_a_port_that_is_taken_is_one_sentence() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        exposure = Exposure(listen_addr=f"127.0.0.1:{taken.getsockname()[1]}")
        with pytest.raises(SettingsError, match=r"cannot listen on .* choose another address with --listen-addr"):
            async with serving(connect_to(seeded_gateway()), READS, exposure):
                pass


async def test_what_is_not_safe_is_never_listened_to() -> None:
    gateway = seeded_gateway()
    with pytest.raises(SettingsError, match="change the cluster"):
        async with serving(connect_to(gateway), Target(), ANY_PORT):
            pass
    assert gateway.calls == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_ends_it_in_order(number: signal.Signals, tmp_path: Path) -> None:
    told: list[str] = []
    path = tmp_path / "ready.json"

    def tell(url: str) -> None:
        told.append(url)
        os.kill(os.getpid(), number)

    async def served(ready: ReadyFile) -> None:
        async with asyncio.timeout(PATIENCE_S):
            await serve_until_told(connect_to(seeded_gateway()), READS, ANY_PORT, tell=tell, ready=ready)

    ready = ReadyFile(path)
    asyncio.run(served(ready))
    written = json.loads(path.read_text())
    assert (told, written["pid"]) == ([written["url"]], os.getpid())
    ready.remove()
    assert not path.exists()


async def test_it_ends_with_the_work_beside_it_and_passes_its_failure_on() -> None:
    async def fail() -> None:
        raise UnavailableError("the other end is gone")

    async with asyncio.timeout(PATIENCE_S):
        with pytest.raises(UnavailableError, match="the other end is gone"):
            await serve_until_told(connect_to(seeded_gateway()), READS, ANY_PORT, tell=lambda _: None, beside=fail)


async def test_with_a_token_it_serves_whoever_has_it() -> None:
    exposure = Exposure(listen_addr="127.0.0.1:0", tokens=(WebToken("ada", TOKEN),))
    async with (
        serving(connect_to(seeded_gateway()), Target(), exposure) as running,
        httpx2.AsyncClient(base_url=running.url, timeout=PATIENCE_S) as client,
    ):
        assert (await client.get("/api/v1/topics/list")).status_code == 401
        headers = {"authorization": f"Bearer {TOKEN}"}
        answer = await client.post("/api/v1/namespaces/create", json={"namespace": "new"}, headers=headers)
        assert answer.json() == {"namespace": "new", "created": True}


async def test_a_ready_file_that_cannot_be_written_is_one_sentence(tmp_path: Path) -> None:
    missing = ReadyFile(tmp_path / "nowhere" / "ready.json")
    with pytest.raises(SettingsError, match=r"cannot write the ready file .*ready\.json"):
        await serve_until_told(connect_to(seeded_gateway()), READS, ANY_PORT, tell=lambda _: None, ready=missing)
