"""Definitions of versions, parsed off the event loop and kept, with their references resolved."""

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from danube.broker.schemas.gate import Check
from danube.metadata.schemas.record_format import VersionRecord
from danube.metadata.schemas.schema_records import SchemaRecords
from danube.model.calls.schemas import SchemaDifference
from danube.model.errors import InvalidRequestError, PreconditionFailedError
from danube.model.limits.registry import SCHEMA_REFERENCED_MAX, SCHEMA_VALIDATORS_MAX
from danube.model.schema import CompatibilityMode, JsonPolicy, SchemaImport, SchemaType
from danube.runtime.blocking import BlockingRunner
from danube.runtime.payload_checks.process import CheckProcess
from danube.runtime.protoc.compiler import compile_protos
from danube.schema.compatibility import DIRECTIONS, TRANSITIVE, Finding, check
from danube.schema.differences import Direction
from danube.schema.formats import dialect_of, parse
from danube.schema.parsed import ParsedSchema
from danube.schema.protobuf.proto_text import described_file
from danube.schema.validation import judge, validator

_ROOT = "schema.proto"


@dataclass(frozen=True, slots=True)
class CompatibilityRule:
    """Rules of a subject: its mode, and the policy for JSON Schemas."""

    mode: CompatibilityMode
    json_policy: JsonPolicy


@dataclass(frozen=True, slots=True)
class Comparison:
    """Differences of a definition from earlier versions."""

    differences: tuple[SchemaDifference, ...]
    compared: tuple[int, ...]

    @property
    def conflicts(self) -> tuple[SchemaDifference, ...]:
        """Differences that break what the mode asks for."""
        return tuple(one for one in self.differences if one.breaks)


class Definitions:
    """Parses, compares and compiles definitions, on a thread of its own."""

    def __init__(
        self, records: SchemaRecords, thread: BlockingRunner, proto_thread: BlockingRunner, checks: CheckProcess
    ) -> None:
        """`proto_thread` waits for the compiler of Protobuf, so that other formats need not."""
        self._records = records
        self._thread = thread
        self._proto_thread = proto_thread
        self._process = checks
        self._parsed: OrderedDict[tuple[str, int], ParsedSchema] = OrderedDict()
        self._checks: OrderedDict[int, Check] = OrderedDict()

    async def parse(
        self, kind: SchemaType, text: str, references: Sequence[SchemaImport], *, as_confluent: bool = False
    ) -> ParsedSchema:
        """A new definition, with its references. Raises SchemaInvalidError, PreconditionFailedError."""
        resolved = await self._resolved(references, set())
        thread = self._proto_thread if kind is SchemaType.PROTOBUF else self._thread
        dialect = dialect_of(as_confluent=as_confluent)
        return await thread.run(lambda: parse(kind, text, resolved, compile_proto=compile_protos, dialect=dialect))

    async def compiled_file(self, text: str, references: Sequence[SchemaImport]) -> bytes:
        """The serialized FileDescriptorProto of a Protobuf definition. Raises SchemaInvalidError."""
        files = {**await self._resolved(references, set()), _ROOT: text}
        compiled = await self._proto_thread.run(lambda: compile_protos(_ROOT, files))
        return described_file(compiled, _ROOT)

    async def parsed(self, version: VersionRecord) -> ParsedSchema:
        """A registered version."""
        key = (version.subject, version.version)
        found = self._parsed.get(key)
        if found is None:
            as_confluent = version.as_confluent
            found = await self.parse(version.type, version.definition, version.references, as_confluent=as_confluent)
            self._parsed[key] = found
            if len(self._parsed) > SCHEMA_VALIDATORS_MAX:
                self._parsed.popitem(last=False)
        self._parsed.move_to_end(key)
        return found

    async def compare(self, rule: CompatibilityRule, new: ParsedSchema, earlier: Sequence[VersionRecord]) -> Comparison:
        """Every difference from the versions that the mode looks at, judged in both directions."""
        is_transitive = rule.mode in TRANSITIVE
        looked_at = list(earlier) if is_transitive else list(earlier[-1:])
        parsed = [(one.version, await self.parsed(one)) for one in looked_at]
        mode = CompatibilityMode.FULL_TRANSITIVE if is_transitive else CompatibilityMode.FULL
        verdict = await self._thread.run(lambda: check(mode, new, parsed, json_policy=rule.json_policy))
        asked = DIRECTIONS[rule.mode]
        found = tuple(_difference(finding, asked) for finding in verdict.findings)
        return Comparison(found, tuple(one.version for one in looked_at))

    async def check_of(self, version: VersionRecord) -> Check:
        """The compiled validator of a version; the last SCHEMA_VALIDATORS_MAX are kept."""
        found = self._checks.get(version.number)
        if found is None:
            parsed = await self.parsed(version)
            compiled = await self._thread.run(lambda: validator(parsed))
            apart = partial(self._process.judge, version.number, compiled)
            found = self._checks[version.number] = Check(compiled.steps, partial(judge, compiled), apart)
            if len(self._checks) > SCHEMA_VALIDATORS_MAX:
                self._checks.popitem(last=False)
        self._checks.move_to_end(version.number)
        return found

    async def _resolved(self, references: Sequence[SchemaImport], under: set[tuple[str, int]]) -> dict[str, str]:
        """The texts of all references, those of references too, by the names that definitions use."""
        found: dict[str, str] = {}
        for reference in references:
            key = (reference.subject, reference.version)
            if key in under:
                continue
            under.add(key)
            if len(under) > SCHEMA_REFERENCED_MAX:
                raise InvalidRequestError(
                    f"a schema may rest on {SCHEMA_REFERENCED_MAX} others at most: refer to fewer"
                )
            record = await self._records.version(*key)
            if record is None or record.is_deleted:
                raise PreconditionFailedError(
                    f"the reference {reference.name[:80]!r} is to version {reference.version} of"
                    f" {reference.subject[:80]}, which is not registered: register it first"
                )
            found |= await self._resolved(record.references, under)
            found[reference.name] = record.definition
        return found


def _difference(finding: Finding, asked: frozenset[Direction]) -> SchemaDifference:
    difference, broken = finding.difference, finding.broken
    return SchemaDifference(
        kind=difference.kind,
        path=difference.path,
        before=difference.before,
        after=difference.after,
        message=finding.says,
        version=finding.version,
        breaks=bool(broken & asked),
        breaks_backward=Direction.BACKWARD in broken,
        breaks_forward=Direction.FORWARD in broken,
        suggestion=finding.remedy,
    )
