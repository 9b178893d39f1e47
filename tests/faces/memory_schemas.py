"""The schema registry of a cluster in memory: the broker's own rules and records, on a store that keeps nothing."""

from collections.abc import Callable, Coroutine, Iterator, Sequence
from typing import Any, TypeVar

from danube.broker.control.plans.schemas import schema_changes
from danube.broker.schemas.control import SchemaControl
from danube.broker.schemas.definitions import Definitions
from danube.metadata.memory import MemoryStore
from danube.metadata.records.record_format import TopicRecord
from danube.metadata.schemas.schema_records import SchemaRecords
from danube.model.calls.schemas import (
    CheckedVersion,
    CheckVersion,
    FindVersion,
    ModeAnswer,
    RegisteredSchema,
    RegisterVersion,
    SchemaVersionInfo,
    SetMode,
    SubjectSummary,
    VersionDescription,
)
from danube.model.plans.plan import Impact, Plan, PlanRequest
from danube.model.schema import SchemaType, TopicSchema, TopicSchemaConfig
from danube.model.topic import TopicName
from danube.runtime.clock import Clock
from danube.runtime.payload_checks.process import CheckProcess
from danube.runtime.rng import SystemRng
from danube.testing.simulated.clock import SimClock
from tests.faces.memory_cluster import MemoryCluster

T = TypeVar("T")

_DELETION = "delete_schema_version"
SUBJECT = "orders-value"
ORDER_1 = '{"type": "object", "properties": {"id": {"type": "integer"}}, "required": ["id"]}'
ORDER_2 = (
    '{"type": "object", "properties": {"id": {"type": "integer"}, "note": {"type": "string"}}, "required": ["id"]}'
)
SEEDED_VERSIONS = tuple(
    RegisterVersion(
        subject=SUBJECT,
        type=SchemaType.JSON_SCHEMA,
        definition=text.encode(),
        description="an order",
        created_by="seed",
    )
    for text in (ORDER_1, ORDER_2)
)
"""The versions that a seeded cluster has."""


class _AtOnce:
    """A `BlockingRunner` that does its work where it is asked to."""

    async def run(self, work: Callable[[], T]) -> T:
        return work()

    def rest(self) -> None:
        """Nothing else runs."""

    async def aclose(self) -> None:
        """Nothing was begun."""


class _Topics:
    """The topics of the cluster, with their schema configuration."""

    def __init__(self, cluster: MemoryCluster) -> None:
        self._cluster = cluster
        self._schemas: dict[str, TopicSchema] = {}

    async def change_topic_schema(self, name: TopicName, change: Callable[[TopicSchema], TopicSchema]) -> None:
        for record in self.records_behind(name):
            self._schemas[str(record.name)] = change(record.schema)

    def records_behind(self, name: TopicName) -> list[TopicRecord]:
        return [self._record(topic.name) for topic in self._cluster.behind(name)]

    def records(self) -> Iterator[TopicRecord]:
        yield from (self._record(topic.name) for topic in self._cluster.topics.values())

    def _record(self, name: TopicName) -> TopicRecord:
        topic = self._cluster.topics[str(name)]
        record = TopicRecord(name, topic.topic_id, topic.strategy, topic.created_ms, topic.schema_subject)
        return record.with_schema(self._schemas.get(str(name), record.schema))


class MemorySchemas:
    """The registry's part of a gateway in memory."""

    def __init__(self, clock: Clock | None) -> None:
        self.clock: Clock = clock or SimClock()
        self.cluster = MemoryCluster()
        records, at_once = SchemaRecords(MemoryStore(self.clock), SystemRng()), _AtOnce()
        topics: Any = _Topics(self.cluster)
        self._registry = SchemaControl(
            records, Definitions(records, at_once, at_once, CheckProcess()), topics, self.clock
        )

    def seed_schemas(self, bound: TopicName) -> None:
        """Register what a seeded cluster has, and bind a topic to it."""
        for version in SEEDED_VERSIONS:
            _completed(self._registry.register_version(version))
        _completed(self._registry.configure_topic((str(bound), SUBJECT, "warn", False)))

    def schema_impact(self, of: PlanRequest | Plan) -> Impact | None:
        """The impact of a deletion; None for any other operation."""
        if of.operation != _DELETION:
            return None
        call = schema_changes(self._registry)[_DELETION].parse(of.arguments)
        return _completed(call.impact())  # type: ignore[arg-type]  # a coroutine, as every async function makes

    def delete_schema(self, plan: Plan) -> None:
        """Carry a deletion out."""
        if plan.operation == _DELETION:
            _completed(self._registry.delete((plan.arguments["subject"], plan.arguments["version"])))

    async def subjects(self) -> Sequence[SubjectSummary]:
        return await self._registry.subjects()

    async def schema_versions(self, subject: str) -> Sequence[SchemaVersionInfo]:
        return await self._registry.versions(subject)

    async def subject_of(self, schema_id: int) -> str:
        return (await self._registry.get((schema_id, None))).subject

    async def find_version(self, wanted: FindVersion) -> VersionDescription:
        return await self._registry.describe(wanted)

    async def register_version(self, wanted: RegisterVersion) -> RegisteredSchema:
        return await self._registry.register_version(wanted)

    async def check_version(self, wanted: CheckVersion) -> CheckedVersion:
        return await self._registry.check_version(wanted)

    async def schema_mode(self, wanted: SetMode) -> ModeAnswer:
        return await self._registry.mode(wanted)

    async def configure_topic_schema(self, topic: TopicName, schema: TopicSchema) -> None:
        policy, checks = schema.policy.value, schema.checks_payloads
        if schema.subject is None:
            await self._registry.update_policy((str(topic), policy, checks))
        else:
            await self._registry.configure_topic((str(topic), schema.subject, policy, checks))

    async def topic_schema(self, topic: TopicName) -> TopicSchemaConfig:
        return await self._registry.topic_config(str(topic))


def _completed(work: Coroutine[Any, Any, T]) -> T:
    """The result of a coroutine that waits for nothing."""
    try:
        work.send(None)
    except StopIteration as end:
        result: T = end.value
        return result
    raise AssertionError("it waits")
