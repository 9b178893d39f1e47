"""The engine over TLS, with the certificates of `tests/unit/rpc/certificates`, against itself and against grpcio."""

import asyncio
from dataclasses import replace
from pathlib import Path

import grpc
import pytest
import trustme
from grpc import aio

from danube.model.errors import BrokerUnreachableError
from danube.rpc.carrier import CarrierServer, Service, UnaryCall
from danube.rpc.engines import ClientTls, RpcEngine, client_carrier
from danube.rpc.http2.carrier import Http2Carrier
from danube.runtime.clock import SystemClock
from danube.security.certificates import ServerCertificates, TlsFiles
from danube.testing.patience import PATIENCE_S

FOLDER = Path(__file__).parent.parent / "certificates"
PEMS = {path.name: path.read_bytes() for path in FOLDER.iterdir()}
FILES = TlsFiles(certificate=FOLDER / "server.pem", key=FOLDER / "server.key")
PATH = "/test.Things/WhoAmI"
ALICE = ClientTls(ca=PEMS["ca.pem"], certificate=PEMS["client.pem"], key=PEMS["client.key"])


def who_am_i(request: bytes, call: UnaryCall) -> bytes:
    return repr(call.caller.certificate_name).encode()


SERVICE = Service("test.Things", unary={"WhoAmI": who_am_i})


async def serving(*, mutual: bool) -> CarrierServer:
    files = replace(FILES, client_ca=FOLDER / "ca.pem" if mutual else None, requires_client=mutual)
    return await serving_with(await asyncio.to_thread(ServerCertificates, files))


async def serving_with(certificates: ServerCertificates) -> CarrierServer:
    return await Http2Carrier(SystemClock(), server_tls=certificates.context).serve("127.0.0.1:0", [SERVICE])


async def ask(address: str, tls: ClientTls | None, engine: RpcEngine = RpcEngine.HTTP2) -> bytes:
    channel = client_carrier(SystemClock(), tls, engine).connect(address)
    try:
        return await channel.call(PATH, b"", timeout_s=PATIENCE_S)
    finally:
        await channel.close()


@pytest.mark.parametrize("engine", list(RpcEngine))
async def test_name_on_the_clients_certificate_reaches_the_handler(engine: RpcEngine) -> None:
    server = await serving(mutual=True)
    assert await ask(server.address, ALICE, engine) == b"'alice'"
    await server.stop(0)


@pytest.mark.parametrize("engine", list(RpcEngine))
async def test_client_without_a_certificate_has_no_name(engine: RpcEngine) -> None:
    server = await serving(mutual=False)
    assert await ask(server.address, ClientTls(ca=PEMS["ca.pem"]), engine) == b"None"
    await server.stop(0)


@pytest.mark.parametrize("tls", [None, ClientTls(ca=PEMS["ca.pem"]), ClientTls(ca=PEMS["client.pem"])])
async def test_client_that_the_server_does_not_take_does_not_reach_it(tls: ClientTls | None) -> None:
    server = await serving(mutual=True)
    with pytest.raises(BrokerUnreachableError, match=server.address):
        await ask(server.address, tls)
    await server.stop(0)


async def test_certificate_that_is_loaded_anew_is_shown_to_new_connections(tmp_path: Path) -> None:
    other = trustme.CA().issue_cert("127.0.0.1")
    files = TlsFiles(certificate=tmp_path / "server.pem", key=tmp_path / "server.key")
    other.cert_chain_pems[0].write_to_path(str(files.certificate))
    other.private_key_pem.write_to_path(str(files.key))
    certificates = await asyncio.to_thread(ServerCertificates, files)
    server = await serving_with(certificates)
    with pytest.raises(BrokerUnreachableError):
        await ask(server.address, ClientTls(ca=PEMS["ca.pem"]))
    files.certificate.write_bytes(PEMS["server.pem"])
    files.key.write_bytes(PEMS["server.key"])
    assert await asyncio.to_thread(certificates.reload)
    assert await ask(server.address, ClientTls(ca=PEMS["ca.pem"])) == b"None"
    await server.stop(0)


async def test_engine_as_a_client_reaches_a_grpcio_server_over_tls() -> None:
    server = aio.server()
    method = grpc.unary_unary_rpc_method_handler(answer_of_grpcio)
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("test.Things", {"WhoAmI": method}),))
    port = server.add_secure_port(
        "127.0.0.1:0", grpc.ssl_server_credentials([(PEMS["server.key"], PEMS["server.pem"])])
    )
    await server.start()
    assert await ask(f"127.0.0.1:{port}", ClientTls(ca=PEMS["ca.pem"])) == b"grpcio"
    await server.stop(None)


async def answer_of_grpcio(request: bytes, context: object) -> bytes:
    return b"grpcio"
