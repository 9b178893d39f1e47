"""DanubeError <-> gRPC status: both directions from one table.

Official clients read only the status code; ours also reads the stable error code, which travels in the
trailing metadata, and so gets the very class back. Peers without it (the original broker) get the class of the code.
"""

from dataclasses import dataclass
from enum import IntEnum

from danube.model import errors
from danube.model.errors import DanubeError, InternalError


class StatusCode(IntEnum):
    """The gRPC status codes, by their number on the wire."""

    OK = 0
    CANCELLED = 1
    UNKNOWN = 2
    INVALID_ARGUMENT = 3
    DEADLINE_EXCEEDED = 4
    NOT_FOUND = 5
    ALREADY_EXISTS = 6
    PERMISSION_DENIED = 7
    RESOURCE_EXHAUSTED = 8
    FAILED_PRECONDITION = 9
    ABORTED = 10
    OUT_OF_RANGE = 11
    UNIMPLEMENTED = 12
    INTERNAL = 13
    UNAVAILABLE = 14
    DATA_LOSS = 15
    UNAUTHENTICATED = 16


ERROR_CODE_KEY = "danube-error-code"
"""Trailing metadata that carries the stable error code."""

_OPAQUE_MESSAGE = "internal error; the broker's log has the details"

_CODES: dict[type[DanubeError], StatusCode] = {
    errors.InvalidRequestError: StatusCode.INVALID_ARGUMENT,
    errors.NotFoundError: StatusCode.NOT_FOUND,
    errors.AlreadyExistsError: StatusCode.ALREADY_EXISTS,
    errors.PreconditionFailedError: StatusCode.FAILED_PRECONDITION,
    errors.NotPermittedError: StatusCode.PERMISSION_DENIED,
    errors.UnauthenticatedError: StatusCode.UNAUTHENTICATED,
    errors.LimitReachedError: StatusCode.RESOURCE_EXHAUSTED,
    errors.UnavailableError: StatusCode.UNAVAILABLE,
    errors.LookupError: StatusCode.UNAVAILABLE,
    errors.DeadlineExceededError: StatusCode.DEADLINE_EXCEEDED,
    errors.CancelledError: StatusCode.CANCELLED,
    errors.UnsupportedError: StatusCode.UNIMPLEMENTED,
    errors.InternalError: StatusCode.INTERNAL,
    errors.VersionConflictError: StatusCode.ABORTED,
    errors.UnknownOutcomeError: StatusCode.UNAVAILABLE,
    errors.MetadataError: StatusCode.UNAVAILABLE,
    errors.NewerRecordError: StatusCode.FAILED_PRECONDITION,
    errors.DanubeError: StatusCode.INTERNAL,
}
"""The nearest ancestor in this table decides."""

_CLASS_OF_CODE: dict[StatusCode, type[DanubeError]] = {
    StatusCode.INVALID_ARGUMENT: errors.InvalidRequestError,
    StatusCode.OUT_OF_RANGE: errors.MessageTooLargeError,
    StatusCode.NOT_FOUND: errors.NotFoundError,
    StatusCode.ALREADY_EXISTS: errors.AlreadyExistsError,
    StatusCode.FAILED_PRECONDITION: errors.PreconditionFailedError,
    StatusCode.ABORTED: errors.VersionConflictError,
    StatusCode.PERMISSION_DENIED: errors.NotPermittedError,
    StatusCode.UNAUTHENTICATED: errors.UnauthenticatedError,
    StatusCode.RESOURCE_EXHAUSTED: errors.LimitReachedError,
    StatusCode.UNAVAILABLE: errors.UnavailableError,
    StatusCode.DEADLINE_EXCEEDED: errors.DeadlineExceededError,
    StatusCode.CANCELLED: errors.CancelledError,
    StatusCode.UNIMPLEMENTED: errors.UnsupportedError,
}


_BY_ERROR_CODE: dict[str, type[DanubeError]] = {
    kind.code: kind
    for kind in vars(errors).values()  # not whatever inherits a code elsewhere: that depends on what is imported
    if isinstance(kind, type) and issubclass(kind, DanubeError) and kind.public
}


@dataclass(frozen=True, slots=True)
class Status:
    """Failure of a call, as it crosses the wire."""

    code: StatusCode
    message: str
    error_code: str


def status_of(error: DanubeError) -> Status:
    """The status of an error; one that is not public becomes opaque."""
    if not error.public:
        return Status(StatusCode.INTERNAL, _OPAQUE_MESSAGE, InternalError.code)
    code = next(_CODES[kind] for kind in type(error).__mro__ if kind in _CODES)
    return Status(code, str(error), error.code)


def opaque_status() -> Status:
    """The status of an exception that has no place in the error tree."""
    return Status(StatusCode.INTERNAL, _OPAQUE_MESSAGE, InternalError.code)


def error_from(code: int, message: str, error_code: str | None = None) -> DanubeError:
    """The error of a status: by its stable code where there is one that we know, else by its gRPC code."""
    kind = _BY_ERROR_CODE.get(error_code or "")
    if kind is None:
        known = StatusCode(code) if code in StatusCode.__members__.values() else StatusCode.UNKNOWN
        kind = _CLASS_OF_CODE.get(known, InternalError)
    return kind(message)
