"""The metrics port: what it answers, and what it does not let others do."""

import asyncio
from collections.abc import AsyncIterator

import pytest_asyncio
from prometheus_client import CollectorRegistry, Gauge, make_asgi_app

from danube.model.limits.faces import HTTP_CONNECTIONS_SPARE, METRICS_REQUESTS_MAX
from danube.rpc.address import split_address
from danube.rpc.metrics_port import MetricsPort
from danube.runtime.tasks import TaskScope
from danube.testing.patience import PATIENCE_S

TIMEOUT_S = PATIENCE_S


class Port:
    """A metrics port of a broker with something wrong, or nothing."""

    def __init__(self) -> None:
        self.trouble: str | None = None
        self.tasks = TaskScope("test")
        self.server = MetricsPort({"/health": lambda: self.trouble}, self.tasks, instead="choose another")

    def show_metrics(self) -> None:
        registry = CollectorRegistry()
        Gauge("danube_test", "Something.", registry=registry).set(7)
        self.server.show(make_asgi_app(registry))

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection(*split_address(self.server.address))

    async def get(self, path: str) -> tuple[int, str]:
        """Status and body."""
        reader, writer = await self.connect()
        writer.write(f"GET {path} HTTP/1.0\r\n\r\n".encode())
        async with asyncio.timeout(TIMEOUT_S):
            answer = (await reader.read()).decode()
        writer.close()
        return int(answer.split()[1]), answer.partition("\r\n\r\n")[2]


@pytest_asyncio.fixture
async def port() -> AsyncIterator[Port]:
    port = Port()
    await port.server.start("127.0.0.1:0")
    port.show_metrics()
    yield port
    await port.server.stop()
    await port.tasks.close()


async def test_prometheus_gets_the_metrics_and_others_are_told_what_there_is(port: Port) -> None:
    assert await port.get("/metrics") == (
        200,
        "# HELP danube_test Something.\n# TYPE danube_test gauge\ndanube_test 7.0\n",
    )
    status, body = await port.get("/")
    assert (status, "there are /metrics, /health" in body) == (404, True)


async def test_probes_are_answered_while_there_are_no_metrics_yet_or_any_more(port: Port) -> None:
    port.server.show(None)
    assert [(await port.get(path))[0] for path in ("/health", "/metrics")] == [200, 503]


async def test_health_says_what_is_wrong(port: Port) -> None:
    assert await port.get("/health") == (200, '{"status": "ok"}')
    port.trouble = "the disk is gone"
    assert await port.get("/health") == (503, '{"status": "the disk is gone"}')


async def test_connections_that_ask_nothing_keep_no_probe_from_being_answered(port: Port) -> None:
    idle = [await port.connect() for _ in range(METRICS_REQUESTS_MAX + HTTP_CONNECTIONS_SPARE)]
    async with asyncio.timeout(TIMEOUT_S):
        assert [(await port.get(path))[0] for path in ("/health", "/metrics", "/health")] == [200, 200, 200]
    for _, writer in idle:
        writer.close()


async def test_who_asks_and_does_not_read_does_not_keep_the_broker_from_ending(port: Port) -> None:
    _, writer = await port.connect()
    writer.write(b"GET /metrics HTTP/1.1\r\nHost: test\r\n\r\n" * 100)
    async with asyncio.timeout(TIMEOUT_S):
        await port.server.stop()
    writer.close()
