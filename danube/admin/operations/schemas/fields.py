"""Parameters and parts of results that the schema operations share."""

import json
from typing import Annotated

from pydantic import Field, StringConstraints

from danube.admin.operations.fields import VOLATILE, WIDE, Completes, Params, Result, spelled
from danube.model.calls.schemas import SchemaDifference
from danube.model.errors import InvalidRequestError
from danube.model.limits.broker import NAME_BYTES_MAX
from danube.model.limits.registry import SCHEMA_BYTES_MAX, SCHEMA_REFERENCES_MAX
from danube.model.schema import CompatibilityMode, JsonPolicy, SchemaImport, SchemaType, ValidationPolicy
from danube.model.untrusted_json import decode_json

TOOLSET = "schemas"
LATEST = "latest"

SubjectText = Annotated[str, StringConstraints(min_length=1, max_length=NAME_BYTES_MAX), Completes("subject")]
TypeWord = Annotated[
    SchemaType,
    spelled({"json": "json_schema", "proto": "protobuf", "int": "number", "int64": "number", "double": "number"}),
]
ModeWord = Annotated[CompatibilityMode, spelled({})]
PolicyWord = Annotated[ValidationPolicy, spelled({})]
JsonPolicyWord = Annotated[JsonPolicy, spelled({})]
Version = Annotated[int, Field(ge=1, le=2**31 - 1)]
_Reference = Annotated[str, StringConstraints(min_length=5, max_length=3 * NAME_BYTES_MAX)]


class SubjectParams(Params):
    """A subject."""

    subject: SubjectText = Field(description="The subject.")


class DefinitionParams(SubjectParams):
    """A definition for a subject."""

    schema_type: TypeWord = Field(description="The language of the definition.")
    definition: str = Field(
        max_length=SCHEMA_BYTES_MAX,
        description="The definition as text; on the command line `@FILE` reads it from a file.",
    )
    references: list[_Reference] = Field(
        default=[],
        max_length=SCHEMA_REFERENCES_MAX,
        description="Versions that it refers to, each as NAME=SUBJECT:VERSION, with the name that it uses; `latest` is"
        " a version, too.",
    )

    as_confluent: bool = Field(
        default=False,
        description="Read it as Confluent's registry does: a JSON Schema without `$schema` is of draft 7, and a subject"
        " that is new has the policy `strict`.",
    )

    def imports(self) -> tuple[SchemaImport, ...]:
        """The references as values. Raises InvalidRequestError."""
        return tuple(map(parse_reference, self.references))


def parse_reference(text: str) -> SchemaImport:
    """Read NAME=SUBJECT:VERSION. Raises InvalidRequestError."""
    name, separator, target = text.partition("=")
    subject, _, version = target.rpartition(":")
    if not separator or not name or not subject or not (version.isdecimal() or version == LATEST):
        raise InvalidRequestError(f"{text[:80]!r} is no reference: write NAME=SUBJECT:VERSION")
    return SchemaImport(name, subject, 0 if version == LATEST else int(version))


class DifferenceView(Result):
    """One difference between a definition and an earlier version."""

    kind: str = Field(description="Its kind, a stable word.")
    path: str = Field(description="The place in the schema; empty for the schema itself.")
    version: int = Field(description="The earlier version.")
    before: Annotated[str, WIDE] = Field(description="What was there.")
    after: Annotated[str, WIDE] = Field(description="What is there now.")
    message: str = Field(description="What it means.")
    breaks: bool = Field(description="Whether it is in the way in this mode.")
    breaks_backward: Annotated[bool, WIDE] = Field(
        description="Whether readers with the new version fail on data of the earlier one."
    )
    breaks_forward: Annotated[bool, WIDE] = Field(
        description="Whether readers with the earlier version fail on data of the new one."
    )
    suggestion: Annotated[str, WIDE] = Field(description="The smallest change that would make it compatible.")


def difference_view(difference: SchemaDifference) -> DifferenceView:
    """A difference as faces show it."""
    return DifferenceView.of(difference)


def verdict(difference: DifferenceView) -> str:
    """One word: it `breaks` what the mode promises, it breaks readers and is `allowed` by the mode, or it `fits`."""
    if difference.breaks:
        return "breaks"
    return "allowed" if difference.breaks_backward or difference.breaks_forward else "fits"


def pretty(definition: str) -> str:
    """A definition with one part a line: JSON is laid out anew, other text stays."""
    try:
        return json.dumps(decode_json(definition), indent=2, ensure_ascii=False)
    except ValueError:
        return definition


SchemaId = Annotated[int, VOLATILE]
