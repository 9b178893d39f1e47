"""TLS for the Raft port, both sides verified. No socket: bytes in, bytes out.

A certificate counts when the given CA signed it, whatever names are in it: the CA should sign for members of this one
cluster and nobody else. TLS 1.3 only.
"""

import contextlib
import ssl
from dataclasses import dataclass
from pathlib import Path

from danube.metadata.raft.port.handshake import Side
from danube.metadata.raft.port.refusals import Reason, RefusedError
from danube.model.errors import SettingsError
from danube.model.limits.metadata import RAFT_RECEIVE_BYTES


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsSettings:
    """Files of one member, in PEM."""

    certificate: Path
    """Its own, with the chain up to the CA."""
    key: Path
    """Key of the certificate, not encrypted."""
    ca: Path
    """Signer of the others' certificates."""


class TlsContexts:
    """TLS contexts of both sides. Making it reads the files, and raises SettingsError that names the wrong one."""

    def __init__(self, settings: TlsSettings) -> None:
        self._server = _context(settings, ssl.PROTOCOL_TLS_SERVER)
        self._client = _context(settings, ssl.PROTOCOL_TLS_CLIENT)

    def pipe(self, side: Side) -> "TlsPipe":
        return TlsPipe(self._client if side is Side.DIALER else self._server, side)


class TlsPipe:
    """One side of one TLS connection: plain bytes on the inside, records on the outside."""

    def __init__(self, context: ssl.SSLContext, side: Side) -> None:
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=side is Side.ACCEPTOR)
        self._unsent: list[bytes] = []
        self.is_ready = False
        """True if the handshake is over and plain bytes can come."""
        self._shake()

    def receive(self, records: bytes) -> bytes:
        """The plain bytes that came with these records. Raises RefusedError."""
        self._incoming.write(records)
        self._shake()
        return self._read() if self.is_ready else b""

    def send(self, plain: bytes) -> None:
        """Have these bytes sent, once the handshake is over."""
        if not self.is_ready:
            self._unsent.append(plain)
        elif plain:
            with contextlib.suppress(ssl.SSLError):  # the peer has ended TLS; what it says next, or its socket, tells
                self._tls.write(plain)

    def take_output(self) -> bytes:
        """The records that must be sent now."""
        return self._outgoing.read()

    def _shake(self) -> None:
        if self.is_ready:
            return
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            return
        except ssl.SSLError as error:
            raise _refused(error) from error
        self.is_ready = True
        for plain in self._unsent:
            self._tls.write(plain)
        self._unsent.clear()

    def _read(self) -> bytes:
        parts = []
        try:
            while part := self._tls.read(RAFT_RECEIVE_BYTES):
                parts.append(part)
        except (ssl.SSLWantReadError, ssl.SSLZeroReturnError):
            pass  # all is read; a connection that ends is told by its socket
        except ssl.SSLError as error:
            raise _refused(error) from error
        return b"".join(parts)


def _refused(error: ssl.SSLError) -> RefusedError:
    told = f"{error.reason or type(error).__name__}".replace("_", " ").lower()
    detail = getattr(error, "verify_message", "")
    why = f"{told} ({detail})" if detail else told
    return RefusedError(
        Reason.TLS,
        f"TLS failed, {why}: both sides need certificates that the given CA signed, and TLS must be on in both",
    )


def _context(settings: TlsSettings, protocol: int) -> ssl.SSLContext:
    context = ssl.SSLContext(protocol)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.check_hostname = False  # who it is, is told in the handshake; that it may be a member, by the CA
    context.verify_mode = ssl.CERT_REQUIRED
    if protocol == ssl.PROTOCOL_TLS_SERVER:
        context.num_tickets = 0  # nothing is resumed
    try:
        context.load_cert_chain(settings.certificate, settings.key, password=_no_password)
    except (OSError, ValueError) as error:
        raise SettingsError(
            f"the certificate {settings.certificate} and its key {settings.key} cannot be used: {error}. Both must be "
            "PEM, belong together, and the key must not be encrypted"
        ) from error
    try:
        context.load_verify_locations(settings.ca)
    except (OSError, ValueError) as error:
        raise SettingsError(f"the CA in {settings.ca} cannot be used: {error}. It must be PEM") from error
    return context


def _no_password() -> str:
    raise ValueError("the key is encrypted")
