"""Messages of the schema registry, as clients use it. Requests that are no dataclass are tuples of their fields."""

from operator import attrgetter

from danube.model.calls.schemas import (
    CheckedVersion,
    CheckVersion,
    FindVersion,
    ModeAnswer,
    RegisteredSchema,
    RegisterVersion,
    SchemaAnswer,
    SchemaDifference,
    SchemaVersionInfo,
    SetMode,
    SubjectSummary,
    VersionDescription,
    VersionUse,
)
from danube.model.schema import (
    CompatibilityMode,
    RegisterSchema,
    SchemaImport,
    SchemaInfo,
    SchemaType,
    TopicSchemaConfig,
)
from danube.wire.codec import Codec, Rule, listing, record, row, single
from danube.wire.gen import DanubeControl_pb2 as control
from danube.wire.gen import SchemaRegistry_pb2 as pb

REGISTER_SCHEMA = record(RegisterSchema, pb.RegisterSchemaRequest, type="schema_type", definition="schema_definition")
REGISTERED_ID = single(pb.RegisterSchemaResponse, "schema_id", int)
GET_SCHEMA: Codec[tuple[int, int | None]] = row(pb.GetSchemaRequest, schema_id=int, version=int | None)
"""Without a version, the latest."""
GET_LATEST_SCHEMA = single(pb.GetLatestSchemaRequest, "subject", str)
SCHEMA_INFO = record(SchemaInfo, pb.GetSchemaResponse)
LIST_VERSIONS = single(pb.ListVersionsRequest, "subject", str)
VERSIONS = listing(
    pb.ListVersionsResponse,
    "versions",
    int,
    Rule(decode=attrgetter("version"), encode=lambda version: pb.SchemaVersionInfo(version=version)),
)
CHECK_COMPATIBILITY: Codec[tuple[str, bytes, SchemaType, CompatibilityMode | None]] = row(
    pb.CheckCompatibilityRequest,
    subject=str,
    new_schema_definition=bytes,
    schema_type=SchemaType,
    compatibility_mode=CompatibilityMode | None,
)
"""Without a mode, the subject's own."""
COMPATIBILITY: Codec[tuple[bool, tuple[str, ...]]] = row(
    pb.CheckCompatibilityResponse, is_compatible=bool, errors=tuple[str, ...]
)
SET_COMPATIBILITY_MODE: Codec[tuple[str, CompatibilityMode]] = row(
    pb.SetCompatibilityModeRequest, subject=str, compatibility_mode=CompatibilityMode
)
DELETE_SCHEMA_VERSION: Codec[tuple[str, int]] = row(pb.DeleteSchemaVersionRequest, subject=str, version=int)
OUTCOME: Codec[tuple[bool, str]] = row(pb.SetCompatibilityModeResponse, success=bool, message=str)
"""Success, and the broker's remark: four answers with one layout."""
CONFIGURE_TOPIC_SCHEMA: Codec[tuple[str, str, str, bool]] = row(
    pb.ConfigureTopicSchemaRequest,
    topic_name=str,
    schema_subject=str,
    validation_policy=str,
    enable_payload_validation=bool,
)
UPDATE_VALIDATION_POLICY: Codec[tuple[str, str, bool]] = row(
    pb.UpdateTopicValidationPolicyRequest, topic_name=str, validation_policy=str, enable_payload_validation=bool
)
GET_TOPIC_SCHEMA_CONFIG = single(pb.GetTopicSchemaConfigRequest, "topic_name", str)
TOPIC_SCHEMA_CONFIG = record(TopicSchemaConfig, pb.GetTopicSchemaConfigResponse)
LIST_SUBJECTS: Codec[None] = Codec(pb.ListSubjectsRequest, lambda _: None, lambda _: {})

# As a broker answers

REGISTERED = record(RegisteredSchema, pb.RegisterSchemaResponse)
SCHEMA_ANSWER = record(SchemaAnswer, pb.GetSchemaResponse)
record(SchemaVersionInfo, pb.SchemaVersionInfo)
VERSION_INFOS = listing(pb.ListVersionsResponse, "versions", SchemaVersionInfo)
record(SubjectSummary, pb.SubjectSummary)
SUBJECTS = listing(pb.ListSubjectsResponse, "subjects", SubjectSummary)

# Calls that only our brokers have

record(SchemaImport, control.SchemaImport)
record(SchemaDifference, control.SchemaDifference)
record(VersionUse, control.VersionUse)
REGISTER_VERSION = record(RegisterVersion, control.RegisterVersionRequest)
VERSION_REGISTERED = record(RegisteredSchema, control.RegisterVersionResponse)
CHECK_VERSION = record(CheckVersion, control.CheckVersionRequest)
CHECKED_VERSION = record(CheckedVersion, control.CheckVersionResponse)
FIND_VERSION = record(FindVersion, control.FindVersionRequest)
VERSION_DESCRIPTION = record(VersionDescription, control.VersionDescription)
SET_MODE = record(SetMode, control.SetModeRequest)
MODE = record(ModeAnswer, control.SetModeResponse)
