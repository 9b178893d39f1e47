"""A cluster that is reached by several of its brokers: the next one is asked where one is dead."""

import asyncio
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, closing
from pathlib import Path

import pytest

from danube.admin.gateway import OfBroker
from danube.admin.grpc_gateway.broker_connection import BrokerConnection, ConnectionPool
from danube.admin.grpc_gateway.calls import AdminCalls, EveryBroker
from danube.admin.profiles import TargetFlags, checked_endpoint, read_contexts, resolve_target, set_context
from danube.admin.target import Target
from danube.model.errors import (
    BrokerUnreachableError,
    DeadlineExceededError,
    NotPermittedError,
    SettingsError,
    UnavailableError,
)
from danube.rpc.carrier import Service, UnaryCall
from danube.rpc.engines import client_carrier
from danube.rpc.grpc.carrier import GrpcCarrier
from danube.runtime.clock import SystemClock
from danube.testing.patience import PATIENCE_S

READ, WRITE = "/danube_admin.BrokerAdmin/ListNamespaces", "/danube_admin.BrokerAdmin/UnloadBroker"
SHORT_S = 0.2


def _answer(request: bytes, call: UnaryCall) -> bytes:
    del request, call
    return b"here"


@pytest.fixture
async def living() -> AsyncIterator[str]:
    service = Service("danube_admin.BrokerAdmin", unary={"ListNamespaces": _answer, "UnloadBroker": _answer})
    server = await GrpcCarrier(SystemClock()).serve("127.0.0.1:0", [service])
    yield f"http://{server.address}"
    await server.stop(0)


@pytest.fixture
def dead() -> str:
    with closing(socket.create_server(("127.0.0.1", 0))) as listener:
        return f"http://127.0.0.1:{listener.getsockname()[1]}"


@pytest.fixture
def hanging() -> Iterator[str]:
    """Connections are taken and never answered."""
    with closing(socket.create_server(("127.0.0.1", 0))) as listener:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"


@asynccontextmanager
async def pool_of(*endpoints: str, timeout_s: float = PATIENCE_S) -> AsyncIterator[ConnectionPool]:
    target = Target(endpoint=checked_endpoint(",".join(endpoints), tls=False), timeout_s=timeout_s)
    async with AsyncExitStack() as running:
        pool = ConnectionPool(target, client_carrier(SystemClock()))
        running.push_async_callback(pool.close)
        yield pool


async def test_the_next_broker_is_asked_where_one_is_dead_and_stays_the_one(dead: str, living: str) -> None:
    async with pool_of(dead, living) as pool:
        assert pool.endpoint.url == dead
        assert await pool.endpoint.call(READ) == b"here"
        assert pool.endpoint.url == living
        assert await pool.endpoint.call(WRITE) == b"here"


async def test_a_change_that_was_never_sent_is_made_at_the_next_broker(dead: str, living: str) -> None:
    async with pool_of(dead, living) as pool:
        assert await pool.endpoint.call(WRITE) == b"here"


async def test_a_broker_that_hangs_is_left_for_the_next_one(hanging: str, living: str) -> None:
    async with pool_of(hanging, living, timeout_s=SHORT_S) as pool:
        with pytest.raises((DeadlineExceededError, UnavailableError)):
            await pool.endpoint.call(WRITE)  # it may have been carried out
        assert pool.endpoint.url == living
    async with pool_of(hanging, living, timeout_s=SHORT_S) as pool, asyncio.timeout(PATIENCE_S):
        while await pool.endpoint.call(READ) != b"here":
            pass


async def test_the_error_names_each_broker_where_none_answers(dead: str) -> None:
    other = "http://127.0.0.1:1"
    async with pool_of(dead, other) as pool:
        with pytest.raises(BrokerUnreachableError, match="none of 2 brokers answers") as failure:
            await pool.endpoint.call(READ)
    assert dead in str(failure.value)
    assert other in str(failure.value)


def test_endpoints_are_given_by_a_flag_a_variable_or_a_context(tmp_path: Path) -> None:
    path = tmp_path / "contexts.yaml"
    set_context(path, "three", {"endpoint": "a:1,b:2,http://a:1"})
    assert read_contexts(path).get("three").endpoint == "http://a:1,http://b:2"
    by_context = resolve_target(TargetFlags(context="three", config_file=path), {})
    assert (by_context.endpoints, by_context.context) == (("http://a:1", "http://b:2"), "three")
    by_flag = resolve_target(TargetFlags(endpoint="c:3,d", config_file=path), {})
    assert by_flag.endpoints == ("http://c:3", "http://d:50051")
    by_variable = resolve_target(TargetFlags(config_file=path), {"DANUBE_ADMIN_ENDPOINT": "https://e:5,https://f:6"})
    assert (by_variable.endpoints, by_variable.tls) == (("https://e:5", "https://f:6"), True)


@pytest.mark.parametrize("text", ["http://a:1,https://b:1", "a:1,,b:1", ",".join(f"a:{port}" for port in range(1, 18))])
def test_endpoints_that_are_no_cluster_are_refused(text: str) -> None:
    with pytest.raises(SettingsError):
        checked_endpoint(text, tls=False)


def test_a_token_goes_to_no_endpoint_in_plain_text() -> None:
    with pytest.raises(SettingsError):
        Target(endpoint="http://127.0.0.1:1,http://10.0.0.1:1").passing_tokens()
    with pytest.raises(SettingsError):
        ConnectionPool(
            Target(endpoint="http://127.0.0.1:1,http://10.0.0.1:1", token="hunter2"), client_carrier(SystemClock())
        )


async def test_a_broker_that_hangs_or_refuses_is_named_and_delays_the_answer_for_a_bounded_time(living: str) -> None:
    async with pool_of(living) as pool:
        every = EveryBroker(pool, AdminCalls(pool), SHORT_S)

        async def asked(broker: BrokerConnection, broker_id: str) -> str:
            del broker
            if broker_id == "2":
                await asyncio.Event().wait()
            if broker_id == "3":
                raise UnavailableError("its disk is full")
            return "told"

        async with asyncio.timeout(PATIENCE_S):
            told = await every.gather(dict.fromkeys("123", pool.endpoint), asked)
    assert told == [
        OfBroker(broker_id="1", told="told"),
        OfBroker(broker_id="2", told=None, problem="it did not answer within 0.2 s"),
        OfBroker(broker_id="3", told=None, problem="its disk is full"),
    ]


async def test_the_reason_is_raised_where_no_broker_answers_a_question_to_all(living: str) -> None:
    async with pool_of(living) as pool:

        async def refused(broker: BrokerConnection, broker_id: str) -> str:
            del broker
            raise NotPermittedError(f"no grant at {broker_id}")

        with pytest.raises(NotPermittedError, match="no grant at 1"):
            await EveryBroker(pool, AdminCalls(pool), SHORT_S).gather(dict.fromkeys("12", pool.endpoint), refused)
