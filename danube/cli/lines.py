"""Messages out of files: one a line, its bytes kept as they are, the newline left out."""

import asyncio
import os
from collections.abc import AsyncGenerator

from danube.model.errors import MessageTooLargeError
from danube.model.limits.broker import MESSAGE_BYTES_MAX
from danube.model.limits.faces import CLI_READ_BYTES
from danube.runtime.blocking import BlockingRunner


class LineSplitter:
    """Cuts a stream of bytes into lines, holding at most one unfinished line of bounded length."""

    def __init__(self) -> None:
        self._rest: list[bytes] = []
        self._rest_bytes = 0

    def feed(self, chunk: bytes) -> list[bytes]:
        """The lines that `chunk` completes. Raises MessageTooLargeError for one that no message can hold."""
        first, *others = chunk.split(b"\n")
        self._keep(first)
        if not others:
            return []
        lines = [b"".join(self._rest), *others[:-1]]
        self._rest, self._rest_bytes = [], 0
        self._keep(others[-1])
        return lines

    def finish(self) -> list[bytes]:
        """The last line, if it lacks its newline."""
        return [b"".join(self._rest)] if self._rest_bytes else []

    def _keep(self, part: bytes) -> None:
        self._rest.append(part)
        self._rest_bytes += len(part)
        if self._rest_bytes > MESSAGE_BYTES_MAX:
            raise MessageTooLargeError(
                f"a line is longer than the {MESSAGE_BYTES_MAX:,} bytes a message may have: is the input one message "
                "a line?"
            )


async def lines(descriptor: int, thread: BlockingRunner) -> AsyncGenerator[bytes, None]:
    """The lines of an open file, pipe or terminal. Raises MessageTooLargeError, OSError."""
    splitter = LineSplitter()
    while chunk := await _read(descriptor, thread):
        for line in splitter.feed(chunk):
            yield line
    for line in splitter.finish():
        yield line


async def _read(descriptor: int, thread: BlockingRunner) -> bytes:
    """Wait without a thread where nothing may come for long, so that Ctrl-C is heard at once; then read in one."""
    await _wait_readable(descriptor)
    return await thread.run(lambda: os.read(descriptor, CLI_READ_BYTES))


async def _wait_readable(descriptor: int) -> None:
    loop = asyncio.get_running_loop()
    readable = asyncio.Event()
    try:
        loop.add_reader(descriptor, readable.set)
    except PermissionError:
        return  # an ordinary file, which never makes anyone wait
    try:
        await readable.wait()
    finally:
        loop.remove_reader(descriptor)
