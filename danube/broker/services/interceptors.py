"""Interceptors of every call: they refuse it while the broker stops, and count its outcome."""

from collections.abc import Callable, Mapping

from danube.broker.services.call import Call
from danube.broker.services.context import ServiceContext
from danube.model.errors import DanubeError
from danube.rpc.carrier import Caller, ServerStream, Service, StreamFactory, StreamHandler, UnaryCall, UnaryHandler

_OK = "ok"


def services_of(calls: Mapping[str, Mapping[str, Call]], context: ServiceContext) -> list[Service]:
    """Services of catalogue entries, with every handler behind the interceptors."""
    return [_service(name, methods, context) for name, methods in calls.items()]


def _service(name: str, methods: Mapping[str, Call], context: ServiceContext) -> Service:
    unary: dict[str, UnaryHandler] = {}
    server_streams: dict[str, StreamFactory] = {}
    streams: dict[str, StreamFactory] = {}
    for method, call in methods.items():
        path = f"{name}/{method}"
        if call.unary is not None:
            unary[method] = _unary(path, call.unary(context), context)
        if call.server_stream is not None:
            server_streams[method] = _stream(path, call.server_stream(context), context)
        if call.stream is not None:
            streams[method] = _stream(path, call.stream(context), context)
    return Service(name, unary=unary, server_streams=server_streams, streams=streams)


class _CountedCall:
    """A call whose later answer is counted."""

    __slots__ = ("_call", "_count", "_method")

    def __init__(self, call: UnaryCall, method: str, count: Callable[[str, str], None]) -> None:
        self._call = call
        self._method = method
        self._count = count

    @property
    def caller(self) -> Caller:
        return self._call.caller

    def reply(self, response: bytes) -> None:
        self._count(self._method, _OK)
        self._call.reply(response)

    def fail(self, error: DanubeError) -> None:
        self._count(self._method, error.code)
        self._call.fail(error)

    def on_cancel(self, callback: Callable[[], None]) -> None:
        self._call.on_cancel(callback)


def _unary(method: str, handler: UnaryHandler, context: ServiceContext) -> UnaryHandler:
    count = context.counts.count

    def handle(request: bytes, call: UnaryCall) -> bytes | None:
        try:
            if context.closing is not None:
                raise context.closing
            answer = handler(request, _CountedCall(call, method, count))
        except DanubeError as error:
            count(method, error.code)
            raise
        if answer is not None:
            count(method, _OK)
        return answer

    return handle


def _stream(method: str, factory: StreamFactory, context: ServiceContext) -> StreamFactory:
    def open_stream(stream: ServerStream) -> StreamHandler:
        if context.closing is not None:
            context.counts.count(method, context.closing.code)
            raise context.closing
        context.counts.count(method, _OK)
        return factory(stream)

    return open_stream
