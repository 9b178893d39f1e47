"""What holds for every call, once: no call while the broker goes down, and each counted by its outcome."""

from collections.abc import Callable, Mapping

from danube.broker.services.context import ServiceContext
from danube.model.errors import DanubeError
from danube.rpc.carrier import Caller, ServerStream, Service, StreamFactory, StreamHandler, UnaryCall, UnaryHandler

_OK = "ok"


def intercept(service: Service, context: ServiceContext) -> Service:
    """The same service, with every handler behind the interceptors."""
    return Service(
        service.name,
        unary={name: _unary(f"{service.name}/{name}", handler, context) for name, handler in service.unary.items()},
        server_streams=_streams(service.name, service.server_streams, context),
        streams=_streams(service.name, service.streams, context),
    )


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


def _streams(service: str, factories: Mapping[str, StreamFactory], context: ServiceContext) -> dict[str, StreamFactory]:
    return {name: _stream(f"{service}/{name}", factory, context) for name, factory in factories.items()}


def _stream(method: str, factory: StreamFactory, context: ServiceContext) -> StreamFactory:
    def open_stream(stream: ServerStream) -> StreamHandler:
        if context.closing is not None:
            context.counts.count(method, context.closing.code)
            raise context.closing
        context.counts.count(method, _OK)
        return factory(stream)

    return open_stream
