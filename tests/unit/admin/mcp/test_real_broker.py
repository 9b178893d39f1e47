"""With a real broker, which goes away and comes back under a server that stays."""

import asyncio
import contextlib
import sys
from pathlib import Path

import pytest
from mcp import Client, StdioServerParameters

from danube.testing.patience import PATIENCE_S
from danube.testing.processes.broker import BrokerProcess
from tests.unit.admin.mcp.hosts import ERAS, text_of

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

ROOT = Path(__file__).parents[4]
POLL_S = 0.05


async def answered_again(client: Client) -> None:
    """Return once the tool works again: the connection is tried anew once a second at least. The caller has a bound."""
    while (await client.call_tool("list_namespaces", {})).is_error:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(POLL_S):
                await asyncio.Event().wait()


@pytest.mark.parametrize("era", ERAS)
async def test_a_server_outlives_its_broker_and_finds_it_again(tmp_path: Path, era: str) -> None:
    broker = BrokerProcess(tmp_path / "data")
    endpoint = (await asyncio.to_thread(broker.start)).admin_url
    await asyncio.to_thread(broker.kill)
    arguments = ["-m", "danube.admin", "mcp", "--endpoint", endpoint]
    server = StdioServerParameters(command=sys.executable, args=arguments, env={"PYTHONPATH": str(ROOT)})
    try:
        async with asyncio.timeout(PATIENCE_S), Client(server, mode=era) as client:
            down = await client.call_tool("list_namespaces", {})
            await asyncio.to_thread(broker.start)
            await answered_again(client)
            await asyncio.to_thread(broker.kill)
            gone = await client.call_tool("list_namespaces", {})
            await asyncio.to_thread(broker.start)
            await answered_again(client)
    finally:
        await asyncio.to_thread(broker.kill)
    for answer in (down, gone):
        assert answer.is_error is True
        assert endpoint.removeprefix("http://") in text_of(answer)
        assert "then call again" in text_of(answer)
