"""The original broker, administered: what is routed, mended and refused beyond the contract that holds for all."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from danube.admin.gateway import AdminGateway
from danube.admin.grpc_gateway import open_gateway
from danube.admin.grpc_gateway.original import real_subscriptions
from danube.admin.target import Target
from danube.model import errors
from danube.model.calls.admin import AddNode, BrokerInfo, CreatePartitionedTopic, RaftStatus
from danube.model.plans.plan import (
    Caller,
    Decision,
    Effect,
    Face,
    Plan,
    PlanApplication,
    PlanRequest,
    PlanStatus,
)
from danube.model.topic import DispatchStrategy, TopicName
from tests.contracts.admin_worlds import TIMEOUT_S, served
from tests.contracts.original_broker import OriginalBroker

PERSON = Caller(who="ada@desk", face=Face.CLI)
ORDERS = TopicName("default", "orders")
RAFT = RaftStatus(
    self_node_id="1",
    raft_addr="127.0.0.1:7650",
    leader_id="2",
    current_term=3,
    last_applied=40,
    voters=("1", "2"),
    learners=("3",),
)


@pytest.fixture
def original() -> OriginalBroker:
    return OriginalBroker()


@pytest.fixture
async def endpoint(original: OriginalBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[str]:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    async with served(original) as endpoint:
        yield endpoint


@pytest.fixture
async def gateway(endpoint: str) -> AsyncIterator[AdminGateway]:
    async with open_gateway(Target(endpoint=endpoint, timeout_s=TIMEOUT_S)) as gateway:
        yield gateway


async def planned(
    gateway: AdminGateway,
    operation: str,
    *,
    needs_approval: bool = False,
    effect: Effect = Effect.DESTROY,
    **arguments: Any,
) -> Plan:
    request = PlanRequest(
        operation=operation,
        arguments=arguments,
        effect=effect,
        caller=PERSON,
        needs_approval=needs_approval,
    )
    return await gateway.create_plan(request)


async def apply(gateway: AdminGateway, plan: Plan) -> Plan:
    application = PlanApplication(
        plan_id=plan.plan_id, operation=plan.operation, arguments=plan.arguments, caller=PERSON
    )
    return await gateway.apply_plan(application)


# Reading


async def test_in_a_cluster_it_tells_who_agrees(gateway: AdminGateway, original: OriginalBroker) -> None:
    original.raft = RAFT
    assert await gateway.raft_status() == RAFT
    assert await gateway.leader() == "2"


async def test_topics_of_a_namespace_whose_name_begins_alike_are_left_out(
    gateway: AdminGateway, original: OriginalBroker
) -> None:
    original.namespaces.add("defaulted")
    original.topics["/defaulted/other"] = DispatchStrategy.RELIABLE
    assert {info.topic.namespace for info in await gateway.topics("default")} == {"default"}


async def test_names_that_our_grammar_refuses_are_shown_as_they_are(
    gateway: AdminGateway, original: OriginalBroker
) -> None:
    strange = ["/default/with space", "/default/more/parts", "/default/\x1b[31mred"]
    original.topics.update(dict.fromkeys(strange, DispatchStrategy.RELIABLE))
    assert set(strange) <= {str(info.topic) for info in await gateway.topics("default")}


@pytest.mark.parametrize(
    ("listed", "real"),
    [
        (["billing", "billing", "cursor", "failure_policy", "dispatch_config"], ["billing"]),
        (["b", "a", "b"], ["a", "b"]),
        (["cursor", "cursor"], ["cursor"]),
        ([], []),
    ],
)
def test_keys_below_a_subscription_are_no_subscriptions(listed: list[str], real: list[str]) -> None:
    assert real_subscriptions(listed) == real


# Acting


async def test_in_a_cluster_a_base_name_is_deleted_by_one_call(gateway: AdminGateway, original: OriginalBroker) -> None:
    original.raft = RAFT
    await apply(gateway, await planned(gateway, "delete_topic", topic="/default/events"))
    assert original.deleted == ["/default/events"]


async def test_outside_a_cluster_each_partition_is_deleted(gateway: AdminGateway, original: OriginalBroker) -> None:
    await apply(gateway, await planned(gateway, "delete_topic", topic="/default/events"))
    assert original.deleted == [f"/default/events-part-{index}" for index in range(3)]


async def test_a_plan_whose_call_failed_is_spent(gateway: AdminGateway, original: OriginalBroker) -> None:
    plan = await planned(gateway, "unsubscribe", topic=str(ORDERS), subscription="audit")
    original.connected.add((str(ORDERS), "audit"))
    with pytest.raises(errors.PreconditionFailedError, match=r"stop its consumers.*is spent"):
        await apply(gateway, plan)
    with pytest.raises(errors.PlanRefusedError, match="applied already"):
        await apply(gateway, plan)
    assert "audit" in original.subscriptions[str(ORDERS)]


async def test_a_call_that_goes_to_the_wrong_broker_is_sent_to_the_right_one(
    gateway: AdminGateway, original: OriginalBroker
) -> None:
    host = OriginalBroker()
    async with served(host) as url:
        own = BrokerInfo(
            broker_id="1", broker_url="", role="Cluster_Leader", status="active", admin_url="http://0.0.0.0:1"
        )
        other = BrokerInfo(
            broker_id="2",
            broker_url="",
            role="Cluster_Follower",
            status="active",
            admin_url=url.replace("127.0.0.1", "0.0.0.0"),
        )
        original.brokers = [other, own]
        await apply(gateway, await planned(gateway, "unsubscribe", topic=str(ORDERS), subscription="audit"))
    assert host.subscriptions[str(ORDERS)] == {"billing"}
    assert original.subscriptions[str(ORDERS)] == {"billing", "audit"}


async def test_what_the_original_cannot_plan_is_refused_and_named(gateway: AdminGateway) -> None:
    with pytest.raises(errors.UnsupportedError, match="trigger_rebalance"):
        await planned(gateway, "trigger_rebalance")


async def test_partitions_that_are_there_already_are_said_to_be(
    gateway: AdminGateway, original: OriginalBroker
) -> None:
    original.topics["/default/a-part-0"] = DispatchStrategy.RELIABLE
    base = TopicName("default", "a")
    with pytest.raises(errors.TopicExistsError, match="/default/a-part-0"):
        await gateway.create_partitioned_topic(
            CreatePartitionedTopic(base=base, partitions=2, strategy=DispatchStrategy.RELIABLE)
        )


# What is kept in the user's folder


async def test_a_plan_is_approved_and_applied_by_later_commands(endpoint: str) -> None:
    target = Target(endpoint=endpoint, timeout_s=TIMEOUT_S)
    async with open_gateway(target) as asking:
        plan = await planned(asking, "delete_topic", needs_approval=True, topic=str(ORDERS))
    async with open_gateway(target) as approving:
        await approving.decide_plan(Decision(plan_id=plan.plan_id, approve=True, caller=PERSON))
    async with open_gateway(target) as applying:
        assert (await apply(applying, plan)).status(plan.created_ms) is PlanStatus.APPLIED


async def test_plans_of_one_endpoint_are_none_of_another(gateway: AdminGateway) -> None:
    plan = await planned(gateway, "delete_topic", topic=str(ORDERS))
    async with AsyncExitStack() as parts:
        other = await parts.enter_async_context(served(OriginalBroker()))
        elsewhere = await parts.enter_async_context(open_gateway(Target(endpoint=other, timeout_s=TIMEOUT_S)))
        assert list(await elsewhere.plans()) == []
        with pytest.raises(errors.PlanNotFoundError):
            await elsewhere.plan(plan.plan_id)


async def test_the_folder_is_told(gateway: AdminGateway, tmp_path: Path) -> None:
    folder = (await gateway.connection()).state_folder
    assert folder is not None
    assert folder.startswith(str(tmp_path))


# Members of the cluster


LEADING = replace(RAFT, self_node_id="2", voters=("1", "2", "4"))


async def test_a_waiting_broker_is_asked_who_it_is_and_added_with_that(
    gateway: AdminGateway, endpoint: str, original: OriginalBroker
) -> None:
    original.raft = replace(LEADING, self_node_id="9", raft_addr="h9:7650")
    assert await gateway.add_node(AddNode(address=endpoint)) == "9"
    assert original.raft.learners == ("3", "9")
    with pytest.raises(errors.NotFoundError, match="is node 9 and not 8"):
        await gateway.add_node(AddNode(address=endpoint, node_id="8"))


async def test_a_learner_is_promoted_and_a_voter_removed_by_a_plan(
    gateway: AdminGateway, original: OriginalBroker
) -> None:
    original.raft = LEADING
    plan = await planned(gateway, "promote_cluster_node", effect=Effect.MOVE, node_id="3")
    assert plan.impact.changes == ("Give node 3 a vote.",)
    await apply(gateway, plan)
    await apply(gateway, await planned(gateway, "remove_cluster_node", node_id="1"))
    assert (original.raft.voters, original.raft.learners) == (("2", "4", "3"), ())


@pytest.mark.parametrize(
    ("node_id", "raft", "said"),
    [
        ("1", RAFT, "node 2 leads, and the original's brokers change members nowhere else"),
        ("2", LEADING, "node 2 leads: stop its broker first"),
        ("7", LEADING, "there is no node 7"),
    ],
)
async def test_a_member_that_cannot_be_removed_gets_no_plan(
    gateway: AdminGateway, original: OriginalBroker, node_id: str, raft: RaftStatus, said: str
) -> None:
    original.raft = raft
    with pytest.raises(errors.DanubeError, match=said):
        await planned(gateway, "remove_cluster_node", node_id=node_id)


async def test_a_topic_or_each_of_its_partitions_is_unloaded_by_a_plan(
    gateway: AdminGateway, original: OriginalBroker
) -> None:
    for topic in ("/default/orders", "/default/events", "/default/events-part-1"):
        await apply(gateway, await planned(gateway, "unload_topic", effect=Effect.MOVE, topic=topic, broker_id=None))
    partitions = [f"/default/events-part-{number}" for number in range(3)]
    assert original.moved == ["/default/orders", *partitions, partitions[1]]
    with pytest.raises(errors.UnsupportedError, match="chooses itself where a topic goes"):
        await planned(gateway, "unload_topic", effect=Effect.MOVE, topic="/default/orders", broker_id="8")


async def test_a_broker_is_unloaded_and_activated_by_plans(gateway: AdminGateway, original: OriginalBroker) -> None:
    own = original.brokers[0]
    drain: dict[str, Any] = {
        "broker_id": own.broker_id,
        "max_parallel": 4,
        "namespaces_include": [],
        "namespaces_exclude": ["default"],
    }
    alone = await planned(gateway, "unload_broker", effect=Effect.MOVE, **drain)
    assert alone.impact.topic_count == 0
    with pytest.raises(errors.PreconditionFailedError, match="not enough brokers"):
        await apply(gateway, alone)
    original.brokers.append(replace(own, broker_id="8"))
    every = await planned(gateway, "unload_broker", effect=Effect.MOVE, **{**drain, "namespaces_exclude": []})
    assert every.impact.changes[0] == f"Have 5 topics leave broker {own.broker_id}."
    await apply(gateway, await planned(gateway, "unload_broker", effect=Effect.MOVE, **drain))
    await apply(gateway, await planned(gateway, "activate_broker", effect=Effect.MOVE, broker_id=own.broker_id))
    assert original.moved == [f"{own.broker_id} 4 default", f"{own.broker_id} admin_activate"]
    with pytest.raises(errors.NotFoundError, match="there is no broker '9'"):
        await planned(gateway, "activate_broker", effect=Effect.MOVE, broker_id="9")


async def test_what_only_our_brokers_tell_and_do_says_so(gateway: AdminGateway) -> None:
    with pytest.raises(errors.UnsupportedError, match="only brokers of this project"):
        await gateway.describe_cluster()
    with pytest.raises(errors.UnsupportedError, match="only brokers of this project"):
        await gateway.transfer_leadership(None)
