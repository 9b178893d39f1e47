"""Protobuf bytes -> model values, for what the schema registry answers to clients. Raises InvalidRequestError."""

from danube.model.schema import SchemaInfo, TopicSchemaConfig
from danube.wire.gen import SchemaRegistry_pb2
from danube.wire.interceptors import parse


def registered_id(response: bytes) -> int:
    """The subject's id in a RegisterSchemaResponse."""
    return parse(SchemaRegistry_pb2.RegisterSchemaResponse, response).schema_id


def schema_info(response: bytes) -> SchemaInfo:
    """A GetSchemaResponse."""
    message = parse(SchemaRegistry_pb2.GetSchemaResponse, response)
    return SchemaInfo(
        schema_id=message.schema_id,
        subject=message.subject,
        version=message.version,
        schema_type=message.schema_type,
        schema_definition=message.schema_definition,
        fingerprint=message.fingerprint,
    )


def versions(response: bytes) -> list[int]:
    """The numbers in a ListVersionsResponse."""
    return [entry.version for entry in parse(SchemaRegistry_pb2.ListVersionsResponse, response).versions]


def compatibility(response: bytes) -> tuple[bool, list[str]]:
    """A CheckCompatibilityResponse: whether compatible, and what is not."""
    message = parse(SchemaRegistry_pb2.CheckCompatibilityResponse, response)
    return message.is_compatible, list(message.errors)


def outcome(response: bytes) -> tuple[bool, str]:
    """Whether it was done, and the broker's remark: four answers with one layout."""
    message = parse(SchemaRegistry_pb2.SetCompatibilityModeResponse, response)
    return message.success, message.message


def topic_schema_config(response: bytes) -> TopicSchemaConfig:
    """A GetTopicSchemaConfigResponse."""
    message = parse(SchemaRegistry_pb2.GetTopicSchemaConfigResponse, response)
    return TopicSchemaConfig(
        schema_subject=message.schema_subject,
        validation_policy=message.validation_policy,
        enable_payload_validation=message.enable_payload_validation,
        schema_id=message.schema_id,
    )
