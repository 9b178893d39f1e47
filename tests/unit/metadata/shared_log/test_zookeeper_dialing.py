"""How connections to ZooKeeper are opened: whom TLS trusts, how long a silent server is waited for, what is said."""

import asyncio
import logging
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from danube.metadata.shared_log.zookeeper.client import Complaints, Dialer, tls_context
from danube.model.errors import SettingsError
from danube.testing.patience import PATIENCE_S

CERTIFICATES = Path(__file__).parents[2] / "rpc" / "certificates"
CA, CERTIFICATE, KEY = (str(CERTIFICATES / name) for name in ("ca.pem", "server.pem", "server.key"))


@asynccontextmanager
async def server_at(host: str, *, tls: bool) -> AsyncIterator[tuple[str, int]]:
    """Its certificate is for 127.0.0.1 and localhost. Without TLS it says nothing."""
    context = None
    if tls:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(CERTIFICATE, KEY)
    server = await asyncio.get_running_loop().create_server(asyncio.Protocol, host, 0, ssl=context)
    async with server:
        yield server.sockets[0].getsockname()


def dial(address: tuple[str, int], timeout_s: float = PATIENCE_S) -> str:
    """The version of TLS that is spoken with this address."""
    dialer = Dialer()
    dialer.tls = tls_context(CA, None, None)
    with dialer(address=address, hostname=address[0], timeout=timeout_s, use_ssl=False) as connection:
        assert isinstance(connection, ssl.SSLSocket)
        return connection.version() or ""


async def test_a_server_is_known_by_its_certificate() -> None:
    async with server_at("127.0.0.1", tls=True) as address:
        assert await asyncio.to_thread(dial, address) == "TLSv1.3"


async def test_a_certificate_for_another_host_is_refused() -> None:
    async with server_at("127.0.0.2", tls=True) as address:
        with pytest.raises(ssl.SSLCertVerificationError, match="IP address mismatch"):
            await asyncio.to_thread(dial, address)


async def test_a_server_that_is_silent_does_not_hold_up_the_others() -> None:
    async with server_at("127.0.0.1", tls=False) as address:
        with pytest.raises(TimeoutError, match="no answer within 1 s"):
            await asyncio.to_thread(dial, address, 1.0)


def test_nobody_is_trusted_beside_the_authority_that_is_given() -> None:
    trusted = tls_context(CA, None, None).get_ca_certs()
    assert [one["subject"] for one in trusted] == [((("commonName", "Danube test CA"),),)]


@pytest.mark.parametrize(
    ("ca", "certificate", "key", "words"),
    [
        ("/nowhere/ca.pem", None, None, "/nowhere/ca.pem holds no certificates that can be trusted: No such file"),
        (KEY, None, None, "server.key holds no certificates that can be trusted"),
        (CA, CERTIFICATE, CA, "are no certificate and its key"),
        (CA, CERTIFICATE, str(CERTIFICATES / "client.key"), "are no certificate and its key"),
    ],
)
def test_files_that_cannot_be_used_are_named(ca: str, certificate: str | None, key: str | None, words: str) -> None:
    with pytest.raises(SettingsError, match=words):
        tls_context(ca, certificate, key)


def test_a_key_with_a_password_is_refused_and_nobody_is_asked_for_it(tmp_path: Path) -> None:
    key = tmp_path / "locked.key"
    key.write_text(
        "-----BEGIN ENCRYPTED PRIVATE KEY-----\nMIIB\n-----END ENCRYPTED PRIVATE KEY-----\n", encoding="ascii"
    )
    with pytest.raises(SettingsError, match="unencrypted"):
        tls_context(CA, CERTIFICATE, str(key))


@pytest.mark.parametrize(
    ("message", "arguments", "kept"),
    [
        ("Connection dropped: %s", ["socket connection error: Connection refused"], "Connection refused"),
        ("Connection dropped: %s", ["socket connection error: [SSL: BAD] no trust (_ssl.c:1006)"], "no trust"),
        (
            "Cannot resolve %s: %s",
            ["zoo", "Name or service not known"],
            "Cannot resolve zoo: Name or service not known",
        ),
        ("Transition to CONNECTING", [], ""),
    ],
)
def test_of_what_kazoo_says_the_reason_is_kept(message: str, arguments: list[str], kept: str) -> None:
    complaints = Complaints()
    complaints.warning(message, *arguments)
    assert complaints.last == kept


def test_nothing_that_kazoo_says_goes_to_the_log_of_the_broker(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        Complaints().error("Connection dropped: %s", "again and again")
    assert caplog.records == []
