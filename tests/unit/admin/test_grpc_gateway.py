"""The way to a cluster: what is said when nobody is there, and who gets the token."""

import asyncio
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import closing
from pathlib import Path

import grpc
import pytest

import danube.admin.grpc_gateway.gateway  # noqa: F401 - `open_gateway` would load it in the loop
from danube.admin.grpc_gateway import open_gateway
from danube.admin.grpc_gateway.broker_connection import ConnectionPool, check_token_is_safe
from danube.admin.target import Target
from danube.model import errors
from danube.model.plans.plan import Caller, Effect, Face, PlanApplication, PlanRequest
from danube.rpc.carrier import Service, UnaryCall
from danube.rpc.grpc.carrier import GrpcCarrier
from danube.runtime.clock import SystemClock
from danube.testing.patience import PATIENCE_S

CERTIFICATES = Path(__file__).parents[1] / "rpc" / "certificates"
TOKEN = "hunter2-token"


class Listening:
    """A broker that answers one call, and keeps what it was brought as a token."""

    def __init__(self) -> None:
        self.tokens: list[str] = []
        self.error: errors.DanubeError | None = None

    def service(self) -> Service:
        return Service("danube_admin.BrokerAdmin", unary={"ListNamespaces": self._answer})

    def _answer(self, request: bytes, call: UnaryCall) -> bytes:
        self.tokens.append(call.caller.metadata.get("authorization", ""))
        if self.error is not None:
            raise self.error
        return b""


@pytest.fixture
def broker() -> Listening:
    return Listening()


@pytest.fixture
async def address(broker: Listening) -> AsyncIterator[str]:
    server = await GrpcCarrier(SystemClock()).serve("127.0.0.1:0", [broker.service()])
    yield server.address
    await server.stop(0)


@pytest.fixture
async def tls_address(broker: Listening) -> AsyncIterator[str]:
    pair = tuple((CERTIFICATES / name).read_bytes() for name in ("server.key", "server.pem"))
    credentials = grpc.ssl_server_credentials([(pair[0], pair[1])])
    carrier = GrpcCarrier(SystemClock(), server_credentials=credentials)
    server = await carrier.serve("127.0.0.1:0", [broker.service()])
    yield server.address
    await server.stop(0)


@pytest.fixture
def closed_port() -> int:
    with closing(socket.create_server(("127.0.0.1", 0))) as listener:
        port: int = listener.getsockname()[1]
        return port


@pytest.fixture
def silent_port() -> Iterator[int]:
    """Connections are taken and never answered."""
    with closing(socket.create_server(("127.0.0.1", 0))) as listener:
        yield listener.getsockname()[1]


# Nobody there


async def test_a_broker_that_is_not_there_is_one_sentence_and_at_once(closed_port: int) -> None:
    endpoint = f"http://127.0.0.1:{closed_port}"
    async with asyncio.timeout(PATIENCE_S), open_gateway(Target(endpoint=endpoint, timeout_s=30)) as gateway:
        with pytest.raises(errors.BrokerUnreachableError) as caught:
            await gateway.namespaces()
    assert str(caught.value) == (
        f"no broker answers at {endpoint}: start one with `danube-broker`, or name another with --endpoint,"
        " DANUBE_ADMIN_ENDPOINT or a context"
    )


async def test_a_broker_that_another_one_names_is_not_looked_for_at_the_endpoint(closed_port: int) -> None:
    target = Target(endpoint="http://127.0.0.1:1")
    lines = ConnectionPool(target, GrpcCarrier(SystemClock()))
    async with asyncio.timeout(PATIENCE_S):
        with pytest.raises(
            errors.BrokerUnreachableError, match=r"the broker at http://127\.0\.0\.1:1 names that address"
        ):
            await lines.to(f"http://127.0.0.1:{closed_port}").call("/a/b")
        await lines.close()


async def test_a_port_that_never_answers_is_given_up_in_time(silent_port: int) -> None:
    target = Target(endpoint=f"http://127.0.0.1:{silent_port}", timeout_s=0.2)
    async with asyncio.timeout(PATIENCE_S), open_gateway(target) as gateway:
        with pytest.raises(errors.DeadlineExceededError, match=r"did not answer within 0\.2 s"):
            await gateway.namespaces()


async def test_opening_reaches_nobody(closed_port: int) -> None:
    async with open_gateway(Target(endpoint=f"http://127.0.0.1:{closed_port}")):
        pass


async def test_without_a_home_folder_only_what_is_kept_there_says_so(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_home() -> None:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr("pathlib.Path.home", no_home)
    for variable in ("HOME", "XDG_STATE_HOME"):
        monkeypatch.delenv(variable, raising=False)
    async with open_gateway(Target(endpoint=f"http://{address}")) as gateway:
        assert list(await gateway.namespaces()) == []
        with pytest.raises(errors.SettingsError, match="no home folder: set HOME or XDG_STATE_HOME"):
            await gateway.plans()  # of a broker that keeps none itself


async def test_a_name_that_does_not_resolve_is_said_with_its_reason() -> None:
    async with asyncio.timeout(PATIENCE_S), open_gateway(Target(endpoint="http://nowhere.invalid:1")) as gateway:
        with pytest.raises((errors.BrokerUnreachableError, errors.DeadlineExceededError), match=r"nowhere\.invalid"):
            await gateway.namespaces()


async def test_the_port_for_clients_is_said_to_be_the_wrong_one(address: str) -> None:
    async with open_gateway(Target(endpoint=f"http://{address}")) as gateway:
        with pytest.raises(errors.UnsupportedError, match="one for administration"):
            await gateway.brokers()


# The token


async def test_the_token_goes_with_every_call_to_this_machine(address: str, broker: Listening) -> None:
    async with open_gateway(Target(endpoint=f"http://{address}", token=TOKEN)) as gateway:
        await gateway.namespaces()
    assert broker.tokens == [f"Bearer {TOKEN}"]


async def test_without_a_token_none_is_sent(address: str, broker: Listening) -> None:
    async with open_gateway(Target(endpoint=f"http://{address}")) as gateway:
        await gateway.namespaces()
    assert broker.tokens == [""]


@pytest.mark.parametrize("endpoint", ["http://10.0.0.1:50051", "http://danube.example:50051"])
async def test_a_token_never_leaves_this_machine_in_plain_text(endpoint: str) -> None:
    with pytest.raises(errors.SettingsError, match=r"plain text.*https://") as caught:
        async with open_gateway(Target(endpoint=endpoint, token=TOKEN)):
            pytest.fail("it was opened")
    assert TOKEN not in str(caught.value)


def test_with_tls_it_may() -> None:
    check_token_is_safe(Target(endpoint="https://10.0.0.1:1", tls=True, token=TOKEN), "https://10.0.0.1:1")


async def test_a_broker_that_sends_us_elsewhere_does_not_get_the_token_sent_there(address: str) -> None:
    target = Target(endpoint=f"http://{address}", token=TOKEN)
    lines = ConnectionPool(target, GrpcCarrier(SystemClock()))
    with pytest.raises(errors.SettingsError, match="plain text"):
        lines.to("http://203.0.113.7:50051")
    await lines.close()


@pytest.mark.parametrize(("token", "words"), [(None, "wants a token"), (TOKEN, "refuses the token")])
async def test_a_refused_caller_is_told_where_the_token_comes_from(
    address: str, broker: Listening, token: str | None, words: str
) -> None:
    broker.error = errors.UnauthenticatedError("who are you?")
    async with open_gateway(Target(endpoint=f"http://{address}", token=token)) as gateway:
        with pytest.raises(errors.UnauthenticatedError, match=f"{words}: set DANUBE_ADMIN_TOKEN") as caught:
            await gateway.namespaces()
    assert TOKEN not in str(caught.value)


# Another broker's


async def test_a_namespace_with_a_topic_that_nobody_serves_is_refused() -> None:
    def refuse(request: bytes, call: UnaryCall) -> bytes:
        raise errors.TopicNotServedError(
            "/default/b is served by broker 7 at http://b7:6650: look it up again and retry"
        )

    def not_permitted(request: bytes, call: UnaryCall) -> bytes:
        raise errors.NotPermittedError("no")

    services = [
        Service("danube.control.Plans", unary={"CreatePlan": refuse, "ApplyPlan": refuse}),
        Service("danube.control.Audit", unary={"Read": not_permitted}),
    ]
    server = await GrpcCarrier(SystemClock()).serve("127.0.0.1:0", services)
    arguments = {"namespace": "default", "durability": "os"}
    caller = Caller(who="me", face=Face.CLI)
    request = PlanRequest(
        operation="set_namespace_durability",
        arguments=arguments,
        effect=Effect.DESTROY,
        caller=caller,
        needs_approval=False,
    )
    application = PlanApplication(plan_id="plan-1", operation=request.operation, arguments=arguments, caller=caller)
    try:
        async with open_gateway(Target(endpoint=f"http://{server.address}")) as gateway:
            for asked in (gateway.create_plan(request), gateway.apply_plan(application)):
                with pytest.raises(errors.TopicNotServedError, match="served by broker 7"):
                    await asked
    finally:
        await server.stop(0)


# TLS


async def test_over_tls_the_broker_is_reached_and_gets_the_token(tls_address: str, broker: Listening) -> None:
    target = Target(endpoint=f"https://{tls_address}", tls=True, ca_file=CERTIFICATES / "ca.pem", token=TOKEN)
    async with open_gateway(target) as gateway:
        assert list(await gateway.namespaces()) == []
    assert broker.tokens == [f"Bearer {TOKEN}"]


@pytest.mark.parametrize(("name", "is_reached"), [("localhost", True), ("danube.example", False)])
async def test_the_certificate_must_have_the_name_that_was_asked_for(
    tls_address: str, name: str, is_reached: bool
) -> None:
    target = Target(
        endpoint=f"https://{tls_address}",
        tls=True,
        tls_domain=name,
        ca_file=CERTIFICATES / "ca.pem",
        timeout_s=PATIENCE_S,
    )
    async with open_gateway(target) as gateway:
        if is_reached:
            await gateway.namespaces()
            return
        with pytest.raises(errors.BrokerUnreachableError, match="DANUBE_ADMIN_CA"):
            await gateway.namespaces()


@pytest.mark.parametrize(("content", "problem"), [(None, "cannot read the PEM file"), ("nothing", "is no PEM file")])
async def test_what_is_no_pem_file_is_refused_before_anybody_is_asked(
    tmp_path: Path, content: str | None, problem: str
) -> None:
    path = tmp_path / "ca.pem"
    if content is not None:
        await asyncio.to_thread(path.write_text, content)
    with pytest.raises(errors.SettingsError, match=problem):
        async with open_gateway(Target(endpoint="https://127.0.0.1:1", tls=True, ca_file=path)):
            pytest.fail("it was opened")


# Advertised addresses


@pytest.mark.parametrize(
    ("advertised", "dialled"),
    [
        ("http://0.0.0.0:50051", "http://10.1.2.3:50051"),
        ("0.0.0.0:50051", "http://10.1.2.3:50051"),
        ("http://[::]:9040", "http://10.1.2.3:9040"),
        ("http://broker-2:50051", "http://broker-2:50051"),
        ("", ""),
        ("not an address", "not an address"),
    ],
)
async def test_an_address_that_nobody_can_dial_is_the_host_that_was_dialled(advertised: str, dialled: str) -> None:
    lines = ConnectionPool(Target(endpoint="http://10.1.2.3:50051"), GrpcCarrier(SystemClock()))
    assert lines.dialled(advertised) == dialled
    await lines.close()
