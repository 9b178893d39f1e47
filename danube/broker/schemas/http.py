"""The HTTP face of a broker's own registry, on a port that is switched on by a setting."""

import ssl
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from functools import partial

from danube.broker.schemas.control import SchemaControl
from danube.model.calls.schemas import (
    CheckedVersion,
    CheckVersion,
    FindVersion,
    ModeAnswer,
    RegisteredSchema,
    RegisterVersion,
    SetMode,
    VersionDescription,
)
from danube.model.limits.registry import SCHEMA_HTTP_DRAIN_S, SCHEMA_HTTP_REQUESTS_MAX
from danube.model.plans.plan import Effect
from danube.rpc.address import join_address, split_address
from danube.rpc.http_port import App, HttpPort, listen
from danube.runtime.tasks import TaskScope
from danube.schema_http.app import SchemaApp
from danube.security.decision import Target

Check = Callable[[Effect, Target], None]
Record = Callable[[SetMode, Callable[[], None]], AbstractAsyncContextManager[None]]
"""Holds a change to a check, and records both."""


def _permit(effect: Effect, target: Target) -> None:
    """Nothing is refused: security is off."""


def _keep_nothing(wanted: SetMode, check: Callable[[], None]) -> AbstractAsyncContextManager[None]:  # noqa: ARG001
    """There is no audit log."""
    check()
    return nullcontext()


class OwnRegistry:
    """This broker's registry, as the face asks it."""

    def __init__(self, control: SchemaControl, check: Check, record: Record = _keep_nothing) -> None:
        """`check` raises NotPermittedError for what the caller of now may not do, `record` keeps what it changes."""
        self._control = control
        self._record = record
        self._check = check

    async def subject_names(self) -> Sequence[str]:
        """As the protocol; those that the caller may read."""
        return [one.subject for one in await self._control.subjects()]

    async def version_numbers(self, subject: str) -> Sequence[int]:
        """As the protocol."""
        self._check(Effect.READ, Target("", subject))
        return [one.version for one in await self._control.versions(subject)]

    async def find_version(self, wanted: FindVersion) -> VersionDescription:
        """As the protocol."""
        if not wanted.number and not wanted.schema_id:
            self._check(Effect.READ, Target("", wanted.subject))
        return await self._control.describe(wanted)

    async def register_version(self, wanted: RegisterVersion) -> RegisteredSchema:
        """As the protocol."""
        self._check(Effect.WRITE, Target("", wanted.subject))
        return await self._control.register_version(wanted)

    async def check_version(self, wanted: CheckVersion) -> CheckedVersion:
        """As the protocol."""
        self._check(Effect.READ, Target("", wanted.subject))
        return await self._control.check_version(wanted)

    async def schema_mode(self, wanted: SetMode) -> ModeAnswer:
        """As the protocol."""
        check = partial(self._check, Effect.READ if wanted.ask else Effect.WRITE, Target("", wanted.subject))
        if wanted.ask:
            check()
            return await self._control.mode(wanted)
        async with self._record(wanted, check):
            return await self._control.mode(wanted)

    async def compiled_file(self, version: VersionDescription) -> bytes:
        """As the protocol."""
        self._check(Effect.READ, Target("", version.subject))
        return await self._control.compiled_file(version)


class SchemaHttpServer:
    """The listening port."""

    def __init__(
        self,
        control: SchemaControl,
        tasks: TaskScope,
        *,
        check: Check = _permit,
        record: Record = _keep_nothing,
        guarded: Callable[[App], App] | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        """`guarded` finds out who calls, for `check`."""
        app = SchemaApp(OwnRegistry(control, check, record))
        self._app: App = app if guarded is None else guarded(app)
        self._tls = tls
        self._tasks = tasks
        self._stop: Callable[[], Awaitable[None]] | None = None
        self.address = ""

    async def start(self, address: str) -> None:
        """Listen on `host:port`. Raises SettingsError when it cannot."""
        listener = listen(*split_address(address), "choose another address with schema_http_addr")
        self.address = join_address(*listener.getsockname()[:2])
        port = HttpPort(self._app, requests_max=SCHEMA_HTTP_REQUESTS_MAX, drain_s=SCHEMA_HTTP_DRAIN_S, tls=self._tls)
        serving = self._tasks.spawn(port.serve(sockets=[listener]), "schema port")
        self._stop = lambda: port.stop(serving)

    async def stop(self) -> None:
        """Take no more requests; those under way have SCHEMA_HTTP_DRAIN_S."""
        if self._stop is not None:
            await self._stop()
