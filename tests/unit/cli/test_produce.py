from collections.abc import Iterator
from pathlib import Path

import pytest

from danube.cli.arguments import Access
from danube.cli.produce import ProduceRequest, produce
from danube.client import DanubeClient, DispatchStrategy
from danube.model.errors import (
    DispatchStrategyMismatchError,
    InvalidRequestError,
    MessageTooLargeError,
    PreconditionFailedError,
)
from danube.model.limits.broker import MESSAGE_BYTES_MAX
from danube.runtime.blocking import BlockingThread, InlineRunner
from danube.wire import decode
from tests.unit.client.fake_broker import FakeBroker

TOPIC = "/default/orders"


@pytest.fixture
def thread() -> Iterator[BlockingThread]:
    thread = BlockingThread("test")
    yield thread
    thread.close()


async def test_each_line_of_a_file_is_a_message_in_order(
    client: DanubeClient, broker: FakeBroker, access: Access, thread: BlockingThread, tmp_path: Path
) -> None:
    (tmp_path / "in").write_bytes(b"one\n\xff\x00\r\n\nlast")
    request = ProduceRequest(topic=TOPIC, lines_of=tmp_path / "in", attributes={"k": "v"})
    await produce(client, access, request, thread)
    assert broker.payloads(TOPIC) == [b"one", b"\xff\x00\r", b"", b"last"]
    assert decode.received_message(broker.topics[TOPIC][3]).attributes == {"k": "v"}


async def test_one_message_is_sent_as_often_as_asked(
    client: DanubeClient, broker: FakeBroker, access: Access, thread: BlockingThread
) -> None:
    await produce(client, access, ProduceRequest(topic=TOPIC, message=b"tick", count=3, interval_s=0.001), thread)
    assert broker.payloads(TOPIC) == [b"tick"] * 3


async def test_a_whole_file_is_one_message_spread_over_partitions(
    client: DanubeClient, broker: FakeBroker, access: Access, thread: BlockingThread, tmp_path: Path
) -> None:
    (tmp_path / "blob").write_bytes(b"a\nb\n")
    request = ProduceRequest(topic=TOPIC, whole_file=tmp_path / "blob", count=2, partitions=2)
    await produce(client, access, request, thread)
    assert [broker.payloads(f"{TOPIC}-part-{n}") for n in range(2)] == [[b"a\nb\n"], [b"a\nb\n"]]


@pytest.mark.usefixtures("broker")
async def test_a_file_that_no_message_holds_is_refused_with_its_size(
    client: DanubeClient, access: Access, thread: BlockingThread, tmp_path: Path
) -> None:
    for size in (MESSAGE_BYTES_MAX + 1, 20_000_000):
        with (tmp_path / "blob").open("wb") as file:
            file.truncate(size)
        with pytest.raises(MessageTooLargeError, match=f"blob has {size:,} bytes"):
            await produce(client, access, ProduceRequest(topic=TOPIC, whole_file=tmp_path / "blob"), thread)


async def test_the_end_is_one_line_on_stderr_and_nothing_on_stdout(
    client: DanubeClient,
    broker: FakeBroker,
    access: Access,
    thread: BlockingThread,
    capsys: pytest.CaptureFixture[str],
) -> None:
    await produce(client, access, ProduceRequest(topic=TOPIC, message=b"x" * 2_048, count=2), thread)
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.startswith(f"danube: sent 2 messages (4.0 KiB) to the reliable topic {TOPIC} in ")
    assert told.err.count("\n") == 1


async def test_a_failure_says_how_many_were_confirmed_before(
    client: DanubeClient,
    broker: FakeBroker,
    access: Access,
    thread: BlockingThread,
    capsys: pytest.CaptureFixture[str],
) -> None:
    async with client.new_producer().with_topic(TOPIC).with_name("first").build():
        pass
    broker.refuse_after = 2
    with pytest.raises(InvalidRequestError, match="refused"):
        await produce(client, access, ProduceRequest(topic=TOPIC, message=b"x", count=5), thread)
    assert "sent 2 messages" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("strategy", "other"),
    [(DispatchStrategy.RELIABLE, "--non-reliable"), (DispatchStrategy.NON_RELIABLE, "--reliable")],
)
async def test_a_topic_that_delivers_the_other_way_names_the_option(
    client: DanubeClient, broker: FakeBroker, access: Access, strategy: DispatchStrategy, other: str
) -> None:
    broker.failures["CreateProducer"].append(DispatchStrategyMismatchError("strategies differ"))
    with pytest.raises(PreconditionFailedError, match=f"use {other}$"):
        await produce(client, access, ProduceRequest(topic=TOPIC, message=b"x", strategy=strategy), InlineRunner())


@pytest.mark.usefixtures("broker")
async def test_what_was_sent_of_json_lines_is_their_payloads(
    client: DanubeClient, access: Access, thread: BlockingThread, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "in").write_bytes(b'{"payload": "abc", "topic": "/default/far"}\n' * 2)
    request = ProduceRequest(topic=TOPIC, lines_of=tmp_path / "in", is_json=True)
    await produce(client, access, request, thread)
    assert "sent 2 messages (6 B)" in capsys.readouterr().err


async def test_a_key_goes_to_one_partition_of_a_topic_that_is_there_and_lines_may_have_their_own(
    client: DanubeClient, broker: FakeBroker, access: Access, thread: BlockingThread, tmp_path: Path
) -> None:
    first = ProduceRequest(topic=TOPIC, message=b"first", partitions=2)
    await produce(client, access, first, thread)
    lines = b'{"payload": "a"}\n{"payload": "b"}\n{"payload": "c", "routing_key": "own", "attributes": {"n": "1"}}\n'
    (tmp_path / "in").write_bytes(lines)
    request = ProduceRequest(topic=TOPIC, lines_of=tmp_path / "in", key="k", is_json=True)
    await produce(client, access, request, thread)
    stored = [decode.received_message(each) for part in range(2) for each in broker.topics[f"{TOPIC}-part-{part}"]]
    of_key = {each.payload: (each.routing_key, dict(each.attributes)) for each in stored}
    assert of_key[b"a"] == of_key[b"b"] == ("k", {})
    assert of_key[b"c"] == ("own", {"n": "1"})
    assert any({b"a", b"b"} <= set(broker.payloads(f"{TOPIC}-part-{part}")) for part in range(2))
