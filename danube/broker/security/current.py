"""Principal of the call that is handled now, for handlers that record who asked."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace

from danube.model.plans.plan import Caller
from danube.model.security.principal import Principal

_PRINCIPAL: ContextVar[Principal | None] = ContextVar("principal", default=None)


@contextmanager
def acting_as(principal: Principal) -> Iterator[None]:
    """Handle a call as this principal; tasks that are spawned within keep it."""
    token = _PRINCIPAL.set(principal)
    try:
        yield
    finally:
        _PRINCIPAL.reset(token)


def current_principal() -> Principal | None:
    """The authenticated principal; None while security is off."""
    return _PRINCIPAL.get()


def authenticated(caller: Caller) -> Caller:
    """The caller as authentication knows it: a claim of another name counts for nothing.

    The name that the face gave stays beside it, where it is another.
    """
    principal = _PRINCIPAL.get()
    return caller if principal is None else replace(caller, who=str(principal))
