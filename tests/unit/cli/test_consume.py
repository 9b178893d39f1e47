import asyncio
from collections.abc import Callable
from typing import TypeVar

import pytest

from danube.cli.arguments import Access
from danube.cli.consume import ConsumeRequest, Sink, consume
from danube.cli.render import OutputFormat
from danube.client import DanubeClient
from danube.model.errors import TopicNotFoundError
from danube.runtime.blocking import InlineRunner
from danube.testing.patience import PATIENCE_S
from tests.unit.client.fake_broker import FakeBroker
from tests.unit.client.test_consumer import publish

TOPIC = "/default/orders"
T = TypeVar("T")


class Output:
    """Keeps what is written, and what was acknowledged by then."""

    def __init__(self, broker: FakeBroker) -> None:
        self.broker = broker
        self.data = b""
        self.acknowledged_by_then: list[set[int]] = []
        self.wrote = asyncio.Event()

    def write(self, data: bytes) -> None:
        self.acknowledged_by_then.append(set(self.broker.subscriptions[TOPIC, "s"].acknowledged))
        self.data += data
        self.wrote.set()


def request(**changes: object) -> ConsumeRequest:
    plain = {"topic": TOPIC, "subscription": "s", "consumer_name": "c", "output": OutputFormat.RAW}
    return ConsumeRequest(**{**plain, **changes})  # type: ignore[arg-type]


async def test_exactly_the_count_is_written_and_acknowledged_after_that(
    client: DanubeClient, broker: FakeBroker, access: Access
) -> None:
    publish(broker, *[b"%d" % n for n in range(10)])
    output = Output(broker)
    assert await consume(client, access, request(count=3), Sink(output.write, InlineRunner())) == 3
    assert output.data == b"0\n1\n2\n"
    assert output.acknowledged_by_then[0] == set()
    assert broker.subscriptions[TOPIC, "s"].acknowledged == {0, 1, 2}


async def test_a_count_of_0_creates_the_subscription_and_receives_nothing(
    client: DanubeClient, broker: FakeBroker, access: Access, capsys: pytest.CaptureFixture[str]
) -> None:
    publish(broker, b"x")
    output = Output(broker)
    assert await consume(client, access, request(count=0), Sink(output.write, InlineRunner())) == 0
    assert broker.calls.count("Subscribe") == 1
    assert "ReceiveMessages" not in broker.calls
    assert "subscription s is there" in capsys.readouterr().err


async def test_silence_ends_it_when_that_was_asked_for(
    client: DanubeClient, broker: FakeBroker, access: Access
) -> None:
    publish(broker, b"x")
    for idle_timeout_s in (0.05, 1.0, 20.0):  # the first may be over before a machine that stands still delivers
        output = Output(broker)
        request_s = request(idle_timeout_s=idle_timeout_s)
        if await consume(client, access, request_s, Sink(output.write, InlineRunner())):
            break
    assert output.data == b"x\n"


async def test_without_acknowledgement_everything_comes_again(
    client: DanubeClient, broker: FakeBroker, access: Access
) -> None:
    publish(broker, b"x")
    for _ in range(2):
        output = Output(broker)
        await consume(client, access, request(count=1, acknowledge=False), Sink(output.write, InlineRunner()))
        assert output.data == b"x\n"
    assert "Ack" not in broker.calls


async def test_interrupted_it_has_acknowledged_what_was_written(
    client: DanubeClient, broker: FakeBroker, access: Access
) -> None:
    publish(broker, b"a", b"b")
    output = Output(broker)
    consuming = asyncio.create_task(consume(client, access, request(), Sink(output.write, InlineRunner())))
    async with asyncio.timeout(PATIENCE_S):
        while output.data != b"a\nb\n":
            output.wrote.clear()
            await output.wrote.wait()
        consuming.cancel()
        with pytest.raises(asyncio.CancelledError):
            await consuming
    assert broker.subscriptions[TOPIC, "s"].acknowledged == {0, 1}


class InterruptedRunner(InlineRunner):
    """Ctrl-C comes while it works; as promised, the work is finished first."""

    async def run(self, work: Callable[[], T]) -> T:
        work()
        raise asyncio.CancelledError


async def test_interrupted_while_writing_it_has_acknowledged_what_was_written(
    client: DanubeClient, broker: FakeBroker, access: Access
) -> None:
    publish(broker, b"a", b"b")
    with pytest.raises(asyncio.CancelledError):
        await consume(client, access, request(count=2), Sink(Output(broker).write, InterruptedRunner()))
    assert broker.subscriptions[TOPIC, "s"].acknowledged == {0}  # the first call gives one message


async def test_what_could_not_be_written_is_not_acknowledged(
    client: DanubeClient, broker: FakeBroker, access: Access
) -> None:
    publish(broker, b"x")

    def write(data: bytes) -> None:
        raise BrokenPipeError

    with pytest.raises(BrokenPipeError):
        await consume(client, access, request(), Sink(write, InlineRunner()))
    assert "Ack" not in broker.calls


async def test_an_unknown_topic_says_how_to_create_it(client: DanubeClient, broker: FakeBroker, access: Access) -> None:
    with pytest.raises(TopicNotFoundError, match="danube produce -t /default/orders"):
        await consume(client, access, request(), Sink(Output(broker).write, InlineRunner()))
