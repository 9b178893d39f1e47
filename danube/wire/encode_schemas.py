"""Model values -> protobuf bytes, for what clients ask of the schema registry."""

from danube.model.schema import CompatibilityMode, RegisterSchema, SchemaType
from danube.wire.gen import SchemaRegistry_pb2


def register_schema(call: RegisterSchema) -> bytes:
    """A RegisterSchemaRequest."""
    message = SchemaRegistry_pb2.RegisterSchemaRequest(
        subject=call.subject,
        schema_type=call.type.value,
        schema_definition=call.definition,
        description=call.description,
        created_by=call.created_by,
        tags=call.tags,
    )
    return message.SerializeToString()


def get_schema(schema_id: int, version: int | None) -> bytes:
    """A GetSchemaRequest; without a version it asks for the latest."""
    return SchemaRegistry_pb2.GetSchemaRequest(schema_id=schema_id, version=version).SerializeToString()


def get_latest_schema(subject: str) -> bytes:
    """A GetLatestSchemaRequest."""
    return SchemaRegistry_pb2.GetLatestSchemaRequest(subject=subject).SerializeToString()


def list_versions(subject: str) -> bytes:
    """A ListVersionsRequest."""
    return SchemaRegistry_pb2.ListVersionsRequest(subject=subject).SerializeToString()


def check_compatibility(subject: str, definition: bytes, kind: SchemaType, mode: CompatibilityMode | None) -> bytes:
    """A CheckCompatibilityRequest; without a mode the subject's own counts."""
    message = SchemaRegistry_pb2.CheckCompatibilityRequest(
        subject=subject,
        new_schema_definition=definition,
        schema_type=kind.value,
        compatibility_mode=mode.value if mode else None,
    )
    return message.SerializeToString()


def set_compatibility_mode(subject: str, mode: CompatibilityMode) -> bytes:
    """A SetCompatibilityModeRequest."""
    message = SchemaRegistry_pb2.SetCompatibilityModeRequest(subject=subject, compatibility_mode=mode.value)
    return message.SerializeToString()


def delete_schema_version(subject: str, version: int) -> bytes:
    """A DeleteSchemaVersionRequest."""
    return SchemaRegistry_pb2.DeleteSchemaVersionRequest(subject=subject, version=version).SerializeToString()


def configure_topic_schema(topic: str, subject: str, policy: str, *, check_payloads: bool) -> bytes:
    """A ConfigureTopicSchemaRequest."""
    message = SchemaRegistry_pb2.ConfigureTopicSchemaRequest(
        topic_name=topic, schema_subject=subject, validation_policy=policy, enable_payload_validation=check_payloads
    )
    return message.SerializeToString()


def update_topic_validation_policy(topic: str, policy: str, *, check_payloads: bool) -> bytes:
    """An UpdateTopicValidationPolicyRequest."""
    message = SchemaRegistry_pb2.UpdateTopicValidationPolicyRequest(
        topic_name=topic, validation_policy=policy, enable_payload_validation=check_payloads
    )
    return message.SerializeToString()


def get_topic_schema_config(topic: str) -> bytes:
    """A GetTopicSchemaConfigRequest."""
    return SchemaRegistry_pb2.GetTopicSchemaConfigRequest(topic_name=topic).SerializeToString()
