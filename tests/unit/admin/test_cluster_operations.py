"""The agreement on the metadata, as operations show and change it."""

from typing import Any

import pytest

from danube.admin.access import Guard
from danube.admin.execution import Session, execute, parse_arguments
from danube.admin.operations import operation_of
from danube.model.calls.admin import RaftStatus
from danube.model.errors import InvalidRequestError
from danube.model.plans.plan import Caller, Face
from tests.faces.memory_gateway import MemoryGateway
from tests.faces.seeded import seeded_gateway

RAFT = RaftStatus(
    self_node_id="1",
    raft_addr="h1:7650",
    leader_id="2",
    current_term=3,
    last_applied=40,
    voters=("1", "2", "3"),
    learners=("4",),
)


@pytest.fixture
def gateway() -> MemoryGateway:
    made = seeded_gateway()
    made.raft, made.cluster.leader = RAFT, "1"
    return made


async def asked(gateway: MemoryGateway, name: str, **arguments: Any) -> dict[str, Any]:
    operation = operation_of(name)
    session = Session(gateway=gateway, caller=Caller(who="ada@desk", face=Face.CLI), clock=gateway.clock, guard=Guard())
    return (await execute(session, operation, parse_arguments(operation, arguments))).model_dump()


async def test_the_status_lists_each_member_with_its_role(gateway: MemoryGateway) -> None:
    status = await asked(gateway, "cluster_status")
    assert [(row["node_id"], row["role"]) for row in status["members"]] == [
        ("1", "voter"),
        ("2", "leader"),
        ("3", "voter"),
        ("4", "learner"),
    ]
    assert (status["metadata"], status["has_quorum"], status["leader"]) == ("raft", True, "2")
    assert status["leader_broker"] == "1"


async def test_the_status_of_the_original_has_what_it_tells_and_null_for_the_rest(gateway: MemoryGateway) -> None:
    gateway.is_original = True
    status = await asked(gateway, "cluster_status")
    assert (status["voters"], status["learners"], status["leader"]) == (["1", "2", "3"], ["4"], "2")
    assert (status["metadata"], status["has_quorum"], status["members"]) == (None, None, [])


async def test_a_node_is_added_and_another_one_made_to_lead(gateway: MemoryGateway) -> None:
    added = await asked(gateway, "add_cluster_node", node_addr="h5:7650", node_id="5")
    assert (added["node_id"], added["added"]) == ("5", True)
    assert await asked(gateway, "transfer_leadership", node_id="3") == {"leader": "3"}
    assert gateway.cluster.carried_out == ["add_node h5:7650", "transfer_leadership 3"]


@pytest.mark.parametrize("operation", ["promote_cluster_node", "remove_cluster_node"])
async def test_votes_change_by_a_plan_alone(gateway: MemoryGateway, operation: str) -> None:
    before = gateway.digest()
    answer = await asked(gateway, operation, node_id="4")
    assert answer["status"] in {"ready", "waiting"}
    assert gateway.digest() == before


@pytest.mark.parametrize("node_id", ["", "x", "-1", "1" * 21])
def test_what_is_no_node_s_id_is_refused_by_the_face(node_id: str) -> None:
    with pytest.raises(InvalidRequestError):
        parse_arguments(operation_of("remove_cluster_node"), {"node_id": node_id})


@pytest.mark.parametrize(
    ("away", "status", "said"),
    [
        (set(), "ok", "3 voters, all connected"),
        ({"3"}, "warning", "1 of 4 members are away: memory:3 (3)"),
        ({"2", "3"}, "critical", "no majority of the 3 voters is reached"),
    ],
)
async def test_health_says_whether_a_majority_agrees(
    gateway: MemoryGateway, away: set[str], status: str, said: str
) -> None:
    gateway.away = away
    health = await asked(gateway, "health_check")
    (check,) = [one for one in health["checks"] if one["name"] == "agreement"]
    assert check["status"] == status
    assert said in check["detail"]
    assert (health["verdict"] == "critical") == (status == "critical")


async def test_health_of_a_broker_that_stands_alone_says_nothing_of_agreement() -> None:
    health = await asked(seeded_gateway(), "health_check")
    assert "agreement" not in {check["name"] for check in health["checks"]}
