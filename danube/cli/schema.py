"""`danube schema`: register, show and check schemas from a terminal."""

import json
from collections.abc import Awaitable, Callable
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from danube.cli.arguments import Access
from danube.cli.output import run, say
from danube.model.calls.schemas import FindVersion, RegisterVersion
from danube.model.errors import DanubeError, InvalidRequestError
from danube.model.exit_codes import ExitCode, exit_code_of
from danube.model.limits.faces import CLI_CONNECT_TIMEOUT_S
from danube.model.schema import CompatibilityMode, SchemaType
from danube.runtime.paths import PATH_FLAG

if TYPE_CHECKING:
    from danube.client.schemas import SchemaRegistryClient

app = typer.Typer(help="Register, show and check schemas.", no_args_is_help=True, rich_markup_mode=None)


class Output(StrEnum):
    """Format of answers."""

    TEXT = "text"
    JSON = "json"


Subject = Annotated[str, typer.Argument(metavar="SUBJECT", help="The subject.", show_default=False)]
Address = Annotated[
    str, typer.Option("-s", "--service-addr", envvar="DANUBE_SERVICE_ADDR", help="Broker: http://host:port.")
]
Kind = Annotated[
    str, typer.Option("--schema-type", metavar="avro|json_schema|protobuf|string|number|bytes", help="Its language.")
]
Definition = Annotated[Path, typer.Option("-f", "--file", **PATH_FLAG, help="The definition.", show_default=False)]
Format = Annotated[Output, typer.Option("-o", "--output", help="How to write.")]
DEFAULT_ADDR = "http://127.0.0.1:6650"


@app.command("register")
def register_command(  # noqa: PLR0917 - one parameter for each flag
    subject: Subject,
    kind: Kind,
    file: Definition,
    description: Annotated[str, typer.Option("--description", help="What it is for.")] = "",
    tags: Annotated[list[str] | None, typer.Option("--tags", help="A word to find it by; may be repeated.")] = None,
    service_addr: Address = DEFAULT_ADDR,
    output: Format = Output.TEXT,
) -> None:
    """Register a version; the same definition again is the same version."""
    wanted = RegisterVersion(
        subject=subject,
        type=_kind(kind),
        definition=_content(file),
        description=description,
        created_by="danube-cli",
        tags=tuple(tags or ()),
    )

    async def work(registry: "SchemaRegistryClient") -> dict[str, Any]:
        made = await registry.register_version(wanted)
        word = "registered" if made.is_new_version else "was registered already"
        return {
            "subject": subject,
            "schema_id": str(made.schema_id),
            "version": made.version,
            "is_new_version": made.is_new_version,
            "fingerprint": made.fingerprint,
            "text": f"{subject} {word}: Schema ID: {made.schema_id}, Version: {made.version}",
        }

    _ask(service_addr, output, work)


@app.command("get")
def get_command(
    subject: Subject,
    version: Annotated[int, typer.Option("--version", min=0, help="The version; 0 is the latest.")] = 0,
    service_addr: Address = DEFAULT_ADDR,
    output: Format = Output.TEXT,
) -> None:
    """Show a version with its definition."""

    async def work(registry: "SchemaRegistryClient") -> dict[str, Any]:
        found = await registry.find(FindVersion(subject=subject, version=version))
        definition = found.definition.decode(errors="replace")
        return {
            "subject": found.subject,
            "schema_id": str(found.schema_id),
            "version": found.version,
            "schema_type": found.type.value,
            "compatibility_mode": found.mode.value,
            "fingerprint": found.fingerprint,
            "definition": definition,
            "text": f"{found.subject}, version {found.version} ({found.type.value}, {found.mode.value})\n{definition}",
        }

    _ask(service_addr, output, work)


@app.command("versions")
def versions_command(subject: Subject, service_addr: Address = DEFAULT_ADDR, output: Format = Output.TEXT) -> None:
    """List the versions of a subject."""

    async def work(registry: "SchemaRegistryClient") -> dict[str, Any]:
        versions = await registry.list_versions(subject)
        return {"subject": subject, "versions": versions, "text": "\n".join(map(str, versions))}

    _ask(service_addr, output, work)


@app.command("check")
def check_command(  # noqa: PLR0917 - one parameter for each flag
    subject: Subject,
    kind: Kind,
    file: Definition,
    mode: Annotated[str | None, typer.Option("--mode", help="Judge by this mode instead of the subject's own.")] = None,
    service_addr: Address = DEFAULT_ADDR,
    output: Format = Output.TEXT,
) -> None:
    """Tell whether a definition could be the next version; ends with code 6 if it could not."""
    schema_type, definition, judged_by = _kind(kind), _content(file), _mode(mode)

    async def work(registry: "SchemaRegistryClient") -> dict[str, Any]:
        fits, errors = await registry.check_compatibility(subject, definition, schema_type, judged_by)
        lines = ["compatible" if fits else "not compatible", *(f"  {error}" for error in errors)]
        code = ExitCode.OK if fits else ExitCode.REFUSED
        return {"is_compatible": fits, "errors": errors, "text": "\n".join(lines), "code": code}

    _ask(service_addr, output, work)


def _ask(
    service_addr: str, output: Output, work: "Callable[[SchemaRegistryClient], Awaitable[dict[str, Any]]]"
) -> None:
    async def asked() -> ExitCode:
        access = Access(service_addr=service_addr, connect_timeout_s=CLI_CONNECT_TIMEOUT_S)
        async with await access.connect() as client:
            answer = await work(client.schema())
        text, code = answer.pop("text"), answer.pop("code", ExitCode.OK)
        typer.echo(json.dumps(answer, ensure_ascii=False) if output is Output.JSON else text)
        return ExitCode(code)

    run(asked())


def _kind(word: str) -> SchemaType:
    try:
        return SchemaType.parse(word)
    except ValueError as error:
        raise _usage(InvalidRequestError(f"{error}: use {', '.join(one.value for one in SchemaType)}")) from None


def _mode(word: str | None) -> CompatibilityMode | None:
    try:
        return None if word is None else CompatibilityMode.parse(word)
    except ValueError as error:
        raise _usage(InvalidRequestError(f"{error}: use {', '.join(one.value for one in CompatibilityMode)}")) from None


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise _usage(InvalidRequestError(f"cannot read {path} ({error.strerror}): check the path")) from None


def _usage(error: DanubeError) -> typer.Exit:
    say(str(error))
    return typer.Exit(exit_code_of(error))
