"""The registry's parts of one broker, built and started."""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass

from danube.broker.environment import Dependencies
from danube.broker.schemas.access import SubjectAccess
from danube.broker.schemas.cache import SchemaCache
from danube.broker.schemas.control import SchemaControl
from danube.broker.schemas.definitions import Definitions
from danube.broker.schemas.versions import SchemaVersions
from danube.broker.security.assembly import Security
from danube.broker.telemetry.health import http_tls
from danube.broker.topics.local_topics import Topics
from danube.metadata.schemas.schema_records import SchemaRecords
from danube.metadata.store import MetadataStore
from danube.model.calls.schemas import SetMode
from danube.model.limits.registry import SCHEMA_USE_RESOLUTION_S
from danube.model.security.grants import Permission
from danube.runtime.blocking import BlockingThread
from danube.runtime.clock import Clock
from danube.runtime.payload_checks.process import CheckProcess


@dataclass(frozen=True, slots=True)
class OpenedSchemas:
    """The registry of one broker."""

    versions: SchemaVersions
    control: SchemaControl


async def open_schemas(
    deps: Dependencies, store: MetadataStore, topics: Topics, access: SubjectAccess
) -> OpenedSchemas:
    """Open the registry; topics that are opened after it check their messages. Raises MetadataError."""
    thread, proto_thread = BlockingThread("schemas"), BlockingThread("protobuf-schemas")
    checks = CheckProcess()
    for each in (thread, proto_thread, checks):
        deps.running.push_async_callback(each.aclose)
    cache, records = SchemaCache(store, deps.clock), SchemaRecords(store, deps.rng)
    await cache.open(deps.tasks)
    definitions = Definitions(records, thread, proto_thread, checks)
    versions = SchemaVersions(cache, records, definitions, deps.tasks, deps.clock, access=access)
    topics.gate_of = versions.gate_of
    deps.sweep("writing down uses of schemas", UseKeeper(versions, topics, deps.clock).sweep)
    return OpenedSchemas(versions, SchemaControl(records, definitions, topics, deps.clock, access))


async def serve_schemas(
    deps: Dependencies,
    control: SchemaControl,
    security: Security,
    record: Callable[[SetMode, Callable[[], None]], AbstractAsyncContextManager[None]],
) -> str | None:
    """Serve the registry over HTTP if that is switched on; answers the address. Raises SettingsError.

    `record` keeps what is changed by it.
    """
    if deps.settings.schema_http_addr is None:
        return None
    from danube.broker.schemas.http import SchemaHttpServer  # noqa: PLC0415 - a broker without that port starts without it
    from danube.broker.security.http_gate import checker  # noqa: PLC0415 - the same

    server = SchemaHttpServer(
        control,
        deps.tasks,
        check=checker(security.gate, Permission.MANAGE_SCHEMA),
        record=record,
        guarded=security.guarded,
        tls=http_tls(deps, security.credentials),
    )
    await server.start(deps.settings.schema_http_addr)
    deps.running.push_async_callback(server.stop)
    return server.address


class UseKeeper:
    """Writes down which versions topics use; each use is reported again every SCHEMA_USE_RESOLUTION_S."""

    def __init__(self, versions: SchemaVersions, topics: Topics, clock: Clock) -> None:
        self._versions = versions
        self._topics = topics
        self._clock = clock
        self._told_s = clock.monotonic_s()

    async def sweep(self) -> None:
        """Write down what is new. Raises MetadataError."""
        now_s = self._clock.monotonic_s()
        if now_s >= self._told_s + SCHEMA_USE_RESOLUTION_S:
            self._told_s = now_s
            for topic in self._topics:
                if topic.gate is not None:
                    topic.gate.forget()
        await self._versions.write_uses()
