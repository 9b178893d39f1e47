"""A partitioned topic reads the same on every face: its lag, and each field as a sum or by a rule."""

from dataclasses import replace

from danube.admin.operations.topics.topic_list import TopicRow as ListedRow
from danube.admin.operations.topics.topics import TopicDetail, _partitioned
from danube.admin.tui.data.topic_rows import TopicRows, folded
from danube.admin.web.views.topics import _line
from danube.model.calls.admin import TopicDescription, TopicDetails, TopicInfo, TopicState
from danube.model.calls.object_use import TopicStorageDescription
from danube.model.ownership import OwnershipState
from danube.model.plans.durability import Durability
from danube.model.topic import DispatchStrategy, TopicName
from tests.faces.memory_cluster import MemorySubscription, MemoryTopic, described_topic

EVENTS = TopicName("default", "events")
OFFSETS = {"start_offset", "end_offset"}
"""A sum of offsets says nothing: each partition has its own."""


def partition(index: int, positions: dict[str, int]) -> TopicDescription:
    """A partition of ten messages, with the position of each subscription."""
    name = EVENTS.partition(index)
    topic = MemoryTopic(name=name, topic_id=index + 1, strategy=DispatchStrategy.RELIABLE, messages=10)
    topic.subscriptions = {group: MemorySubscription(name=group, position=at) for group, at in positions.items()}
    return described_topic(topic, str(index))


def test_the_lag_of_a_partitioned_topic_is_summed_by_subscription_and_then_the_largest_on_every_face() -> None:
    partitions = [partition(0, {"billing": 0, "audit": 10}), partition(1, {"billing": 10, "audit": 0})]
    rows = TopicRows()
    rows.start()
    rows.add_described(partitions, 0.0)
    rows.finish()
    ((tui, _),) = folded(rows.lines, set())
    listed = [
        ListedRow(name=str(each.topic), broker_id="1", delivery="Reliable", state=None, partitions=2)
        for each in partitions
    ]
    web = _line(str(EVENTS), listed, {str(each.topic): each for each in partitions})
    assert (tui.lag, web.lag) == (10, 10)
    assert [line.lag for line in web.partitions] == [10, 10]


def detail(*partitions: TopicDescription) -> TopicDetail:
    info = TopicInfo(topic=partitions[0].topic, broker_id="1", strategy=DispatchStrategy.RELIABLE)
    schema = {"schema_subject": "events", "schema_id": 1, "schema_version": 1, "schema_type": "json_schema"}
    first = TopicDetails(info=info, subscriptions=(), compatibility_mode="BACKWARD", **schema)  # type: ignore[arg-type]
    return _partitioned(EVENTS, partitions, first, policies=[], not_answered=[])


def test_every_field_of_a_partitioned_topic_has_its_sum_or_its_rule() -> None:
    storage = TopicStorageDescription(
        **{name: 1 for name in TopicStorageDescription.__dataclass_fields__ if name != "durability"},
        durability=Durability.FSYNC,
    )
    moving = TopicState(state=OwnershipState.MOVING, target_broker_id="3", copied_bytes=5, log_bytes=9, reason="")
    stored = [replace(partition(index, {"s": 0}), storage=storage, state=moving) for index in range(2)]
    told = detail(*stored)
    assert {name for name in TopicDetail.model_fields if getattr(told, name) is None} - {"reason"} == OFFSETS
    sums = {name: getattr(told, name) for name in TopicStorageDescription.__dataclass_fields__ if hasattr(told, name)}
    whole = {name: value for name, value in sums.items() if isinstance(value, int) and not name.endswith("_ms")}
    assert set(whole.values()) == {2}, whole
    assert (told.copied_bytes, told.log_bytes, told.target_broker_id) == (10, 18, "3")
    assert (told.unsynced_bytes, told.segment_file_bytes) == (2, 2)
