"""What a client received and did not read yet: order, bounds, and the end after the last message."""

import asyncio

import pytest

from danube.model.errors import CancelledError, NotFoundError
from danube.rpc.carrier import CarrierOptions
from danube.rpc.inbox import Inbox
from danube.testing.patience import PATIENCE_S


def inbox_of(messages_max: int = 2, bytes_max: int = 100) -> Inbox:
    return Inbox(CarrierOptions(inbound_messages_max=messages_max, inbound_bytes_max=bytes_max))


async def test_messages_come_before_the_end() -> None:
    inbox = inbox_of()
    inbox.put(b"a")
    inbox.end(None)
    assert [await inbox.get(), await inbox.get(), await inbox.get()] == [b"a", None, None]


async def test_messages_come_before_the_error_and_the_first_end_counts() -> None:
    inbox = inbox_of()
    inbox.put(b"a")
    inbox.end(NotFoundError("first"))
    inbox.end(None)
    assert await inbox.get() == b"a"
    for _ in range(2):
        with pytest.raises(NotFoundError, match="first"):
            await inbox.get()


async def test_dropped_inbox_delivers_nothing_more() -> None:
    inbox = inbox_of()
    inbox.put(b"a")
    inbox.drop(CancelledError("gone"))
    with pytest.raises(CancelledError):
        await inbox.get()
    assert not inbox.full


async def test_inbox_is_full_by_messages_or_bytes_until_one_is_read() -> None:
    by_messages, by_bytes = inbox_of(), inbox_of()
    by_messages.put(b"")
    by_bytes.put(bytes(99))
    assert (by_messages.full, by_bytes.full) == (False, False)
    by_messages.put(b"")
    by_bytes.put(b"x")
    assert (by_messages.full, by_bytes.full) == (True, True)
    await by_messages.get()
    await by_bytes.get()
    assert (by_messages.full, by_bytes.full) == (False, False)


async def test_waiting_reader_gets_what_comes() -> None:
    inbox = inbox_of()
    reading = asyncio.create_task(inbox.get())
    await asyncio.sleep(0)  # so that it waits
    inbox.put(b"a")
    assert await asyncio.wait_for(reading, PATIENCE_S) == b"a"


async def test_waiting_reader_learns_of_the_end() -> None:
    inbox = inbox_of()
    reading = asyncio.create_task(inbox.get())
    await asyncio.sleep(0)  # so that it waits
    inbox.end(NotFoundError("no"))
    with pytest.raises(NotFoundError):
        await asyncio.wait_for(reading, PATIENCE_S)
