"""The serving side of the carrier in memory: who answers which path, and what is under way."""

import asyncio
from collections.abc import Callable, Mapping, Sequence

from danube.model import errors
from danube.model.errors import DanubeError
from danube.rpc.answer import PendingAnswer, status_for
from danube.rpc.carrier import Caller, CarrierOptions, Service, StreamFactory, UnaryHandler
from danube.rpc.memory.stream import MemoryStream
from danube.runtime.clock import Clock
from danube.runtime.tasks import Wakeup
from danube.wire.status import status_of

_METADATA_ENTRY_BYTES = 32  # HTTP/2 counts this much for each entry beside its text


class MemoryCall(PendingAnswer):
    """One unary call in memory."""

    __slots__ = ("caller",)

    def __init__(self, path: str, caller: Caller) -> None:
        super().__init__(path)
        self.caller = caller

    def run(self, handler: UnaryHandler, request: bytes) -> None:
        """Ask the handler, unless the call ended before its turn came."""
        if self.outcome is not None:
            return
        try:
            response = handler(request, self)
        except Exception as error:
            self.settle(status_for(error, self._path))
            return
        if response is not None:
            self.reply(response)


class MemoryServer:
    """The services at one address in memory."""

    def __init__(
        self,
        address: str,
        services: Sequence[Service],
        *,
        clock: Clock,
        options: CarrierOptions,
        on_stop: Callable[["MemoryServer"], None],
    ) -> None:
        self.address = address
        self._clock = clock
        self._options = options
        self._on_stop = on_stop
        self._unary = {_path(service, name): handler for service in services for name, handler in service.unary.items()}
        self._streams = dict[str, StreamFactory]()
        for service in services:
            tables: tuple[Mapping[str, StreamFactory], ...] = (service.server_streams, service.streams)
            self._streams.update({_path(service, name): make for table in tables for name, make in table.items()})
        self._active: set[MemoryCall | MemoryStream] = set()
        self._changed = Wakeup()

    def begin_call(self, path: str, request: bytes, caller: Caller) -> MemoryCall:
        """Take a unary call; its handler is asked in a turn of its own."""
        call = MemoryCall(path, caller)
        refusal = self._refusal(path, self._unary, caller) or self._too_large(request)
        if refusal is not None:
            call.settle(status_of(refusal))
            return call
        self._active.add(call)
        asyncio.get_running_loop().call_soon(call.run, self._unary[path], request)
        return call

    def begin_stream(self, path: str, stream: MemoryStream) -> None:
        """Take a stream; it is opened in a turn of its own."""
        refusal = self._refusal(path, self._streams, stream.caller)
        if refusal is not None:
            stream.refuse(status_of(refusal))
            return
        self._active.add(stream)
        stream.start(self._streams[path])

    def release(self, ended: MemoryCall | MemoryStream) -> None:
        """Forget what ended."""
        self._active.discard(ended)
        self._changed.notify()

    async def stop(self, grace_s: float) -> None:
        self._on_stop(self)
        await self._wait_until_idle(grace_s)
        error = errors.BrokerUnreachableError(f"{self.address} was stopped before it answered: connect again")
        for under_way in tuple(self._active):
            if isinstance(under_way, MemoryStream):
                under_way.lose(error)
            else:
                under_way.lose(status_of(error))
            self.release(under_way)

    async def _wait_until_idle(self, grace_s: float) -> None:
        over: list[bool] = []

        def end_grace() -> None:
            over.append(True)
            self._changed.notify()

        timer = self._clock.call_at(self._clock.monotonic_s() + grace_s, end_grace)
        try:
            while self._active and grace_s > 0 and not over:
                await self._changed.wait()
        finally:
            timer.cancel()

    def _refusal(self, path: str, served: Mapping[str, object], caller: Caller) -> DanubeError | None:
        if path not in served:
            return errors.UnsupportedError(f"{self.address} does not serve {path}")
        if len(self._active) >= self._options.concurrent_calls_max:
            return errors.LimitReachedError("this server has as many calls under way as it takes: try again later")
        size = sum(len(key) + len(text) + _METADATA_ENTRY_BYTES for key, text in caller.metadata.items())
        if size > self._options.metadata_bytes_max:
            return errors.LimitReachedError("the call's metadata is larger than this server takes")
        return None

    def _too_large(self, request: bytes) -> DanubeError | None:
        if len(request) <= self._options.receive_bytes_max:
            return None
        return errors.LimitReachedError("the request is larger than this server takes")


def _path(service: Service, method: str) -> str:
    return f"/{service.name}/{method}"
