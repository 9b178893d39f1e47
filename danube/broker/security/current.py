"""Principal of the call that is handled now, for handlers that record who asked."""

from contextvars import ContextVar, Token
from dataclasses import replace
from types import TracebackType

from danube.model.plans.plan import Caller
from danube.model.security.principal import Principal

_PRINCIPAL: ContextVar[Principal | None] = ContextVar("principal", default=None)


class ActingAs:
    """Handles a call as a principal, within a `with`; tasks that are spawned within keep it."""

    __slots__ = ("_principal", "_token")

    def __init__(self, principal: Principal) -> None:
        self._principal = principal
        self._token: Token[Principal | None] | None = None

    def __enter__(self) -> None:
        self._token = _PRINCIPAL.set(self._principal)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._token is not None:
            _PRINCIPAL.reset(self._token)


def current_principal() -> Principal | None:
    """The authenticated principal; None while security is off."""
    return _PRINCIPAL.get()


def authenticated(caller: Caller) -> Caller:
    """The caller as authentication knows it: a claim of another name counts for nothing.

    The name that the face gave stays beside it, where it is another.
    """
    principal = _PRINCIPAL.get()
    return caller if principal is None else replace(caller, who=str(principal))
