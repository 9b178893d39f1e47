"""Certificates of a server, reloaded while it serves: new handshakes get the new ones, connections keep theirs.

The context that listens swaps in the newest one for each handshake (`sni_callback`), so certificate, key and client CA
change together. A pair that does not match is refused, and the old one stays.
"""

import hashlib
import logging
import os
import ssl
from dataclasses import dataclass
from pathlib import Path

from danube.model.errors import SettingsError
from danube.model.limits.metadata import SECRET_BYTES_MAX

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsFiles:
    """Files of one server, in PEM."""

    certificate: Path
    """Its own, with the chain up to the CA."""
    key: Path
    client_ca: Path | None = None
    """Signers of client certificates; None: no client certificate is asked for."""
    requires_client: bool = False
    """A client without a certificate is refused in the handshake; else it may send a token."""

    @property
    def all(self) -> list[Path]:
        """The files that are read."""
        return [path for path in (self.certificate, self.key, self.client_ca) if path is not None]


class ServerCertificates:
    """TLS of a server whose files may change. Making it reads them. Raises SettingsError that names the wrong one."""

    def __init__(self, files: TlsFiles, protocol: str = "h2") -> None:
        """`protocol` is the one that clients are offered (ALPN)."""
        self._files = files
        self._protocol = protocol
        self._digest = _digest(files)
        self._current = _context(files, protocol)
        self.context = _context(files, protocol)
        """To listen with."""
        self.context.sni_callback = self._swap
        self.expires_s = expires_s(files.certificate)
        """Unix seconds after which the certificate is void."""

    def reload(self) -> bool:
        """Read the files again if they changed; answers whether new handshakes get others. Blocks."""
        try:
            digest = _digest(self._files)
            if digest == self._digest:
                return False
            current, until_s = _context(self._files, self._protocol), expires_s(self._files.certificate)
        except SettingsError as error:
            _log.error("the certificates stay as they were, the new ones cannot be used: %s", error)
            return False
        self._digest, self._current, self.expires_s = digest, current, until_s
        _log.info("new certificates are in use: %s", self._files.certificate)
        return True

    def _swap(self, connection: ssl.SSLObject, _name: str | None, _context: ssl.SSLContext) -> None:
        connection.context = self._current


def _context(files: TlsFiles, protocol: str) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.set_alpn_protocols([protocol])
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(files.certificate, files.key)
    except (OSError, ssl.SSLError) as error:
        raise SettingsError(f"{files.certificate} and {files.key} are no certificate and its key: {error}") from None
    if files.client_ca is not None:
        try:
            context.load_verify_locations(files.client_ca)
        except (OSError, ssl.SSLError) as error:
            raise SettingsError(f"{files.client_ca} holds no certificates of a CA: {error}") from None
        context.verify_mode = ssl.CERT_REQUIRED if files.requires_client else ssl.CERT_OPTIONAL
    return context


def client_tls(*, ca: Path | None, certificate: Path | None = None, key: Path | None = None) -> ssl.SSLContext:
    """TLS of a client that verifies host names; without `ca` by the system's authorities. Raises SettingsError."""
    try:
        context = ssl.create_default_context(cafile=ca)
        context.set_alpn_protocols(["h2"])
        if certificate is not None:
            context.load_cert_chain(certificate, key)
    except (OSError, ssl.SSLError) as error:
        raise SettingsError(f"the certificates for connections to other brokers cannot be used: {error}") from None
    return context


def expires_s(certificate: Path) -> float:
    """Unix seconds after which the first certificate of a file is void. Raises SettingsError."""
    from cryptography.x509 import load_pem_x509_certificate  # noqa: PLC0415 - half a second to load

    try:
        return load_pem_x509_certificate(certificate.read_bytes()).not_valid_after_utc.timestamp()
    except (OSError, ValueError) as error:
        raise SettingsError(f"{certificate} holds no certificate: {error}") from None


def _digest(files: TlsFiles) -> bytes:
    digest = hashlib.sha256()
    for path in files.all:
        try:
            with path.open("rb") as file:
                digest.update(file.read(SECRET_BYTES_MAX))
        except OSError as error:
            raise SettingsError(f"{path} cannot be read: {os.strerror(error.errno or 0)}") from None
    return digest.digest()
