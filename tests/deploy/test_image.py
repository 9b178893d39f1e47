"""The broker's image: built without a network or a daemon, started, used, and ended within its drain time."""

import asyncio
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from danube import __version__
from danube.client import DanubeClientBuilder, DispatchStrategy, SubType
from danube.model.limits.broker import DRAIN_TIMEOUT_S
from danube.testing.patience import PATIENCE_S
from danube.testing.processes.free_ports import free_port
from scripts import image
from tests.deploy.charts import ROOT
from tests.deploy.kubelet import ENTRYPOINTS

CONTAINERFILE = ROOT / "deploy" / "image" / "Containerfile"
MEGABYTES_MAX = 180


def test_images_begin_with_the_programs_that_the_chart_expects() -> None:
    text = CONTAINERFILE.read_text()
    stages = dict(re.findall(r"FROM base AS (\w+)\n(.*?)(?=\nFROM |\Z)", text, re.DOTALL))
    begin = {
        name: json.loads(re.findall(r"^ENTRYPOINT (.*)$", stage, re.MULTILINE)[0]) for name, stage in stages.items()
    }
    assert begin == ENTRYPOINTS
    assert "USER 10001:10001" in text


def test_the_check_of_health_asks_the_port_that_the_broker_was_given() -> None:
    text = CONTAINERFILE.read_text().replace("\\\n", "")
    _, *command = json.loads(re.findall(r"^HEALTHCHECK .*CMD (.*)$", text, re.MULTILINE)[0])
    asked: list[str] = []

    class Live(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_response(200)
            self.end_headers()

    with HTTPServer(("127.0.0.1", 0), Live) as server:
        threading.Thread(target=server.serve_forever).start()
        codes = [
            subprocess.run(
                [sys.executable, *command],
                env={"DANUBE_PROM_EXPORTER": f"0.0.0.0:{server.server_port}", **more},
                capture_output=True,
                check=False,
            ).returncode
            for more in ({}, {"DANUBE_AUTH_MODE": "tls"})
        ]
        server.shutdown()
    assert (codes, asked) == ([0, 1], ["/health/live"])


def test_locks_of_images_have_a_hash_for_everything() -> None:
    for name in image.TARGETS:
        lock = (ROOT / "requirements" / f"image-{name}.txt").read_text()
        blocks = [block for block in re.split(r"\n(?=[a-z0-9])", lock) if "==" in block.partition("\n")[0]]
        assert len(blocks) > 20
        assert [block.partition(" ")[0] for block in blocks if "--hash=sha256:" not in block] == []


@pytest.fixture(scope="module")
def built() -> Iterator[str]:
    missing = [each for each in ("buildah", "mmdebstrap") if shutil.which(each) is None]
    if missing or os.geteuid() != 0:
        pytest.skip(f"an image is built as root, with {' and '.join(missing) or 'buildah and mmdebstrap'}")
    if not list((ROOT / "build" / "wheels").glob("danube_messaging-*.whl")):
        pytest.skip("build/wheels is empty: `python -m scripts.image --own-base broker` fills it")
    image.make_own_base(ROOT / "build" / "image")
    container = subprocess.run(
        ["buildah", "from", image.build("broker", own_base=True)], stdout=subprocess.PIPE, text=True, check=True
    ).stdout.strip()
    yield container
    subprocess.run(["buildah", "rm", container], stdout=subprocess.PIPE, check=True)


@pytest.mark.nightly
@pytest.mark.cluster
@pytest.mark.timeout(600)
def test_a_broker_from_the_image_serves_and_drains_at_sigterm(built: str, tmp_path: Path) -> None:
    described = json.loads(_told("buildah", "inspect", "--type", "image", f"localhost/danube-broker:{__version__}"))
    assert described["Docker"]["config"]["User"] == "10001:10001"
    sizes = json.loads(_told("buildah", "images", "--json", f"localhost/danube-broker:{__version__}"))
    megabytes = float(sizes[0]["size"].split()[0])
    assert megabytes <= MEGABYTES_MAX, sizes
    port, admin, metrics = free_port(), free_port(), free_port()
    data = tmp_path / "data"
    data.mkdir()
    os.chown(data, 10001, 10001)
    for folder in (tmp_path, *tmp_path.parents[:2]):
        folder.chmod(0o755)
    variables = {
        "DANUBE_DATA_DIR": "/var/lib/danube/data",
        "DANUBE_BROKER_ADDR": f"127.0.0.1:{port}",
        "DANUBE_ADMIN_ADDR": f"127.0.0.1:{admin}",
        "DANUBE_PROM_EXPORTER": f"127.0.0.1:{metrics}",
    }
    given = [word for name, value in variables.items() for word in ("--env", f"{name}={value}")]
    command = [
        "buildah",
        "run",
        "--isolation",
        "chroot",
        "--user",
        "10001:10001",
        "--volume",
        f"{data}:/var/lib/danube",
    ]
    ready = data / "ready.json"
    with (tmp_path / "log").open("wb") as log:
        process = subprocess.Popen(
            [*command, *given, built, "--", "danube-broker", "--ready-file", "/var/lib/danube/ready.json"],
            stdout=log,
            stderr=log,
        )
    try:
        _wait_for(ready, process, tmp_path / "log")
        asyncio.run(_publish_and_consume(f"http://127.0.0.1:{port}"))
        began_s = time.monotonic()
        os.kill(json.loads(ready.read_text())["pid"], signal.SIGTERM)
        assert process.wait(PATIENCE_S) == 0, (tmp_path / "log").read_text()
        assert time.monotonic() - began_s < DRAIN_TIMEOUT_S + 5
    finally:
        process.kill()
        process.wait()


async def _publish_and_consume(url: str) -> None:
    async with await DanubeClientBuilder().service_url(url).build() as client:
        making = client.new_producer().with_topic("/default/image").with_name("p")
        producer = making.with_dispatch_strategy(DispatchStrategy.RELIABLE).build()
        await producer.create()
        reading = client.new_consumer().with_topic("/default/image").with_consumer_name("c").with_subscription("s")
        consumer = reading.with_subscription_type(SubType.EXCLUSIVE).build()
        await consumer.subscribe()
        messages = await consumer.receive()
        await producer.send(b"from an image")
        async with asyncio.timeout(PATIENCE_S):
            message = await messages.get()
        assert message.payload == b"from an image"
        await consumer.ack(message)


def _wait_for(path: Path, process: "subprocess.Popen[bytes]", log: Path) -> None:
    deadline_s = time.monotonic() + PATIENCE_S
    while not path.exists():
        assert process.poll() is None, log.read_text()
        assert time.monotonic() < deadline_s, log.read_text()
        threading.Event().wait(0.05)


def _told(*command: str) -> str:
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
