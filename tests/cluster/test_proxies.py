"""A broker behind a real nginx: with the settings of `docs/proxies.md`, and with nginx's own."""

import asyncio
import os
import re
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from danube.client.client import DanubeClient, DanubeClientBuilder
from danube.client.publish.producer import Producer
from danube.model.errors import MessageTooLargeError
from danube.model.topic import DispatchStrategy
from danube.testing.patience import PATIENCE_S
from danube.testing.processes.broker import BrokerProcess
from danube.testing.processes.service import ServiceProcess, ask

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(300)]

DOCS = Path(__file__).parents[2] / "docs" / "proxies.md"
TOPIC = "/default/orders"
SENT = [b"%08d" % number + b"x" * 50_000 for number in range(100)]
"""5 MB: five times what nginx passes by default."""


class Nginx(ServiceProcess):
    """One nginx before one broker, by the settings of the docs, or without those that docs say are needed."""

    name = "nginx"
    broker = ""

    def __init__(self, folder: Path, *, as_documented: bool) -> None:
        super().__init__(folder)
        found = re.search(r"```nginx\n(.*?)```", DOCS.read_text(), re.DOTALL)
        assert found
        self._settings = found[1] if as_documented else found[1].replace("client_max_body_size 0;", "")

    def _command(self) -> Sequence[str]:
        names = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
        own = "".join(f"{name}_temp_path {self.folder / name};\n" for name in names)
        settings = self._settings.replace("6650 http2", f"{self.address} http2", 1).replace(
            "127.0.0.1:16650", self.broker
        )
        settings = settings.replace("http {", f"http {{ access_log {self.folder / 'access.log'};\n{own}", 1)
        config = self.folder / "nginx.conf"
        config.write_text(f"daemon off; master_process off; pid {self.folder / 'pid'}; error_log stderr;\n{settings}")
        return [shutil.which("nginx") or "nginx", "-p", str(self.folder), "-c", str(config)]

    def _serves(self) -> bool:
        return bool(ask(self.port, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0"))

    def streams(self) -> int:
        """Streams of batches that have ended."""
        return (self.folder / "access.log").read_text().count("StreamService/Publish")


@pytest.fixture
def nginx(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Nginx]:
    if shutil.which("nginx") is None:
        missing = "there is no nginx: install it (Debian's package `nginx-light`) to run this test"
        if os.environ.get("CI"):
            pytest.fail(missing)
        pytest.skip(missing)
    proxy = Nginx(tmp_path / "nginx", as_documented=request.param)
    with BrokerProcess(tmp_path / "data", flags=("--connect-url", proxy.address)) as broker:
        proxy.broker = broker.endpoints.service_url.removeprefix("http://")
        with proxy:
            yield proxy


async def producer_of(client: DanubeClient) -> Producer:
    building = client.new_producer().with_topic(TOPIC).with_name("p").with_deduplication()
    producer = building.with_dispatch_strategy(DispatchStrategy.RELIABLE).build()
    await producer.create()
    return producer


async def stored(client: DanubeClient) -> list[bytes]:
    bounds = await client.bounds(TOPIC)
    fetched = client.fetch(TOPIC, start=0, end=bounds.end_offset)
    return [message.payload async for message in fetched]


@pytest.mark.parametrize("nginx", [True], indirect=True)
async def test_by_the_settings_of_the_docs_one_stream_takes_any_number_of_bytes_and_large_messages(
    nginx: Nginx,
) -> None:
    async with (
        asyncio.timeout(PATIENCE_S),
        await DanubeClientBuilder().service_url(f"http://{nginx.address}").build() as client,
    ):
        producer = await producer_of(client)
        await producer.send_many(SENT)
        await producer.send_many([b"y" * 3_000_000])
        assert await stored(client) == [*SENT, b"y" * 3_000_000]
        await producer.close()
    assert nginx.streams() == 2


@pytest.mark.parametrize("nginx", [False], indirect=True)
async def test_where_a_proxy_limits_bodies_batches_go_by_shorter_streams_and_a_larger_message_says_what_to_set(
    nginx: Nginx,
) -> None:
    async with (
        asyncio.timeout(PATIENCE_S),
        await DanubeClientBuilder().service_url(f"http://{nginx.address}").build() as client,
    ):
        producer = await producer_of(client)
        await producer.send_many(SENT)
        assert await stored(client) == SENT
        assert nginx.streams() > 5
        with pytest.raises(MessageTooLargeError, match="client_max_body_size 0"):
            await producer.send_many([b"y" * 3_000_000])
        await producer.close()
        single = client.new_producer().with_topic(TOPIC).with_name("single")
        other = single.with_dispatch_strategy(DispatchStrategy.RELIABLE).build()
        await other.create()
        with pytest.raises(MessageTooLargeError, match="client_max_body_size 0"):
            await other.send(b"y" * 3_000_000)
