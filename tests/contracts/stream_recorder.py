"""A stream service that records what its handlers are told and does as a test says, and a client's bounded waits."""

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress

from danube.rpc.carrier import ClientStream, ServerStream, Service, StreamFactory, StreamHandler
from danube.testing.patience import PATIENCE_S

PATH = "/test.Things/Watch"
SOON_S = PATIENCE_S
"""For what is going to happen."""
BLOCKED_S = 0.3
"""For what must not happen; either carrier has moved long before what it would move."""
KIB = 1024

Reaction = Callable[["Recorder"], None]


class Recorder:
    """A handler that keeps what it was told, in order."""

    def __init__(self, stream: ServerStream, reactions: Mapping[str, Reaction]) -> None:
        self.stream = stream
        self.told: list[str] = []
        self.messages: list[bytes] = []
        self._reactions = reactions
        self._waiters: list[tuple[str, int, asyncio.Event]] = []

    def on_message(self, message: bytes) -> None:
        self.messages.append(message)
        self._tell("message")

    def on_half_close(self) -> None:
        self._tell("half_close")

    def on_ready(self) -> None:
        self._tell("ready")

    def on_cancel(self) -> None:
        self._tell("cancel")

    async def until(self, event: str, times: int = 1) -> None:
        """Return once `event` was told that often."""
        reached = asyncio.Event()
        self._waiters.append((event, times, reached))
        self._wake()
        async with asyncio.timeout(SOON_S):
            await reached.wait()

    def _tell(self, event: str) -> None:
        self.told.append(event)
        self._wake()
        if event in self._reactions:
            self._reactions[event](self)

    def _wake(self) -> None:
        for event, times, reached in self._waiters:
            if self.told.count(event) >= times:
                reached.set()


class Watched:
    """A service with one stream method. A reaction is called with the recorder after it was told of the event."""

    def __init__(
        self, *, both_ways: bool = False, reactions: Mapping[str, Reaction] | None = None, **more: Reaction
    ) -> None:
        self._reactions = {**(reactions or {}), **more}
        self._changed = asyncio.Event()
        self._recorders: list[Recorder] = []
        methods: dict[str, StreamFactory] = {"Watch": self._open}
        self.service = (
            Service("test.Things", streams=methods) if both_ways else Service("test.Things", server_streams=methods)
        )

    async def recorder(self, number: int = 0) -> Recorder:
        """That of a stream by the order of their opening."""
        async with asyncio.timeout(SOON_S):
            while len(self._recorders) <= number:
                self._changed.clear()
                await self._changed.wait()
        return self._recorders[number]

    async def is_opened(self) -> bool:
        """Whether a stream arrives within a moment."""
        with suppress(TimeoutError):
            async with asyncio.timeout(1.0):
                await self.recorder()
        return bool(self._recorders)

    def _open(self, stream: ServerStream) -> StreamHandler:
        recorder = Recorder(stream, self._reactions)
        if "open" in self._reactions:
            self._reactions["open"](recorder)
        self._recorders.append(recorder)
        self._changed.set()
        return recorder


async def receive(stream: ClientStream) -> bytes | None:
    async with asyncio.timeout(SOON_S):
        return await stream.receive()


async def receive_all(stream: ClientStream) -> list[bytes]:
    messages = []
    while (message := await receive(stream)) is not None:
        messages.append(message)
    return messages


async def opened(stream: ClientStream) -> None:
    async with asyncio.timeout(SOON_S):
        await stream.opened()


async def stays_blocked(task: "asyncio.Task[None]") -> bool:
    """Whether `task` is still under way after a while; it goes on."""
    _, left = await asyncio.wait([task], timeout=BLOCKED_S)
    return bool(left)


async def is_not_told(recorder: Recorder, event: str, times: int = 1) -> bool:
    with suppress(TimeoutError):
        async with asyncio.timeout(BLOCKED_S):
            await recorder.until(event, times)
    return recorder.told.count(event) < times


async def send_until_it_fails(stream: ClientStream) -> None:
    async with asyncio.timeout(SOON_S):
        while True:
            await stream.send(bytes(KIB))
            await asyncio.sleep(0)


def answers(*messages: bytes) -> Reaction:
    def react(recorder: Recorder) -> None:
        for message in messages:
            recorder.stream.write(message)
        recorder.stream.finish()

    return react


def raises(error: Exception) -> Reaction:
    def react(recorder: Recorder) -> None:
        raise error

    return react


def opens(recorder: Recorder) -> None:
    recorder.stream.open()


def echoes(recorder: Recorder) -> None:
    recorder.stream.write(recorder.messages[-1])


def finishes(recorder: Recorder) -> None:
    recorder.stream.finish()
