"""A message that the published client cannot handle, under each failure policy, set by danube-admin."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from danube.testing.process import BrokerProcess

pytestmark = [pytest.mark.cluster, pytest.mark.slow, pytest.mark.timeout(120)]

PROGRAM = Path(__file__).parent / "wheel" / "poison_program.py"
ADMIN = Path(sys.executable).with_name("danube-admin")
TOPIC, DEAD = "/default/orders", "/default/orders-dead"


def administer(broker: BrokerProcess, *words: str) -> None:
    subprocess.run([ADMIN, *words, "--endpoint", broker.endpoints.admin_url], check=True, timeout=30)


def set_policy(broker: BrokerProcess, poison: str, *more: str, ack_timeout_ms: int = 30_000) -> None:
    delays = ["--base-redelivery-delay-ms", "10", "--max-redelivery-delay-ms", "50"]
    rules = ["--max-redelivery-count", "1", "--ack-timeout-ms", str(ack_timeout_ms), "--poison-policy", poison]
    administer(broker, "topics", "set-failure-policy", TOPIC, "-s", "s", *rules, *delays, *more)


class Consumer:
    """The wheel's process."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        assert self.read() == "ready"

    def read(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()

    def go_on(self) -> str:
        assert self._process.stdin is not None
        self._process.stdin.write("go\n")
        self._process.stdin.flush()
        return self.read()


@pytest.fixture
def consumer(broker: BrokerProcess, wheel_python: Path) -> Iterator[Consumer]:
    with wheel(broker, wheel_python) as found:
        yield found


@contextmanager
def wheel(broker: BrokerProcess, wheel_python: Path) -> Iterator[Consumer]:
    command = [str(wheel_python), "-I", str(PROGRAM), broker.endpoints.service_url, TOPIC, DEAD]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, text=True) as process:
        try:
            yield Consumer(process)
        finally:
            process.kill()


def test_a_dead_letter_goes_to_its_topic_and_says_where_it_comes_from(
    broker: BrokerProcess, consumer: Consumer
) -> None:
    set_policy(broker, "dead-letter", "--dead-letter-topic", DEAD)
    got = json.loads(consumer.go_on())
    assert (got.count("bad"), [each for each in got if each != "bad"]) == (2, ["good-0", "good-1", "late"])
    later, dead = json.loads(consumer.go_on())
    assert later == []
    assert [payload for payload, _ in dead] == ["bad"]
    origin = dead[0][1]
    assert (origin["x-original-topic"], origin["x-failure-reason"]) == (TOPIC, "cannot be read")


def test_a_dropped_message_is_gone_and_all_goes_on(broker: BrokerProcess, consumer: Consumer) -> None:
    set_policy(broker, "drop")
    got = json.loads(consumer.go_on())
    assert (got.count("bad"), [each for each in got if each != "bad"]) == (2, ["good-0", "good-1", "late"])
    assert json.loads(consumer.go_on()) == [[], []]


def test_a_blocking_message_holds_up_what_is_new_until_it_is_retried(broker: BrokerProcess, consumer: Consumer) -> None:
    set_policy(broker, "block")
    got = json.loads(consumer.go_on())
    assert (got.count("bad"), [each for each in got if each != "bad"]) == (2, ["good-0", "good-1"])
    administer(broker, "topics", "retry-blocked", TOPIC, "-s", "s")
    later, dead = json.loads(consumer.go_on())
    assert (sorted(later), dead) == (["bad", "late"], [])
