"""The brokers and Prometheus of `deploy/compose/compose.yaml`, run as processes by a small reader of the file.

Images are taken for what is in them: the environment and the entry point of our Containerfile, and this machine's own
programs. The S3 server is moto's, and Grafana's boards are asked as Prometheus is asked by Grafana.
"""

import asyncio
import json
import re
import sys
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from danube.client import DanubeClientBuilder, DispatchStrategy
from danube.model.errors import UnavailableError
from danube.testing.patience import PATIENCE_S
from danube.testing.processes.child import ChildProcess
from danube.testing.processes.free_ports import free_port
from danube.testing.processes.object_server import ACCESS_KEY, REGION, SECRET_KEY, MotoServer
from danube.testing.processes.prometheus import PrometheusServer, find_prometheus
from tests.deploy.charts import ROOT

pytestmark = [pytest.mark.cluster, pytest.mark.nightly, pytest.mark.timeout(400)]
COMPOSE = ROOT / "deploy" / "compose"
SECRET = "a-secret-of-this-test-and-nothing-else"
QUIET = {"danube_object_store_failed_requests_total", "danube_object_store_cache_hits"}
"""Metrics that have no samples, or are zero throughout, while nothing fails and nothing old is read."""


class Service(ChildProcess):
    """One service of the file as a process of this machine."""

    def __init__(self, name: str, how: dict[str, Any], folder: Path, texts: dict[str, str]) -> None:
        self.name = name
        self._how, self._folder, self._texts = how, folder, texts
        image = (ROOT / "deploy" / "image" / "Containerfile").read_text()
        stage = image[image.index("FROM base AS broker") :]
        own = dict(re.findall(r"(DANUBE_\w+)=(\S+)", stage))
        given = {**own, **how.get("environment", {})}
        super().__init__(folder / f"{name}.log", {key: self._local(value) for key, value in given.items()})

    def start(self) -> None:
        self.launch()

    def _command(self) -> list[str]:
        return [sys.executable, "-m", "danube.broker", *map(self._local, self._how["command"])]

    def _local(self, text: str) -> str:
        for volume in self._how.get("volumes", ()):
            source, target = volume.split(":")[:2]
            place = COMPOSE / source if source.startswith("./") else self._folder / "volumes" / source
            if not source.startswith("./"):
                place.mkdir(parents=True, exist_ok=True)
            text = re.sub(rf"^{re.escape(target)}(?=/|$)", str(self._texts.get(str(place), place)), text)
        text = re.sub(r"\$\{RAFT_SECRET:\?[^}]*\}", SECRET, text)
        return re.sub(r"(?<=:)(\d+)\b", lambda found: self._texts.get(found[1], found[1]), text)


@pytest.fixture
def running(tmp_path: Path) -> Iterator[tuple[dict[str, Any], dict[str, str], list[Service]]]:
    try:
        find_prometheus()
    except UnavailableError as error:
        pytest.skip(str(error))
    compose = yaml.safe_load((COMPOSE / "compose.yaml").read_text())
    brokers = {name: how for name, how in compose["services"].items() if how["image"].startswith("danube-broker:")}
    used = sorted(
        {
            port
            for how in brokers.values()
            for value in how["environment"].values()
            for port in re.findall(r":(\d+)", value)
        }
    )
    texts = {port: str(free_port()) for port in used}
    with MotoServer(tmp_path / "s3") as server:
        config = yaml.safe_load((COMPOSE / "danube.yaml").read_text())
        config["object_store"] |= {"endpoint": server.endpoint, "region": REGION}
        (tmp_path / "danube.yaml").write_text(yaml.safe_dump(config))
        texts[str(COMPOSE / "./danube.yaml")] = str(tmp_path / "danube.yaml")
        for how in brokers.values():
            how["environment"] |= {
                "DANUBE_OBJECT_STORE_ACCESS_KEY": ACCESS_KEY,
                "DANUBE_OBJECT_STORE_SECRET_KEY": SECRET_KEY,
            }
        services = [Service(name, how, tmp_path, texts) for name, how in brokers.items()]
        try:
            for each in services:
                each.start()
            yield compose, texts, services
        finally:
            for each in services:
                each.kill()


def asked(url: str) -> Any:
    with urllib.request.urlopen(url, timeout=5) as answer:
        return json.load(answer)


async def until(holds: Any) -> Any:
    async with asyncio.timeout(PATIENCE_S):
        while True:
            try:
                if found := await asyncio.to_thread(holds):
                    return found
            except OSError:
                pass
            await asyncio.sleep(0.2)


async def test_the_brokers_serve_and_the_boards_show_data(
    tmp_path: Path, running: tuple[dict[str, Any], dict[str, str], list[Service]]
) -> None:
    _, texts, services = running
    scraped = yaml.safe_load((COMPOSE / "prometheus.yaml").read_text())["scrape_configs"][0]["static_configs"][0][
        "targets"
    ]
    targets = [f"127.0.0.1:{texts[target.rpartition(':')[2]]}" for target in scraped]
    for target, service in zip(targets, services, strict=True):
        assert await until(lambda target=target: asked(f"http://{target}/health/ready")), service.log()[-2_000:]
    urls = ",".join(f"http://127.0.0.1:{texts[port]}" for port in ("6650", "6651", "6652"))
    async with await DanubeClientBuilder().service_url(urls).build() as client:
        making = client.new_producer().with_topic("/default/compose").with_name("p")
        producer = making.with_dispatch_strategy(DispatchStrategy.RELIABLE).build()
        await producer.create()
        for number in range(50):
            await producer.send(b"%d" % number)
        bounds = await client.bounds("/default/compose")
        assert [int(one.payload) async for one in client.fetch("/default/compose", start=0, end=bounds.end_offset)] == [
            *range(50)
        ]
        prometheus = await asyncio.to_thread(PrometheusServer, tmp_path / "prometheus", targets)
        await asyncio.to_thread(prometheus.start)
        try:
            for board in (COMPOSE / "grafana" / "boards").glob("*.json"):
                for panel in json.loads(board.read_text())["panels"]:
                    for target in panel["targets"]:
                        await _shows_data(prometheus, target["expr"], producer)
        finally:
            await asyncio.to_thread(prometheus.kill)


async def _shows_data(prometheus: PrometheusServer, expression: str, producer: Any) -> None:
    is_quiet = any(name in expression for name in QUIET)
    url = f"http://{prometheus.address}/api/v1/query?query={urllib.parse.quote(expression)}"
    async with asyncio.timeout(PATIENCE_S):
        while True:
            await producer.send(b"more")
            told = await asyncio.to_thread(asked, url)
            assert told["status"] == "success"
            if told["data"]["result"] or is_quiet:
                return
            await asyncio.sleep(0.5)
