"""The request of a designed page, and the calls that it makes for it."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from danube.admin.execution import execute, parse_arguments
from danube.admin.gateway import AdminGateway
from danube.admin.operations.fields import Result
from danube.admin.operations.operation import AnyOperation
from danube.admin.web.server import Person, WebServer
from danube.model.errors import DanubeError, DeadlineExceededError
from danube.model.limits.faces import WEB_CALL_TIMEOUT_S


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """One person's request of one page."""

    server: WebServer
    person: Person
    arguments: Mapping[str, Any]
    """Of the operation, as they were given."""
    query: Mapping[str, str]
    """The whole query, with the fields of the page itself."""
    result: Result | None = None
    """The answer of the operation, where it was called for the page."""

    @property
    def gateway(self) -> AdminGateway:
        """The cluster."""
        return self.server.gateway

    async def whole(self, operation: AnyOperation, arguments: Mapping[str, Any]) -> Result:
        """A listing without this face's bound on rows, for a page that folds and filters it. Raises DanubeError."""
        params = parse_arguments(operation, dict(arguments))
        try:
            async with asyncio.timeout(WEB_CALL_TIMEOUT_S):
                return await execute(self.server.session(self.person), operation, params)
        except TimeoutError:
            raise DeadlineExceededError(f"{operation.name} did not end within {WEB_CALL_TIMEOUT_S:.0f} s") from None

    async def part(self, operation: AnyOperation, arguments: Mapping[str, Any]) -> "Part":
        """The answer of one more operation, or why there is none; the rest of the page does without it."""
        try:
            return Part(result=await self.server.look(operation, arguments))
        except DanubeError as error:
            return Part(problem=str(error))


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One part of a page."""

    result: Any = None
    problem: str = ""
