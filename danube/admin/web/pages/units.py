"""Units of numbers that a form asks for: `seconds` behind a field, so that nobody has to guess."""

from danube.admin.operations.fields import FieldKind, FieldSpec

_BY_END = (("_ms", "ms"), ("_s", "seconds"), ("bytes", "bytes"))
_BY_NAME = {
    "against": "version number",
    "before": "ms since the epoch",
    "days": "days",
    "extra_brokers": "brokers",
    "factor": "times its rate",
    "issued_before_ms": "ms since the epoch",
    "limit": "rows",
    "max_consumers_per_subscription": "consumers",
    "max_consumers_per_topic": "consumers",
    "max_message_size": "bytes",
    "max_moves": "topics",
    "max_parallel": "topics at a time",
    "max_producers_per_topic": "producers",
    "max_publish_rate": "messages/s",
    "max_publish_rate_bytes": "bytes/s",
    "max_redelivery_count": "times",
    "max_subscription_dispatch_rate": "messages/s",
    "max_subscriptions_per_topic": "subscriptions",
    "max_unacked_messages": "messages",
    "partitions": "partitions",
    "schema_id": "schema ID",
    "target_cv": "coefficient of variation",
    "version": "version number",
}
_COUNTED = {"add_partitions": "partitions", "peek_messages": "messages", "skip_messages": "messages"}
"""Units of `count`, by the operation."""


def unit_of(field: FieldSpec, operation: str = "") -> str:
    """The unit of a number; empty for anything else, and for a number whose unit is not known."""
    if field.kind is not FieldKind.NUMBER:
        return ""
    if field.name == "count" and operation in _COUNTED:
        return _COUNTED[operation]
    ending = next((unit for end, unit in _BY_END if field.name.endswith(end)), "")
    return _BY_NAME.get(field.name, ending)
