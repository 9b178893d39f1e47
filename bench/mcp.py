"""Tool calls of an assistant: latency over stdio and HTTP against a real broker that does nothing else, and sizes."""

import asyncio
import json
import os
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client

from bench.result import Figure, percentile_ms
from danube.admin.access import Guard
from danube.admin.grpc_gateway import open_gateway
from danube.admin.mcp.server import build_server
from danube.admin.mcp.tool_catalogue import ToolCatalogue
from danube.admin.target import Target
from danube.model.calls.admin import CreateTopic
from danube.model.topic import DispatchStrategy, TopicName
from danube.testing.processes.broker import BrokerProcess
from tests.faces.seeded import seeded_gateway

CALLS = 300
WARM_UP = 30
TOPICS = 20
MANY_TOPICS = 10_000
TOKEN = "a-token-for-the-benchmark"
TO_REACH = "to reach: p50 below 5 ms"
TOOLS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("list_topics", {"namespace": "default"}),
    ("describe_topic", {"topic": "/default/bench-00"}),
)


def run() -> Iterator[Figure]:
    """Call each tool over both transports, one call after the other; then weigh answers of a crowded cluster."""
    with tempfile.TemporaryDirectory() as folder, BrokerProcess(Path(folder) / "data") as broker:
        yield from asyncio.run(_latencies(broker.endpoints.admin_url))
    yield from asyncio.run(_sizes())


async def _latencies(endpoint: str) -> list[Figure]:
    async with open_gateway(Target(endpoint=endpoint)) as gateway:
        for index in range(TOPICS):
            name = TopicName("default", f"bench-{index:02}")
            await gateway.create_topic(CreateTopic(topic=name, strategy=DispatchStrategy.RELIABLE))
    figures = []
    async with Client(StdioServerParameters(command=sys.executable, args=_arguments(endpoint))) as client:
        figures += [each for tool in TOOLS for each in await _timed(client, "stdio", *tool)]
        figures.append(await _protocol_alone(client, "stdio"))
    async with _over_http(endpoint) as client:
        figures += [each for tool in TOOLS for each in await _timed(client, "HTTP", *tool)]
        figures.append(await _protocol_alone(client, "HTTP"))
    return figures


async def _timed(client: Client, transport: str, name: str, arguments: dict[str, Any]) -> list[Figure]:
    latencies = []
    for _ in range(WARM_UP + CALLS):
        before = time.perf_counter()
        answer = await client.call_tool(name, arguments)
        latencies.append(time.perf_counter() - before)
        assert not answer.is_error, answer.content
    kept = latencies[WARM_UP:]
    return [
        Figure(f"{name} over {transport}: p50", percentile_ms(kept, 50), "ms", TO_REACH),
        Figure(f"{name} over {transport}: p99", percentile_ms(kept, 99), "ms", f"{CALLS} calls"),
    ]


async def _protocol_alone(client: Client, transport: str) -> Figure:
    """Cost of the SDK's two ends: a prompt asks no broker and has a short answer."""
    latencies = []
    for _ in range(WARM_UP + CALLS):
        before = time.perf_counter()
        await client.get_prompt("cluster_health_check")
        latencies.append(time.perf_counter() - before)
    return Figure(f"a prompt over {transport}: p50", percentile_ms(latencies[WARM_UP:], 50), "ms", "asks no broker")


@asynccontextmanager
async def _over_http(endpoint: str) -> AsyncIterator[Client]:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *_arguments(endpoint),
        "--http",
        "--port",
        "0",
        stderr=asyncio.subprocess.PIPE,
        env={**os.environ, "DANUBE_MCP_TOKEN": TOKEN},
    )
    try:
        assert process.stderr is not None
        line = (await process.stderr.readline()).decode()
        address = next(word.rstrip(",") for word in line.split() if word.startswith("http://"))
        headers = {"Authorization": f"Bearer {TOKEN}"}
        http = httpx2.AsyncClient(headers=headers, trust_env=False)
        async with http, Client(streamable_http_client(address, http_client=http)) as client:
            yield client
    finally:
        process.terminate()
        await process.communicate()


async def _sizes() -> list[Figure]:
    gateway = seeded_gateway()
    for index in range(MANY_TOPICS):
        gateway.cluster.add_topic(TopicName("default", f"topic-{index:05}"), DispatchStrategy.RELIABLE)
    server = build_server(gateway, gateway.clock, ToolCatalogue(guard=Guard()), who="bench")
    async with Client(server) as client:
        tools = (await client.list_tools()).tools
        listed = sum(len(tool.model_dump_json(by_alias=True, exclude_none=True)) for tool in tools)
        sizes = []
        for arguments in ({}, {"limit": 100_000}, {"namespace": "default", "limit": 1_000}):
            answer = await client.call_tool("list_topics", arguments)
            sizes.append(len(answer.model_dump_json(by_alias=True, exclude_none=True)))
    schemas = sum(len(json.dumps(tool.output_schema, separators=(",", ":"))) for tool in tools)
    return [
        Figure("tools/list", listed / 1_024, "KiB", f"{len(tools)} tools, of it {schemas / 1_024:.1f} KiB of answers"),
        Figure(f"a page of list_topics, {MANY_TOPICS:,} topics", sizes[0] / 1_024, "KiB"),
        Figure("the largest answer with them", max(sizes) / 1_024, "KiB", "at most 24"),
    ]


def _arguments(endpoint: str) -> list[str]:
    return ["-m", "danube.admin", "mcp", "--endpoint", endpoint]
