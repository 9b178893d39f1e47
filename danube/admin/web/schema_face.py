"""The schema registry over HTTP for Confluent's clients, below `/api/confluent`: reads from the gateway, writes by
operations, so that access level and audit log hold for them.
"""

from collections.abc import Sequence

from starlette.types import Receive, Scope, Send

from danube.admin.operations.schemas.subjects import REGISTER, SET_MODE, ModeResult, RegisteredResult
from danube.admin.web.server import Person, WebServer
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
from danube.model.errors import InternalError, UnsupportedError
from danube.model.schema import SchemaImport
from danube.runtime.blocking import run_apart
from danube.runtime.protoc.compiler import compile_protos
from danube.schema.protobuf.proto_text import described_file
from danube.schema_http.app import SchemaApp

PREFIX = "/api/confluent"
_ROOT = "schema.proto"


class SchemaFace:
    """The ASGI application, for whoever the protection let through."""

    def __init__(self, server: WebServer) -> None:
        self._server = server

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """As ASGI says."""
        app = SchemaApp(GatewayRegistry(self._server, scope["state"]["person"]), PREFIX)
        await app(scope, receive, send)


class GatewayRegistry:
    """The registry behind the gateway, as the face asks it for one person."""

    def __init__(self, server: WebServer, person: Person) -> None:
        self._server = server
        self._gateway = server.gateway
        self._person = person

    async def subject_names(self) -> Sequence[str]:
        """As the protocol."""
        return sorted(one.subject for one in await self._gateway.subjects())

    async def version_numbers(self, subject: str) -> Sequence[int]:
        """As the protocol."""
        return [one.version for one in await self._gateway.schema_versions(subject)]

    async def find_version(self, wanted: FindVersion) -> VersionDescription:
        """As the protocol."""
        return await self._gateway.find_version(wanted)

    async def register_version(self, wanted: RegisterVersion) -> RegisteredSchema:
        """As the protocol."""
        arguments = {
            "subject": wanted.subject,
            "schema_type": wanted.type.value,
            "definition": wanted.definition.decode(),
            "references": [f"{one.name}={one.subject}:{one.version}" for one in wanted.references],
            "as_confluent": wanted.as_confluent,
        }
        made = await self._server.call(self._person, REGISTER, arguments)
        if not isinstance(made, RegisteredResult):
            raise InternalError(f"{REGISTER.name} answered {type(made).__name__}")
        return RegisteredSchema(
            schema_id=made.schema_id,
            version=made.version,
            is_new_version=made.is_new_version,
            fingerprint=made.fingerprint,
        )

    async def check_version(self, wanted: CheckVersion) -> CheckedVersion:
        """As the protocol."""
        return await self._gateway.check_version(wanted)

    async def schema_mode(self, wanted: SetMode) -> ModeAnswer:
        """As the protocol."""
        if wanted.ask:
            return await self._gateway.schema_mode(wanted)
        if wanted.mode is None:
            raise UnsupportedError("a subject keeps its mode here: set the one that the default has")
        arguments = {"mode": wanted.mode.value} | ({"subject": wanted.subject} if wanted.subject else {})
        made = await self._server.call(self._person, SET_MODE, arguments)
        if not isinstance(made, ModeResult):
            raise InternalError(f"{SET_MODE.name} answered {type(made).__name__}")
        return ModeAnswer(mode=made.mode, is_own=made.is_own)

    async def compiled_file(self, version: VersionDescription) -> bytes:
        """As the protocol."""
        files = {**await self._texts(version.references), _ROOT: version.definition.decode()}
        return described_file(await run_apart("protobuf", lambda: compile_protos(_ROOT, files)), _ROOT)

    async def _texts(self, references: Sequence[SchemaImport]) -> dict[str, str]:
        texts: dict[str, str] = {}
        for one in references:
            if one.name not in texts:
                found = await self._gateway.find_version(FindVersion(subject=one.subject, version=one.version))
                texts |= await self._texts(found.references)
                texts[one.name] = found.definition.decode()
        return texts
