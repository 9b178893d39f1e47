"""The gRPC carrier over TLS, with certificates made for these tests (valid until 2120, of use nowhere else)."""

from collections.abc import AsyncIterator
from pathlib import Path

import grpc
import pytest

from danube.model.errors import BrokerUnreachableError
from danube.rpc.carrier import CarrierServer, ServerStream, Service, StreamHandler, UnaryCall
from danube.rpc.grpc.carrier import GrpcCarrier, channel_credentials
from danube.runtime.clock import SystemClock
from danube.testing.patience import PATIENCE_S

FOLDER = Path(__file__).parent / "certificates"
PEMS = {path.name: path.read_bytes() for path in FOLDER.iterdir()}
CA = PEMS["ca.pem"]
PATH = "/test.Things/WhoAmI"


def who_am_i(request: bytes, call: UnaryCall) -> bytes:
    return repr(call.caller.certificate_name).encode()


class Naming:
    """A stream that answers the name on its peer's certificate."""

    def __init__(self, stream: ServerStream) -> None:
        self._stream = stream

    def on_message(self, message: bytes) -> None:
        self._stream.write(repr(self._stream.caller.certificate_name).encode())
        self._stream.finish()

    def on_half_close(self) -> None:
        return None

    def on_ready(self) -> None:
        return None

    def on_cancel(self) -> None:
        return None


def name_stream(stream: ServerStream) -> StreamHandler:
    return Naming(stream)


SERVICE = Service("test.Things", unary={"WhoAmI": who_am_i}, server_streams={"Watch": name_stream})


def carrier(*, mutual: bool) -> GrpcCarrier:
    credentials = grpc.ssl_server_credentials(
        [(PEMS["server.key"], PEMS["server.pem"])], root_certificates=CA if mutual else None, require_client_auth=mutual
    )
    return GrpcCarrier(SystemClock(), server_credentials=credentials)


@pytest.fixture
async def server(request: pytest.FixtureRequest) -> AsyncIterator[CarrierServer]:
    """A server over TLS that asks for certificates unless the test says otherwise."""
    server = await carrier(mutual=getattr(request, "param", True)).serve("127.0.0.1:0", [SERVICE])
    yield server
    await server.stop(0)


async def ask(server: CarrierServer, credentials: grpc.ChannelCredentials | None) -> bytes:
    channel = GrpcCarrier(SystemClock(), channel_credentials=credentials).connect(server.address)
    try:
        return await channel.call(PATH, b"", timeout_s=PATIENCE_S)
    finally:
        await channel.close()


def as_alice() -> grpc.ChannelCredentials:
    return channel_credentials(ca=CA, certificate=PEMS["client.pem"], key=PEMS["client.key"])


async def test_name_on_the_clients_certificate_reaches_the_handler(server: CarrierServer) -> None:
    assert await ask(server, as_alice()) == b"'alice'"


async def test_name_on_the_clients_certificate_reaches_streams(server: CarrierServer) -> None:
    channel = GrpcCarrier(SystemClock(), channel_credentials=as_alice()).connect(server.address)
    assert await channel.server_stream("/test.Things/Watch", b"").receive() == b"'alice'"
    await channel.close()


@pytest.mark.parametrize("server", [False], indirect=True)
async def test_client_without_a_certificate_has_no_name(server: CarrierServer) -> None:
    assert await ask(server, channel_credentials(ca=CA)) == b"None"


async def test_client_without_a_certificate_does_not_reach_a_server_that_asks_for_one(server: CarrierServer) -> None:
    with pytest.raises(BrokerUnreachableError):
        await ask(server, channel_credentials(ca=CA))


async def test_client_without_tls_does_not_reach_a_server_with_it(server: CarrierServer) -> None:
    with pytest.raises(BrokerUnreachableError):
        await ask(server, None)


async def test_client_that_does_not_trust_the_server_does_not_reach_it(server: CarrierServer) -> None:
    with pytest.raises(BrokerUnreachableError):
        await ask(server, channel_credentials(ca=PEMS["client.pem"]))
