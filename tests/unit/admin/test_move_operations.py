"""Topics that move, or that nobody serves, as operations tell them; and brokers that are drained."""

from dataclasses import replace

import pytest

from danube.admin.cli.parameters import fields_of
from danube.admin.operations import operation_of
from danube.model.calls.admin import TopicMove, TopicState, UnservedTopics
from danube.model.ownership import OwnershipState, StorageMode
from danube.model.plans.plan import Effect
from danube.model.topic import TopicName
from tests.faces.memory_gateway import MemoryGateway
from tests.faces.seeded import ORDERS, seeded_gateway
from tests.unit.admin.test_cluster_operations import asked

WAITS = "waits for broker 7, which has its messages and does not run: start that broker"


@pytest.fixture
def gateway() -> MemoryGateway:
    return seeded_gateway()


async def test_a_topic_that_nobody_serves_is_described_without_numbers(gateway: MemoryGateway) -> None:
    gateway.cluster.topics[str(ORDERS)].state = TopicState(state=OwnershipState.WAITING, reason=WAITS)
    shown = await asked(gateway, "describe_topic", topic=str(ORDERS))
    assert (shown["state"], shown["reason"], shown["target_broker_id"]) == ("waiting", WAITS, None)
    assert (shown["end_offset"], shown["messages_in"], shown["stored_bytes"]) == (None, None, None)
    assert shown["subscriptions"] == ["audit", "billing"]


async def test_topics_are_listed_with_their_states(gateway: MemoryGateway) -> None:
    gateway.cluster.topics[str(ORDERS)].state = TopicState(state=OwnershipState.WAITING, reason=WAITS)
    listed = (await asked(gateway, "list_topics", namespace="default"))["topics"]
    assert {each["name"]: each["state"] for each in listed if each["state"] != "served"} == {str(ORDERS): "waiting"}
    gateway.is_original = True
    assert {each["state"] for each in (await asked(gateway, "list_topics"))["topics"]} == {None}


async def test_a_topic_on_the_move_is_described_with_its_next_broker_and_how_far_it_has_come(
    gateway: MemoryGateway,
) -> None:
    moving = TopicState(state=OwnershipState.MOVING, target_broker_id="8", copied_bytes=10, log_bytes=40)
    gateway.cluster.topics[str(ORDERS)].state = moving
    shown = await asked(gateway, "describe_topic", topic=str(ORDERS))
    wanted = {"state": "moving", "reason": None, "target_broker_id": "8", "copied_bytes": 10, "log_bytes": 40}
    assert {name: shown[name] for name in wanted} == wanted
    assert shown["end_offset"] == 5


async def test_the_status_has_storage_mode_moves_and_topics_that_are_not_served(gateway: MemoryGateway) -> None:
    gateway.cluster.storage_mode = StorageMode.LOCAL
    gateway.cluster.moves = (TopicMove(topic=ORDERS, broker_id="1", target_broker_id="8", copied_bytes=1, log_bytes=2),)
    gateway.cluster.unserved = (UnservedTopics(state=OwnershipState.WAITING, reason=WAITS, topics=3),)
    shown = await asked(gateway, "cluster_status")
    assert (shown["storage_mode"], shown["moves_under_way"]) == ("local", 1)
    assert shown["not_served"] == [{"state": "waiting", "topics": 3, "reason": WAITS}]
    assert shown["moves"] == [
        {"topic": str(ORDERS), "broker_id": "1", "target_broker_id": "8", "copied_bytes": 1, "log_bytes": 2}
    ]


@pytest.mark.parametrize(
    ("state", "status", "said"),
    [
        (OwnershipState.WAITING, "critical", f"nobody serves: 3 ({WAITS}). Start those brokers again"),
        (OwnershipState.OPENING, "warning", "Other brokers open them in a moment: look again"),
    ],
)
async def test_health_tells_topics_that_wait_from_those_that_are_about_to_be_served(
    gateway: MemoryGateway, state: OwnershipState, status: str, said: str
) -> None:
    gateway.cluster.unserved = (UnservedTopics(state=state, reason=WAITS, topics=3),)
    health = await asked(gateway, "health_check")
    (found,) = [each for each in health["checks"] if each["name"] == "topics without owner"]
    assert (health["verdict"], found["status"]) == (status, status)
    assert said in found["detail"]


async def test_health_warns_of_a_drained_broker_and_says_what_to_do(gateway: MemoryGateway) -> None:
    own = gateway.cluster.brokers[0]
    gateway.cluster.brokers = [own, replace(own, broker_id="2", status="drained")]
    gateway.cluster.leader = own.broker_id
    health = await asked(gateway, "health_check")
    assert health["verdict"] == "warning"
    assert "2 is drained. A drained one gets no topics until activate_broker" in health["checks"][0]["detail"]


async def test_moves_act_by_a_plan_and_are_carried_out_with_what_was_asked_for(gateway: MemoryGateway) -> None:
    for name, arguments in (
        ("unload_topic", {"topic": "default/orders", "broker_id": "2"}),
        ("unload_broker", {"broker_id": "1", "namespaces_include": ["/default"]}),
        ("activate_broker", {"broker_id": "1"}),
    ):
        assert operation_of(name).effect is Effect.MOVE
        answer = await asked(gateway, name, **arguments)
        assert answer["status"] == "ready"
    operations = [plan.operation for plan in gateway.stored_plans.values()]
    assert operations[-3:] == ["unload_topic", "unload_broker", "activate_broker"]
    drained = gateway.stored_plans["plan-3"].arguments
    assert drained["namespaces_include"] == ["default"]
    assert TopicName.parse(gateway.stored_plans["plan-2"].arguments["topic"]) == ORDERS


def test_brokers_and_namespaces_of_moves_are_completed() -> None:
    fields = {name: fields_of(operation_of(name)) for name in ("unload_topic", "unload_broker", "activate_broker")}
    assert {name: found["broker_id"].completes for name, found in fields.items()} == dict.fromkeys(fields, "broker")
    assert fields["unload_topic"]["topic"].completes == "topic"
    assert fields["unload_broker"]["namespaces_include"].completes == "namespace"
