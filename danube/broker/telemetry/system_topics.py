"""Topics of the namespace `system`: brokers write them, and clients read them.

Analytics jobs publish their results to ANALYTICS_TOPIC: each message has to be a record of a result, and no producer
may be exclusive.
"""

from collections.abc import Callable

from danube.model.calls.client import AccessMode, CreateProducer
from danube.model.errors import InvalidRequestError, NotPermittedError, PreconditionFailedError
from danube.model.records.analytics import ANALYTICS_TOPIC, decode_record
from danube.model.records.telemetry import SYSTEM_NAMESPACE
from danube.model.topic import DispatchStrategy, TopicName

PayloadCheck = Callable[[bytes], None]
"""Raises InvalidRequestError for a payload that a topic does not take."""


def refuse_publishing(name: TopicName) -> None:
    """Raise NotPermittedError for a topic that brokers write alone."""
    if name.namespace == SYSTEM_NAMESPACE and name != ANALYTICS_TOPIC:
        raise NotPermittedError(
            f"{name} is a system topic, which brokers write alone: publish to a topic of another namespace"
        )


def refuse_producer(wanted: CreateProducer) -> None:
    """Raise NotPermittedError for a producer that a system topic does not take."""
    refuse_publishing(wanted.topic)
    is_usual = wanted.strategy is DispatchStrategy.RELIABLE and wanted.access_mode is AccessMode.SHARED
    if wanted.topic == ANALYTICS_TOPIC and not is_usual:
        raise NotPermittedError(f"{wanted.topic} is reliable and for all jobs: open a reliable producer that is shared")


def refuse_creating(name: TopicName) -> None:
    """Raise NotPermittedError for a topic, or partitions of one, in the namespace of the brokers' own."""
    if name.namespace == SYSTEM_NAMESPACE:
        raise NotPermittedError(f"{name} would be a system topic, which brokers make alone: use another namespace")


def refuse_at_once(name: TopicName, operation: str) -> None:
    """Raise PreconditionFailedError for a call without a plan that takes something of a system topic away."""
    if name.namespace == SYSTEM_NAMESPACE:
        raise PreconditionFailedError(f"{name} is a system topic: plan {operation}, look at the plan, and apply it")


def payload_check(name: TopicName) -> PayloadCheck | None:
    """The check of each payload that clients publish to a topic; None for no check."""
    return _check_result if name == ANALYTICS_TOPIC else None


def _check_result(payload: bytes) -> None:
    if decode_record(payload) is None:
        raise InvalidRequestError(
            f"{ANALYTICS_TOPIC} takes records of results alone, and this is none: see docs/formats/analytics.md"
        )
