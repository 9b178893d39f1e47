"""Brokers go by short names: people read and type `host:port`, programs ids."""

from dataclasses import replace
from typing import Any

import pytest

from danube.admin.access import Guard
from danube.admin.broker_names import as_ids, learn_brokers, named
from danube.admin.completion import names_of
from danube.admin.execution import Session, execute, parse_arguments
from danube.admin.operations import operation_of
from danube.admin.operations.fields import Result
from danube.admin.present import view_of
from danube.model.calls.admin import UNREACHABLE, BrokerInfo
from danube.model.errors import NotFoundError
from danube.model.plans.plan import Caller, Face
from tests.faces.memory_gateway import MemoryGateway
from tests.faces.seeded import seeded_gateway

FIRST, SECOND, GONE = "8429924150800420725", "1489694917952506352", "3397318921461782014"


def broker(broker_id: str, port: int, **fields: Any) -> BrokerInfo:
    info = BrokerInfo(
        broker_id=broker_id,
        broker_url=f"http://10.0.0.7:{port}",
        role="Cluster_Follower",
        status="active",
        admin_url=f"http://10.0.0.7:{port + 1_000}",
    )
    return replace(info, **fields)


@pytest.fixture
def gateway() -> MemoryGateway:
    made = seeded_gateway()
    made.cluster.brokers[:] = [broker(FIRST, 6650), broker(SECOND, 6651)]
    return made


async def called(gateway: MemoryGateway, name: str, **arguments: Any) -> Result:
    operation = operation_of(name)
    caller = Caller(who="ada", face=Face.CLI)
    session = Session(gateway=gateway, caller=caller, clock=gateway.clock, guard=Guard())
    return await execute(session, operation, parse_arguments(operation, arguments))


@pytest.mark.parametrize("given", [SECOND, "10.0.0.7:6651", "10.0.0.7:7651", "http://10.0.0.7:6651"])
async def test_an_operation_takes_a_broker_by_id_client_address_or_admin_address(
    gateway: MemoryGateway, given: str
) -> None:
    planned = (await called(gateway, "unload_broker", broker_id=given)).model_dump()
    assert planned["plan"]["arguments"]["broker_id"] == SECOND
    metrics = (await called(gateway, "get_metrics", broker_id=given)).model_dump()
    assert metrics["not_answered"] == []
    listed = (await called(gateway, "list_topics", broker=given)).model_dump()
    assert listed["topics"] == []


async def test_what_names_no_broker_is_refused_with_the_names_there_are(gateway: MemoryGateway) -> None:
    with pytest.raises(NotFoundError, match=r"10\.0\.0\.9:1.: name one of 10\.0\.0\.7:6650, 10\.0\.0\.7:6651"):
        await called(gateway, "get_broker_logs", broker_id="10.0.0.9:1")


async def test_people_see_names_and_with_verbose_ids_and_programs_ids(gateway: MemoryGateway) -> None:
    operation, result = operation_of("list_brokers"), await called(gateway, "list_brokers")
    assert [row["broker_id"] for row in result.model_dump()["brokers"]] == sorted([FIRST, SECOND])
    (table,) = view_of(operation, result).tables
    assert [row[0] for row in table.rows] == ["10.0.0.7:6651", "10.0.0.7:6650"]
    with as_ids(True):
        (table,) = view_of(operation, result).tables
        assert [row[0] for row in table.rows] == [SECOND, FIRST]


async def test_texts_and_errors_name_brokers_and_leave_other_numbers_alone(gateway: MemoryGateway) -> None:
    learn_brokers(gateway.cluster.brokers)
    text = f"from broker {FIRST} to {SECOND}, at offset 842992415080042072 of 84299241508004207251"
    shown = "from broker 10.0.0.7:6650 to 10.0.0.7:6651, at offset 842992415080042072 of 84299241508004207251"
    assert named(text) == shown
    gateway.failures["broker_logs"] = NotFoundError(f"broker {FIRST} is away")
    with pytest.raises(NotFoundError, match=r"^broker 10\.0\.0\.7:6650 is away$"):
        await called(gateway, "get_broker_logs")


def test_an_address_that_two_brokers_have_names_none_and_a_successor_takes_that_of_a_gone_one() -> None:
    learn_brokers([broker(FIRST, 1), broker(SECOND, 1)])
    assert named(f"{FIRST} {SECOND}") == f"{FIRST} {SECOND}"
    learn_brokers([broker(FIRST, 2), broker(GONE, 2, status=UNREACHABLE)])
    assert named(f"{FIRST} {GONE}") == f"10.0.0.7:2 {GONE}"


async def test_names_are_offered_to_complete_what_is_typed(gateway: MemoryGateway) -> None:
    assert await names_of(gateway, "broker") == ["10.0.0.7:6650", "10.0.0.7:6651"]
