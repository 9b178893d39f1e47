"""`danube produce` and `danube consume` as processes, against a real broker process."""

import json
import random
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import pytest

from danube.testing.patience import LONG_S, PATIENCE_S
from danube.testing.processes.broker import BrokerProcess
from tests.cluster.danube_command import Danube

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(180)]


@pytest.fixture(scope="module")
def shared_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path_factory.mktemp("cli") / "data", settings={"ack_timeout_s": round(LONG_S)}) as process:
        yield process


@pytest.fixture
def danube(shared_broker: BrokerProcess, request: pytest.FixtureRequest) -> Danube:
    """A topic on the broker that all tests here share which do not kill it."""
    return Danube(shared_broker, f"/default/{request.node.name}")


@pytest.fixture
def topic(danube: Danube) -> None:
    """A reliable topic with one message, and after it the subscription `s`."""
    danube.with_subscription()


@pytest.fixture
def alone(broker: BrokerProcess) -> Danube:
    """The same on a broker of the test's own."""
    return Danube(broker, "/default/orders").with_subscription()


def pipe(stream: IO[bytes] | None) -> IO[bytes]:
    assert stream is not None
    return stream


@pytest.mark.usefixtures("topic")
def test_bytes_come_out_as_they_went_in_and_in_order(danube: Danube, tmp_path: Path) -> None:
    chance = random.Random(1)
    lines = [chance.randbytes(chance.randrange(200)).replace(b"\n", b"") for _ in range(1_000)]
    data = b"\n".join([*lines, b""])
    (tmp_path / "in").write_bytes(data)
    danube.done("produce", "-t", danube.topic, str(tmp_path / "in"))
    assert danube.done(*danube.raw, "--count", "1000") == data


@pytest.mark.usefixtures("topic")
def test_unordered_loses_nothing(danube: Danube) -> None:
    lines = [b"%d" % number for number in range(2_000)]
    danube.done("produce", "-t", danube.topic, "--unordered", stdin=b"\n".join(lines))
    assert sorted(danube.done(*danube.raw, "--count", "2000").split()) == sorted(lines)


@pytest.mark.usefixtures("topic")
def test_a_subscription_goes_on_where_the_last_consumer_stopped(danube: Danube) -> None:
    danube.done("produce", "-t", danube.topic, stdin=b"1\n2\n3\n4\n5")
    assert danube.done(*danube.raw, "--count", "2") == b"1\n2\n"
    assert danube.done(*danube.raw, "--count", "3", "--no-ack") == b"3\n4\n5\n"
    assert danube.done(*danube.raw, "--count", "3") == b"3\n4\n5\n"
    assert danube.done(*danube.raw, "--idle-timeout-s", "1") == b""


@pytest.mark.usefixtures("topic")
def test_json_carries_attributes_and_offsets(danube: Danube) -> None:
    danube.done("produce", "-t", danube.topic, "-m", "grün", "-a", "source=web", "-c", "2")
    rows = [json.loads(line) for line in danube.done(*danube.raw[:-1], "json", "--count", "2").splitlines()]
    assert [(row["offset"], row["payload"], row["attributes"]) for row in rows] == [
        (1, "grün", {"source": "web"}),
        (2, "grün", {"source": "web"}),
    ]


def test_partitions_are_consumed_together(danube: Danube) -> None:
    danube.done("produce", "-t", danube.topic, "-p", "3", "-m", "before")
    danube.done(*danube.create)
    danube.done("produce", "-t", danube.topic, "-p", "3", stdin=b"1\n2\n3\n4\n5\n6")
    assert sorted(danube.done(*danube.raw, "--count", "6").split()) == [b"1", b"2", b"3", b"4", b"5", b"6"]


def test_an_unknown_topic_exits_4_and_says_how_to_create_it(danube: Danube) -> None:
    assert f"danube produce -t {danube.topic}" in danube.refused(4, *danube.create)


@pytest.mark.usefixtures("topic")
def test_a_topic_that_delivers_the_other_way_names_the_option(danube: Danube) -> None:
    assert "use --reliable" in danube.refused(6, "produce", "-t", danube.topic, "-m", "x", "--non-reliable")


@pytest.mark.usefixtures("topic")
def test_a_message_that_is_too_large_is_refused_with_the_limit(danube: Danube) -> None:
    assert "4,190,208" in danube.refused(2, "produce", "-t", danube.topic, stdin=bytes(5_000_000))


@pytest.mark.usefixtures("topic")
def test_a_busy_exclusive_subscription_exits_6(danube: Danube) -> None:
    exclusive = ("consume", "-t", danube.topic, "-s", "mine", "--sub-type", "exclusive", "-o", "raw")
    danube.done(*exclusive, "-n", "one", "--count", "0")
    with danube.start(*exclusive, "-n", "one") as first:
        danube.done("produce", "-t", danube.topic, "-m", "x")
        assert pipe(first.stdout).readline() == b"x\n"
        assert "mine" in danube.refused(6, *exclusive, "-n", "two")
        first.kill()


@pytest.mark.usefixtures("topic")
def test_interrupted_it_exits_130_with_what_it_wrote_acknowledged(danube: Danube) -> None:
    with danube.start(*danube.raw) as consuming:
        danube.done("produce", "-t", danube.topic, stdin=b"1\n2\n3")
        assert [pipe(consuming.stdout).readline() for _ in range(3)] == [b"1\n", b"2\n", b"3\n"]
        consuming.send_signal(signal.SIGINT)
        rest, said = consuming.communicate(timeout=PATIENCE_S)
    assert (consuming.returncode, rest) == (130, b"")
    assert said.decode() == f"danube: received 3 messages from {danube.topic}\n"
    danube.done("produce", "-t", danube.topic, "-m", "4")
    assert danube.done(*danube.raw, "--count", "1") == b"4\n"


def test_producing_is_interrupted_while_it_waits_for_input(danube: Danube) -> None:
    with danube.start("produce", "-t", danube.topic) as producing:
        pipe(producing.stdin).write(b"one\n")
        pipe(producing.stdin).flush()
        while danube(*danube.create).returncode:
            pass
        producing.send_signal(signal.SIGINT)
        assert producing.wait(PATIENCE_S) == 130
        assert b"Traceback" not in pipe(producing.stderr).read()


@pytest.mark.usefixtures("topic")
def test_a_reader_that_leaves_ends_it_quietly(danube: Danube) -> None:
    danube.done("produce", "-t", danube.topic, "--unordered", stdin=b"x" * 500 + b"\n" + b"y\n" * 3_000)
    with danube.start(*danube.raw, "-q") as consuming:
        assert pipe(consuming.stdout).readline() == b"x" * 500 + b"\n"
        pipe(consuming.stdout).close()
        assert consuming.wait(PATIENCE_S) == 0
        assert pipe(consuming.stderr).read() == b""


def test_both_commands_survive_a_broker_that_is_killed_and_comes_back(alone: Danube, broker: BrokerProcess) -> None:
    received: set[bytes] = set()
    with (
        alone.start("produce", "-t", alone.topic) as producing,
        alone.start(*alone.raw, "--idle-timeout-s", f"{PATIENCE_S:g}") as consuming,
    ):
        for number in range(40):
            pipe(producing.stdin).write(b"%d\n" % number)
            pipe(producing.stdin).flush()
            if number % 10 == 5:
                received.add(pipe(consuming.stdout).readline())
                broker.kill()
                broker.start()
        pipe(producing.stdin).close()
        assert producing.wait(PATIENCE_S) == 0, pipe(producing.stderr).read().decode()
        expected = {b"%d\n" % number for number in range(40)}
        while not expected <= received:
            line = pipe(consuming.stdout).readline()
            assert line, (len(received), pipe(consuming.stderr).read().decode())
            received.add(line)
        consuming.kill()


def test_a_broker_that_stays_away_is_named_after_the_time_that_was_given(alone: Danube, broker: BrokerProcess) -> None:
    with alone.start(*alone.raw, "--retry-for-s", "2") as consuming:
        alone.done("produce", "-t", alone.topic, "-m", "x")
        assert pipe(consuming.stdout).readline() == b"x\n"
        broker.kill()
        assert consuming.wait(PATIENCE_S) == 5
        said = pipe(consuming.stderr).read().decode()
    assert f"no broker answers at {broker.endpoints.service_url}" in said
    assert "Traceback" not in said


@pytest.mark.parametrize(
    ("part", "flags", "has_latency"),
    [
        ("produce", ("--compression", "lz4"), False),
        ("consume", ("--compression", "zstd"), False),
        ("consume", ("--single-calls",), False),
        ("end-to-end", (), True),
        ("end-to-end", ("--rate", "5000"), True),
    ],
)
def test_a_bench_counts_and_judges(danube: Danube, part: str, flags: tuple[str, ...], has_latency: bool) -> None:
    topic = f"/default/bench-{part}"
    said = danube.done("bench", part, "-t", topic, "--messages", "500", "--size", "100", *flags).decode().splitlines()
    assert said[0].startswith(f"{part}: 500 messages of 100 bytes in ")
    assert "messages a second" in said[1]
    assert ("latency in ms: p50 " in "".join(said)) is has_latency
    if part != "produce":
        assert said[-1] == "  lost 0, repeated 0, out of order 0"


def test_a_bench_that_cannot_be_is_refused(danube: Danube) -> None:
    assert "use produce, consume, end-to-end" in danube.refused(2, "bench", "sideways")
    assert "larger --size" in danube.refused(2, "bench", "--size", "3")
    assert "use kafka://, nats://, redis://" in danube.refused(2, "bench", "--compare", "mqtt://127.0.0.1:1883")
