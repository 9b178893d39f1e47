import asyncio
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from danube.cli.lines import LineSplitter, lines
from danube.model.errors import MessageTooLargeError
from danube.model.limits.broker import MESSAGE_BYTES_MAX
from danube.runtime.blocking import BlockingThread
from danube.testing.patience import PATIENCE_S
from danube.testing.simulated.clock import settle


@pytest.fixture
def thread() -> Iterator[BlockingThread]:
    thread = BlockingThread("test")
    yield thread
    thread.close()


def split(chunks: list[bytes]) -> list[bytes]:
    splitter = LineSplitter()
    return [line for chunk in chunks for line in splitter.feed(chunk)] + splitter.finish()


@given(st.lists(st.binary(max_size=8).map(lambda part: part.replace(b"\x00", b"\n")), max_size=12))
def test_cutting_into_lines_does_not_depend_on_the_chunks(chunks: list[bytes]) -> None:
    whole = b"".join(chunks).split(b"\n")
    assert split(chunks) == (whole[:-1] if whole[-1] == b"" else whole)


def test_bytes_are_kept_and_an_empty_line_is_an_empty_message() -> None:
    assert split([b"a\r\n\n\xff\x00\nlast"]) == [b"a\r", b"", b"\xff\x00", b"last"]


def test_no_input_is_no_message() -> None:
    assert split([]) == []


def test_a_line_that_no_message_can_hold_is_refused_before_memory_is_full() -> None:
    splitter = LineSplitter()
    splitter.feed(bytes(MESSAGE_BYTES_MAX))
    with pytest.raises(MessageTooLargeError, match="one message a line"):
        splitter.feed(b"\x00")


async def test_a_file_is_read_to_its_end(thread: BlockingThread, tmp_path: Path) -> None:
    path = tmp_path / "in"
    expected = [b"%d" % n for n in range(30_000)]
    path.write_bytes(b"\n".join(expected))
    descriptor = os.open(path, os.O_RDONLY)
    assert [line async for line in lines(descriptor, thread)] == expected
    os.close(descriptor)


async def test_a_pipe_gives_each_line_as_it_comes(thread: BlockingThread) -> None:
    reading, writing = os.pipe()
    source = lines(reading, thread)
    async with asyncio.timeout(PATIENCE_S):
        os.write(writing, b"one\ntw")
        assert await anext(source) == b"one"
        os.write(writing, b"o\n")
        assert await anext(source) == b"two"
        os.close(writing)
        assert [line async for line in source] == []
    os.close(reading)


async def test_waiting_for_a_silent_pipe_can_be_interrupted_at_once(thread: BlockingThread) -> None:
    reading, writing = os.pipe()
    source = lines(reading, thread)
    waiting = asyncio.ensure_future(anext(source))
    await settle()
    waiting.cancel()
    async with asyncio.timeout(PATIENCE_S):
        with pytest.raises(asyncio.CancelledError):
            await waiting
    os.close(reading)
    os.close(writing)
