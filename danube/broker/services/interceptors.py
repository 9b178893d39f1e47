"""Interceptors of every call: refuse it while the broker stops, authorize it, count its outcome."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import TypeVar

from danube.broker.rates.metering import Find, metered, metered_stream
from danube.broker.rates.quotas import Account
from danube.broker.security.current import ActingAs, current_principal
from danube.broker.security.gate import Check, Gate
from danube.broker.services.call import Action, Call, FindTargets
from danube.broker.services.context import ServiceContext
from danube.broker.services.recording import CallRecorder
from danube.model.errors import CancelledError, DanubeError, InternalError, NotPermittedError, StorageUnavailableError
from danube.model.limits.broker import ADMIN_STORE_LOOK_S, ADMIN_STORE_WAIT_S
from danube.model.plans.plan import Effect
from danube.model.security.grants import Permission
from danube.model.security.principal import Principal, PrincipalKind
from danube.rpc.carrier import Caller, ServerStream, Service, StreamFactory, StreamHandler, UnaryCall, UnaryHandler
from danube.runtime.clock import TimerHandle
from danube.security.decision import CLUSTER

T = TypeVar("T")

_OK = "ok"
_METERED = {Action.PRODUCE, Action.CONSUME}
"""Actions whose streams count for quotas."""


def services_of(calls: Mapping[str, Mapping[str, Call]], context: ServiceContext, *, is_admin: bool) -> list[Service]:
    """Services of catalogue entries, with every handler behind the interceptors.

    Calls of administration are answered though the object store is not: applications decide how long they wait.

    Raises TypeError for an entry that is not whole: no broker starts with it.
    """
    for name, methods in calls.items():
        for method, call in methods.items():
            if problem := call.problem():
                raise TypeError(f"{name}/{method}: {problem}")
    return [_service(name, methods, context, is_admin=is_admin) for name, methods in calls.items()]


def _service(name: str, methods: Mapping[str, Call], context: ServiceContext, *, is_admin: bool) -> Service:
    unary: dict[str, UnaryHandler] = {}
    server_streams: dict[str, StreamFactory] = {}
    streams: dict[str, StreamFactory] = {}
    for method, call in methods.items():
        path = f"{name}/{method}"
        if call.unary is not None:
            handler = _authorized(path, call, context)
            if is_admin and call.action is not Action.REPLICATE:
                handler = _watched(call, handler, context)
            unary[method] = _unary(path, handler, context)
        if call.server_stream is not None:
            server_streams[method] = _stream(path, call, call.server_stream(context), context)
        if call.stream is not None:
            streams[method] = _stream(path, call, call.stream(context), context)
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


class _AdminCall:
    """A call of administration, ended with the reason when it waits for an object store that does not answer.

    What it began goes on, and its late answer is dropped.
    """

    __slots__ = ("_call", "_context", "_effect_of", "_is_over", "_timer")

    def __init__(self, call: UnaryCall, context: ServiceContext, effect_of: Callable[[], Effect]) -> None:
        self._call = call
        self._context = context
        self._effect_of = effect_of
        self._is_over = False
        self._timer: TimerHandle | None = None

    @property
    def caller(self) -> Caller:
        return self._call.caller

    def reply(self, response: bytes) -> None:
        if self._ends():
            self._call.reply(response)

    def fail(self, error: DanubeError) -> None:
        if self._ends():
            self._call.fail(error)

    def on_cancel(self, callback: Callable[[], None]) -> None:
        self._call.on_cancel(callback)

    def watch(self, after_s: float = ADMIN_STORE_WAIT_S) -> None:
        """Look at the store then, and now and then until there is an answer."""
        clock = self._context.clock
        if not self._is_over and not self._context.tasks.closed:
            self._timer = clock.call_at(clock.monotonic_s() + after_s, self._look)

    def _look(self) -> None:
        reason = self._context.silence()
        if reason is None:
            self.watch(ADMIN_STORE_LOOK_S)
            return
        outcome = "" if self._effect_of() is Effect.READ else " What was asked for may still be done: look then."
        self.fail(
            StorageUnavailableError(
                f"{reason}: try again once it does. Check object_store.endpoint and the network.{outcome}"
            )
        )

    def _ends(self) -> bool:
        """True for the first answer."""
        if self._timer is not None:
            self._timer.cancel()
        is_first, self._is_over = not self._is_over, True
        return is_first


def _watched(call: Call, handler: UnaryHandler, context: ServiceContext) -> UnaryHandler:
    """The handler of a call of administration, which waits for an object store a moment only."""

    def handle(request: bytes, unary: UnaryCall) -> bytes | None:
        watched = _AdminCall(unary, context, partial(call.effect_of, request))
        answer = handler(request, watched)
        if answer is None:
            watched.watch()
        return answer

    return handle


def _authorized(method: str, call: Call, context: ServiceContext) -> UnaryHandler:
    """The handler behind the gate of this broker, if it has one."""
    assert call.unary is not None  # noqa: S101 - its caller has looked
    recorder = CallRecorder(method, call, context)
    handler = recorder.recorded(_metered(call, context))
    if call.action is Action.EVERYBODY:
        return handler
    check = _checker(call, context)

    def handle(request: bytes, unary: UnaryCall) -> bytes | None:
        gate = context.gate
        if gate is None:
            return handler(request, unary)
        principal = gate.principal_of(unary.caller)
        with ActingAs(principal):
            try:
                check(gate, principal, request)
            except NotPermittedError as error:
                recorder.refuse(request, unary, error)
                raise
            return handler(request, unary)

    return handle


def _metered(call: Call, context: ServiceContext) -> UnaryHandler:
    assert call.unary is not None  # noqa: S101 - its caller has looked
    handler = call.unary(context)
    if call.action is not Action.PRODUCE or call.targets is None or not context.quotas.is_on:
        return handler
    return metered(handler, _accounts_of(call.targets, context), context.clock)


def _accounts_of(find: FindTargets, context: ServiceContext) -> Find:
    def accounts(request: bytes) -> list[Account]:
        principal = current_principal()
        is_counted = principal is not None and principal.id.kind is not PrincipalKind.BROKER
        namespaces = (target.namespace for target in find(context, request))
        return context.quotas.accounts(str(principal) if is_counted else "", namespaces, context.clock.monotonic_s())

    return accounts


def _checker(call: Call, context: ServiceContext) -> Callable[[Gate, Principal, bytes], None]:
    """A check that raises NotPermittedError unless the principal may do the call to all that its request names."""
    if call.authorize is not None:
        return call.authorize
    if call.action is Action.ANY_CALLER:
        return lambda _gate, _principal, _request: None
    permission, effect_of, find = Permission(call.action), call.effect_of, call.targets

    def check(gate: Gate, principal: Principal, request: bytes) -> None:
        gate.check(principal, permission, effect_of(request), (CLUSTER,) if find is None else find(context, request))

    return check


def _stream_checker(call: Call, context: ServiceContext) -> Callable[[Gate, Principal, bytes], Check]:
    """A check of a stream's first message; it answers the check of what that named, by the rules of later."""
    permission, effect, find = Permission(call.action), call.effect, call.targets

    def check(gate: Gate, principal: Principal, message: bytes) -> Check:
        if call.authorize is not None:
            call.authorize(gate, principal, message)
        named = (CLUSTER,) if find is None else find(context, message)
        check_again = partial(gate.check, principal, permission, effect, named)
        check_again()
        return check_again

    return check


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


def _stream(method: str, call: Call, factory: StreamFactory, context: ServiceContext) -> StreamFactory:
    if call.action in _METERED and call.targets is not None and context.quotas.is_on:
        factory = metered_stream(factory, _accounts_of(call.targets, context), context.clock)
    check = _stream_checker(call, context)

    def open_counted(stream: _CountedStream) -> StreamHandler:
        if context.closing is not None:
            raise context.closing
        gate = context.gate
        if gate is None:
            return factory(stream)
        principal = gate.principal_of(stream.caller)
        return gate.guard(principal, stream, factory, partial(check, gate, principal))

    def open_stream(stream: ServerStream) -> StreamHandler:
        counted = _CountedStream(stream, partial(context.counts.count, method))
        return _CountedHandler(counted.run(open_counted, counted), counted)

    return open_stream


class _CountedStream:
    """The answering end of a stream, which is counted when it ends."""

    def __init__(self, stream: ServerStream, count: Callable[[str], None]) -> None:
        self._stream = stream
        self._count = count
        self._is_over = False
        self.caller = stream.caller
        self.open = stream.open
        self.write = stream.write
        self.pause_reading = stream.pause_reading
        self.resume_reading = stream.resume_reading

    @property
    def room(self) -> int:
        return self._stream.room

    @property
    def is_left(self) -> bool:
        return self._stream.is_left

    def finish(self) -> None:
        self.end(_OK)
        self._stream.finish()

    def fail(self, error: DanubeError) -> None:
        self.end(error.code)
        self._stream.fail(error)

    def run(self, step: Callable[..., T], *given: object) -> T:
        """Answer `step(*given)`, whose errors end the stream."""
        try:
            return step(*given)
        except Exception as error:
            self.end_by(error)
            raise

    def end_by(self, error: Exception) -> None:
        """Count the outcome of an error that its carrier answers."""
        self.end(error.code if isinstance(error, DanubeError) else InternalError.code)

    def end(self, outcome: str) -> None:
        """Count the outcome, unless there was one."""
        if not self._is_over:
            self._is_over = True
            self._count(outcome)


class _CountedHandler:
    """A stream's handler, whose errors end the stream."""

    def __init__(self, handler: StreamHandler, stream: _CountedStream) -> None:
        self._handler = handler
        self._stream = stream
        self.on_half_close = partial(stream.run, handler.on_half_close)
        self.on_ready = partial(stream.run, handler.on_ready)

    def on_message(self, message: bytes) -> None:  # the busiest: without a call more than its own
        try:
            self._handler.on_message(message)
        except Exception as error:
            self._stream.end_by(error)
            raise

    def on_cancel(self) -> None:
        self._stream.end(CancelledError.code)
        self._handler.on_cancel()
