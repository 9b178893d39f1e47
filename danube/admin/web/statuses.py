"""Errors over HTTP: the one table from our errors to statuses, and the next step that goes with them. Pure.

400  the request can never succeed as it is       415  the body is not JSON
401  no token, or a wrong one                     423  the plan waits for a person's approval
403  not permitted: access level, origin, person  429  a bound is reached, or too many wrong tokens
404  what was named is not there                  501  this broker does not have it
405  another method                               502  the broker cannot be reached, or failed
409  there already, or the state does not allow   504  no answer in time; it may have been done
     it: also a plan that is refused              500  a fault of this server
413  the body is too large                        503  too many requests at one time
"""

from typing import Any

from danube.model import errors
from danube.model.errors import DanubeError

STATUSES: dict[type[DanubeError], int] = {
    errors.InvalidRequestError: 400,
    errors.UnauthenticatedError: 401,
    errors.NotPermittedError: 403,
    errors.NotFoundError: 404,
    errors.AlreadyExistsError: 409,
    errors.PreconditionFailedError: 409,
    errors.PlanWaitsError: 423,
    errors.LimitReachedError: 429,
    errors.UnsupportedError: 501,
    errors.UnavailableError: 502,
    errors.LookupError: 502,
    errors.InternalError: 502,
    errors.MetadataError: 502,
    errors.DeadlineExceededError: 504,
    errors.DanubeError: 500,
}
"""The nearest ancestor in this table decides."""

NEXT_STEPS: dict[type[DanubeError], str] = {
    errors.UnauthenticatedError: "send the header `Authorization: Bearer TOKEN`, or log in at /login",
    errors.PlanWaitsError: "a person approves it at /plans/list; then send the same call with the same plan_id",
    errors.PlanRefusedError: "send the call without a plan_id to get a new plan",
    errors.UnavailableError: "try again; /readyz says when the broker answers",
    errors.DeadlineExceededError: "look whether it was done before trying again",
}


class TooLargeError(errors.InvalidRequestError):
    """The body of a request is larger than is taken."""

    code = "BODY_TOO_LARGE"


class NotJsonError(errors.InvalidRequestError):
    """The body of a request is not declared as JSON."""

    code = "NOT_JSON"


class MethodError(errors.InvalidRequestError):
    """The path is there and takes another method."""

    code = "METHOD_NOT_ALLOWED"


class ServerFaultError(DanubeError):
    """A fault of this server."""

    code = "SERVER_FAULT"


class TooManyAttemptsError(errors.LimitReachedError):
    """Too many wrong tokens came from one address."""

    code = "TOO_MANY_ATTEMPTS"

    def __init__(self, wait_s: float) -> None:
        super().__init__(f"too many wrong tokens: try again in {max(1, round(wait_s))} s")
        self.wait_s = wait_s


STATUSES |= {MethodError: 405, TooLargeError: 413, NotJsonError: 415, ServerFaultError: 500}


def status_of(error: DanubeError) -> int:
    """The HTTP status of an error."""
    return next(STATUSES[kind] for kind in type(error).__mro__ if kind in STATUSES)


def problem_of(error: DanubeError) -> dict[str, Any]:
    """The body that goes with it: `error`, `code` and, where there is one, `next`."""
    problem = {"error": str(error), "code": error.code}
    step = next((NEXT_STEPS[kind] for kind in type(error).__mro__ if kind in NEXT_STEPS), None)
    return problem | ({"next": step} if step else {})
