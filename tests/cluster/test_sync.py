"""`danube.sync` against a real broker process: as a script uses it, and from several threads."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from danube.client import Message
from danube.model.errors import TopicNotFoundError, UnrecoverableError
from danube.model.subscription import SubscriptionType
from danube.sync import Client
from danube.testing.patience import LONG_S, PATIENCE_S
from danube.testing.processes.broker import BrokerProcess

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(180)]

ROOT = Path(__file__).parents[2]
WAITS_FOR_EVER = """
import sys
from danube.sync import Client

with Client(sys.argv[1]) as client:
    client.producer("/default/silent", "p").close()
    with client.consumer("/default/silent", "s") as consumer:
        print("waits", flush=True)
        for message in consumer:
            consumer.ack(message)
"""


@pytest.fixture(scope="module")
def service_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with BrokerProcess(tmp_path_factory.mktemp("sync") / "data", settings={"ack_timeout_s": round(LONG_S)}) as process:
        yield process.endpoints.service_url


def test_script_sends_receives_and_acknowledges(service_url: str) -> None:
    with Client(service_url) as client:
        with client.producer("/default/script", "p") as producer:
            with client.consumer("/default/script", "s", subscription_type=SubscriptionType.EXCLUSIVE) as consumer:
                producer.send(b"0", {"a": "b"})
                producer.send(b"1", key="k")
                assert producer.send_many(b"%d" % number for number in range(2, 50)) == 48
                assert producer.send_many_with_keys(("k", b"%d" % number) for number in range(50, 100)) == 50
                first = consumer.receive(timeout_s=PATIENCE_S)
                assert first is not None
                assert (first.payload, first.attributes) == (b"0", {"a": "b"})
                consumer.ack(first)
                second = next(iter(consumer))
                consumer.nack(second, delay_ms=0)
                found: list[Message] = []
                while len(found) < 99:
                    found += consumer.receive_many(timeout_s=PATIENCE_S)
                assert {int(each.payload) for each in found} == set(range(1, 100))
                consumer.ack_many(found[:10])
                consumer.ack_up_to(max(found, key=lambda each: each.offset))
                assert consumer.receive_many(timeout_s=0.01) == []
            with client.consumer("/default/script", "s", subscription_type=SubscriptionType.EXCLUSIVE) as again:
                assert again.receive(timeout_s=0.01) is None
        with pytest.raises(TopicNotFoundError):
            client.consumer("/default/absent", "s")
    producer.close()
    client.close()
    with pytest.raises(UnrecoverableError, match="closed"):
        producer.send(b"late")


def test_documented_script_runs(service_url: str) -> None:
    page = (ROOT / "docs" / "clients.md").read_text(encoding="utf-8")
    _, _, script = page.partition("```python\n")
    names: dict[str, Any] = {}
    exec(script.partition("```")[0], names)
    names["run"](service_url)
    with Client(service_url) as client, client.consumer("/default/orders", "billing") as consumer:
        assert consumer.receive_many(timeout_s=0.01) == []


def test_threads_share_a_client(service_url: str) -> None:
    threads, each = 8, 50
    with (
        Client(service_url) as client,
        client.producer("/default/threads", "p") as producer,
        client.consumer("/default/threads", "s") as consumer,
        ThreadPoolExecutor(threads + 1) as pool,
    ):

        def receive() -> set[bytes]:
            got: set[bytes] = set()
            while len(got) < threads * each:
                found = consumer.receive_many(timeout_s=PATIENCE_S)
                consumer.ack_many(found)
                got.update(message.payload for message in found)
            return got

        def send(thread: int) -> None:
            for number in range(each):
                producer.send(b"%d-%d" % (thread, number))

        receiving = pool.submit(receive)
        list(pool.map(send, range(threads)))
        assert len(receiving.result(PATIENCE_S)) == threads * each


def test_ctrl_c_ends_a_script_that_waits(service_url: str) -> None:
    command = [sys.executable, "-c", WAITS_FOR_EVER, service_url]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=ROOT) as script:
        assert script.stdout is not None
        assert script.stdout.readline() == b"waits\n"
        script.send_signal(signal.SIGINT)
        _, said = script.communicate(timeout=PATIENCE_S)
    assert script.returncode == -signal.SIGINT
    assert said.decode().strip().endswith("KeyboardInterrupt")
