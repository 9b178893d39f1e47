"""Errors of a client's calls, by the status, the headers or the reset that ended them."""

from danube.model import errors
from danube.model.errors import DanubeError
from danube.rpc.carrier import PROXY_LIMITS
from danube.rpc.http2.protocol.events import StreamReset
from danube.rpc.http2.protocol.frames import ErrorCode
from danube.rpc.http2.protocol.heads import ResponseHead
from danube.wire.status import ERROR_CODE_KEY, StatusCode, error_from

_OF_HTTP = {
    400: StatusCode.INTERNAL,
    401: StatusCode.UNAUTHENTICATED,
    403: StatusCode.PERMISSION_DENIED,
    404: StatusCode.UNIMPLEMENTED,
    429: StatusCode.UNAVAILABLE,
    502: StatusCode.UNAVAILABLE,
    503: StatusCode.UNAVAILABLE,
    504: StatusCode.UNAVAILABLE,
}
_TOO_LARGE = 413
_OF_RESETS = {
    ErrorCode.REFUSED_STREAM: StatusCode.UNAVAILABLE,
    ErrorCode.CANCEL: StatusCode.CANCELLED,
    ErrorCode.ENHANCE_YOUR_CALM: StatusCode.RESOURCE_EXHAUSTED,
    ErrorCode.INADEQUATE_SECURITY: StatusCode.PERMISSION_DENIED,
}
_OTHER_PORT = "it has no such call; a broker has one port for clients (6650) and one for administration (50051)"


def answer_error(head: ResponseHead, address: str, *, ended: bool) -> DanubeError | None:
    """The error that headers or trailers tell of; None where they end well, or do not end the call."""
    status = head.grpc_status
    if status is not None and (ended or status):
        return None if status == StatusCode.OK else _status_error(status, head, address)
    if head.http_status == _TOO_LARGE:
        return errors.MessageTooLargeError(f"{address} answered HTTP 413 to a message: {PROXY_LIMITS}")
    if head.http_status not in {None, 200}:
        code = _OF_HTTP.get(head.http_status or 0, StatusCode.UNKNOWN)
        return error_from(code, f"{address} answered HTTP {head.http_status}: is it a broker's port?")
    if head.http_status == 200 and not head.content_type.startswith(b"application/grpc"):
        return errors.InternalError(f"{address} does not answer as gRPC does: is it a broker's port?")
    if head.encoding != b"identity":
        return errors.UnsupportedError(f"{address} answers compressed, which nobody asked it to")
    if ended:
        return errors.InternalError(f"{address} ended a call without its status")
    return None


def reset_error(event: StreamReset, address: str) -> DanubeError:
    """The error of a stream that was reset."""
    if not event.by_peer:
        return errors.InternalError(f"{address} broke a rule of HTTP/2: {event.reason}")
    known = event.code in ErrorCode.__members__.values()
    name = ErrorCode(event.code).name if known else str(event.code)
    code = _OF_RESETS.get(ErrorCode(event.code), StatusCode.INTERNAL) if known else StatusCode.INTERNAL
    return error_from(code, f"{address} reset the call: {name}")


def _status_error(status: int, head: ResponseHead, address: str) -> DanubeError:
    error_code = head.fields.get(ERROR_CODE_KEY.encode())
    if error_code is not None:
        return error_from(status, head.message, error_code.decode(errors="replace"))
    if status == StatusCode.DEADLINE_EXCEEDED:
        return errors.DeadlineExceededError(f"no answer from {address} in time")
    name = StatusCode(status).name if status in StatusCode.__members__.values() else str(status)
    text = _OTHER_PORT if status == StatusCode.UNIMPLEMENTED else head.message
    return error_from(status, f"{address} answered {name}: {text}")
