"""The Raft port over TLS: both sides need a certificate of the CA (made for these tests, valid until 2126)."""

import logging
import socket
import ssl
from pathlib import Path

import pytest

from danube.metadata.raft.port.handshake import Side
from danube.metadata.raft.port.refusals import Reason, RefusedError
from danube.metadata.raft.port.session import Refused, Session
from danube.metadata.raft.port.tls import TlsContexts, TlsPipe, TlsSettings
from danube.model.errors import SettingsError
from danube.model.limits.metadata import RAFT_TLS_HANDSHAKE_BYTES_MAX
from tests.unit.metadata.raft.handshakes import acceptor
from tests.unit.metadata.raft.ports import SECRET, know, room

FOLDER = Path(__file__).parent / "certificates"


def files(name: str = "member", ca: str = "ca") -> TlsSettings:
    return TlsSettings(certificate=FOLDER / f"{name}.pem", key=FOLDER / f"{name}.key", ca=FOLDER / f"{ca}.pem")


MEMBER, UNKNOWN_PEER = files(), files("stranger")


@pytest.mark.parametrize("secret", [None, SECRET], ids=["certificates alone", "and a secret"])
def test_members_with_certificates_of_the_ca_connect(secret: bytes | None) -> None:
    with room() as here:
        one, two = here.group(1, 2, tls=MEMBER, secret=secret)
        here.all_connected()
        snapshot = bytes(range(256)) * 8_192
        assert one.transport.send(two.node, snapshot)
        assert two.transport.send(one.node, {"type": "next_node_idx"})
        here.until(lambda: two.messages() and one.messages())
        assert (two.messages(), one.messages()) == ([snapshot], [{"type": "next_node_idx"}])


def test_without_a_secret_a_port_with_tls_may_listen_anywhere() -> None:
    with room() as here:
        here.port(1, tls=MEMBER, secret=None, host="0.0.0.0")


@pytest.mark.parametrize(
    ("tls", "told"),
    [
        pytest.param(UNKNOWN_PEER, "TLS failed", id="a certificate of another CA"),
        pytest.param(None, "TLS failed, wrong version number", id="no TLS"),
    ],
)
def test_a_stranger_to_the_ca_delivers_nothing(
    tls: TlsSettings | None, told: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    with room() as here:
        member, unknown_peer = here.port(1, tls=MEMBER), here.port(2, tls=tls)
        know(member, unknown_peer)
        know(unknown_peer, member)
        here.until(
            lambda: f"Raft port {member.transport.address}, 127.0.0.1: a connection was refused, {told}" in caplog.text
        )
        here.turns(30)
        assert (member.told, unknown_peer.told) == ([], [])


def test_a_dialer_refuses_a_port_whose_certificate_is_of_another_ca(caplog: pytest.LogCaptureFixture) -> None:
    with room() as here:
        imposter, member = here.port(1, tls=UNKNOWN_PEER), here.port(2, tls=MEMBER)
        know(imposter, member)
        know(member, imposter)
        told = f"{imposter.node.id}: cannot be connected with: TLS failed, certificate verify failed"
        here.until(lambda: told in caplog.text)
        assert (member.told, imposter.told) == ([], [])


def test_a_certificate_is_asked_for_before_anything_is_said() -> None:
    with room() as here:
        member = here.port(1, tls=MEMBER)
        host, port = member.transport.address.split(":")
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.load_verify_locations(MEMBER.ca)
        nobody = TlsPipe(context, Side.DIALER)
        peer = socket.create_connection((host, int(port)))
        peer.settimeout(0.01)
        heard = b""
        nobody.send(b"hello")
        with pytest.raises(RefusedError, match="certificate required"):
            for _ in range(100):
                peer.sendall(nobody.take_output())
                here.turns(2)
                try:
                    heard += nobody.receive(peer.recv(65_536))
                except TimeoutError:
                    continue
        assert heard == b""
        peer.close()


def test_what_a_peer_may_send_before_tls_is_agreed_on_is_bounded() -> None:
    contexts = TlsContexts(MEMBER)
    session = Session(acceptor(), contexts.pipe(Side.ACCEPTOR), 0.0, silence_s_max=3.0)
    record = b"\x16\x03\x01\x40\x00\x01\x00\xff\xff" + bytes(0x4000 - 4)  # a hello that goes on and on
    events = [
        event for _ in range(RAFT_TLS_HANDSHAKE_BYTES_MAX // len(record) + 1) for event in session.receive(record, 0.0)
    ]
    assert [type(event) for event in events] == [Refused]


def test_an_older_tls_is_refused() -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    context.check_hostname = False
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = context.wrap_bio(incoming, outgoing)
    with pytest.raises(ssl.SSLWantReadError):
        client.do_handshake()
    with pytest.raises(RefusedError, match="unsupported protocol") as caught:
        TlsContexts(MEMBER).pipe(Side.ACCEPTOR).receive(outgoing.read())
    assert caught.value.reason is Reason.TLS


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        (files("nobody"), "nobody.pem"),
        (files(ca="nobody"), "nobody.pem"),
        (TlsSettings(certificate=MEMBER.certificate, key=UNKNOWN_PEER.key, ca=MEMBER.ca), "belong together"),
        (TlsSettings(certificate=MEMBER.certificate, key=FOLDER / "encrypted.key", ca=MEMBER.ca), "is encrypted"),
        (TlsSettings(certificate=MEMBER.certificate, key=MEMBER.key, ca=MEMBER.key), "must be PEM"),
    ],
    ids=["no certificate", "no CA", "another key", "an encrypted key", "a key as the CA"],
)
def test_files_that_cannot_be_used_are_named_with_the_next_step(settings: TlsSettings, told: str) -> None:
    with pytest.raises(SettingsError, match=told):
        TlsContexts(settings)
