"""State of the server that every request needs: the cluster, the rules, the logins."""

import asyncio
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from danube.admin.access import Guard
from danube.admin.broker_names import with_ids
from danube.admin.execution import Session, execute, parse_arguments
from danube.admin.gateway import AdminGateway
from danube.admin.operations.fields import Result
from danube.admin.operations.operation import AnyOperation, Call
from danube.admin.operations.plan_views import PlanView, plan_view
from danube.admin.ports.cluster_logins import ClusterLogins, Credential
from danube.admin.target import PASSED_TOKEN
from danube.admin.web.pages.forms import with_page_bound
from danube.admin.web.protection.exposure import Exposure
from danube.admin.web.protection.sessions import FailedLogins, Sessions
from danube.admin.web.shared_reads import shared_reads
from danube.model.errors import DanubeError, DeadlineExceededError, NotPermittedError, UnauthenticatedError
from danube.model.limits.faces import WEB_CALL_TIMEOUT_S, WEB_PROBE_TIMEOUT_S
from danube.model.plans.plan import Caller, Effect, Face
from danube.runtime.clock import Clock

NOBODY_IN_PARTICULAR = "local"
"""Who calls where no token is asked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Person:
    """The sender of a request."""

    who: str
    csrf: str = field(repr=False)
    """What their forms carry."""
    is_logged_in: bool = False
    """With a token, in a browser: a person, as far as a server can tell."""
    token: str = field(default="", repr=False)
    """Of the cluster, where calls are made as this person; empty where they are made as the server."""
    is_refresh: bool = False
    """A page that was opened before is looked at again: nothing is recorded of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WebServer:
    """One server, for as long as it runs."""

    gateway: AdminGateway
    guard: Guard
    clock: Clock
    exposure: Exposure
    endpoint: str
    """The cluster's, to be shown."""
    sessions: Sessions = field(default_factory=Sessions)
    failures: FailedLogins = field(default_factory=FailedLogins)
    csrf: str = field(default_factory=lambda: secrets.token_urlsafe(32), repr=False)
    """Of whoever is not logged in."""
    logins: ClusterLogins = field(init=False)
    shared: AdminGateway = field(init=False)
    """The cluster, for the parts of a page that many look at."""

    def __post_init__(self) -> None:
        """Make what follows from the rest."""
        object.__setattr__(self, "logins", ClusterLogins(self.gateway))
        object.__setattr__(self, "shared", shared_reads(self.gateway, self.clock))

    async def prove(self, presented: str, now_s: float) -> Credential:
        """The holder of a token. Raises UnauthenticatedError, and what keeps the cluster from answering."""
        if self.exposure.passes_tokens:
            try:
                async with asyncio.timeout(WEB_CALL_TIMEOUT_S):
                    return await self.logins.prove(presented, now_s)
            except TimeoutError:
                raise DeadlineExceededError(f"the broker at {self.endpoint} did not answer in time") from None
        who = self.exposure.who(presented)
        if who is None:
            raise UnauthenticatedError("this is not a token of this server")
        return Credential(who)

    def session(self, person: Person) -> Session:
        caller = Caller(who=person.who, face=Face.WEB)
        return Session(
            gateway=self.gateway, caller=caller, clock=self.clock, guard=self.guard, is_refresh=person.is_refresh
        )

    async def look(
        self, operation: AnyOperation, arguments: Mapping[str, Any], gateway: AdminGateway | None = None
    ) -> Result:
        """The answer of an operation that only reads, for a part of a page: the page itself is what is recorded.

        Raises DanubeError; DeadlineExceededError after WEB_CALL_TIMEOUT_S.
        """
        if operation.effect is not Effect.READ:
            raise TypeError(f"{operation.name} does more than to read")
        params = parse_arguments(operation, dict(arguments))
        gateway, caller = gateway or self.gateway, Caller(who=NOBODY_IN_PARTICULAR, face=Face.WEB)
        call = Call(gateway=gateway, clock=self.clock, caller=caller)
        try:
            async with asyncio.timeout(WEB_CALL_TIMEOUT_S):
                found: Result = await operation.answer(call, await with_ids(params, gateway))
        except TimeoutError:
            raise DeadlineExceededError(f"{operation.name} did not end within {WEB_CALL_TIMEOUT_S:.0f} s") from None
        return found

    async def call(
        self,
        person: Person,
        operation: AnyOperation,
        arguments: Mapping[str, Any],
        plan_id: str | None = None,
        *,
        gateway: AdminGateway | None = None,
    ) -> Result:
        """Carry an operation out for somebody. Raises DanubeError; DeadlineExceededError after WEB_CALL_TIMEOUT_S."""
        params = parse_arguments(operation, with_page_bound(operation, arguments))
        try:
            async with asyncio.timeout(WEB_CALL_TIMEOUT_S):
                session = replace(self.session(person), gateway=gateway or self.gateway)
                return await execute(session, operation, params, plan_id=plan_id)
        except TimeoutError:
            raise DeadlineExceededError(
                f"{operation.name} did not end within {WEB_CALL_TIMEOUT_S:.0f} s: it may still be carried out"
            ) from None

    async def plan(self, plan_id: str) -> PlanView | None:
        """A plan, to be shown beside the form that decides about it; None where it cannot be shown."""
        try:
            async with asyncio.timeout(WEB_PROBE_TIMEOUT_S):
                return plan_view(await self.gateway.plan(plan_id), self.clock.now_ms())
        except (TimeoutError, DanubeError):  # the decision itself will say what is wrong
            return None

    async def problem(self) -> DanubeError | None:
        """The reason why the cluster does not answer; None when it does, within WEB_PROBE_TIMEOUT_S."""
        try:
            async with asyncio.timeout(WEB_PROBE_TIMEOUT_S):
                await self.gateway.leader()
        except TimeoutError:
            return DeadlineExceededError(
                f"the broker at {self.endpoint} did not answer within {WEB_PROBE_TIMEOUT_S:g} s: is it running?"
            )
        except DanubeError as error:
            return None if self._is_answer(error) else error
        return None

    def _is_answer(self, error: DanubeError) -> bool:
        """True if the broker answers, and only refuses this caller."""
        is_probe = isinstance(error, UnauthenticatedError) and PASSED_TOKEN.get() is None
        return self.exposure.passes_tokens and (is_probe or isinstance(error, NotPermittedError))
