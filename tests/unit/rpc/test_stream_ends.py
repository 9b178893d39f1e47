"""A stream that has ended, in whatever way, is freed by counting references alone, without the garbage collector."""

from collections.abc import AsyncIterator, Callable, Iterator

import pytest

from danube.model import errors
from danube.model.errors import DanubeError
from danube.rpc.carrier import Channel, ClientStream, ServerStream, Service, StreamHandler
from danube.rpc.grpc.carrier import GrpcCarrier
from danube.runtime.clock import SystemClock
from tests.unit.freed import Freed, uncollected

KIB = 1024


class Watched:
    """A handler that does as the first message says."""

    def __init__(self, stream: ServerStream, freed: "Freed") -> None:
        self._stream = stream
        freed.watch(self, stream)

    def on_message(self, message: bytes) -> None:
        if message == b"refuse":
            raise errors.ConsumerNotFoundError("no such consumer")
        while message == b"fill" and self._stream.room > 0:
            self._stream.write(bytes(64 * KIB))
        if message == b"fail":
            self._stream.fail(errors.TopicNotServedError("moved"))
        if message == b"finish":
            self._stream.finish()

    def on_half_close(self) -> None:
        return None

    def on_ready(self) -> None:
        return None

    def on_cancel(self) -> None:
        return None


@pytest.fixture(autouse=True)
def _without_collection() -> Iterator[None]:
    with uncollected():
        yield


@pytest.fixture
async def freed() -> Freed:
    return Freed()


@pytest.fixture
async def channel(freed: Freed) -> AsyncIterator[Channel]:
    def handler(stream: ServerStream) -> StreamHandler:
        return Watched(stream, freed)

    carrier = GrpcCarrier(SystemClock())
    service = Service("test.Things", server_streams={"Watch": handler}, streams={"Talk": handler})
    server = await carrier.serve("127.0.0.1:0", [service])
    channel = carrier.connect(server.address)
    yield channel
    await channel.close()
    await server.stop(0)


def watch(channel: Channel, wanted: bytes) -> ClientStream:
    return channel.server_stream("/test.Things/Watch", wanted)


async def talk(channel: Channel, wanted: bytes) -> ClientStream:
    stream = channel.stream("/test.Things/Talk")
    await stream.send(wanted)
    return stream


@pytest.mark.parametrize("wanted", [b"refuse", b"fail", b"finish"])
async def test_a_stream_that_its_server_ended_is_freed_at_once(channel: Channel, freed: Freed, wanted: bytes) -> None:
    for stream in (watch(channel, wanted), await talk(channel, wanted)):
        try:
            assert await stream.receive() is None
        except DanubeError:
            assert wanted != b"finish"
    await freed.all(4)


@pytest.mark.parametrize("leave", [lambda stream: stream.cancel(), lambda _: None], ids=["cancelled", "disconnected"])
async def test_a_stalled_stream_whose_client_left_is_freed_at_once(
    channel: Channel, freed: Freed, leave: Callable[[ClientStream], None]
) -> None:
    for stream in (watch(channel, b"fill"), await talk(channel, b"fill")):
        assert await stream.receive() == bytes(64 * KIB)
        leave(stream)
    await channel.close()
    await freed.all(4)
