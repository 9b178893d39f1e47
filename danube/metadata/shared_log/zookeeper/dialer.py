"""How connections to ZooKeeper are opened, by TLS or without, and what kept the last attempt from it.

kazoo's own way takes all authorities of the system for trusted beside the one that is given, reads certificates at
each attempt, and lets a server that is silent hold up the others for as long as a session lives.
"""

import logging
import re
import socket
import ssl
from contextlib import suppress
from typing import Any

from danube.model.errors import SettingsError
from danube.model.limits.metadata import METADATA_LOG_CALL_TIMEOUT_S

_CHARS_MAX = 200
_NOISE = re.compile(r"^Connection dropped: (socket connection error: )?|\[SSL[^]]*\] | \(_ssl\.c:\d+\)")
"""What is left out of a reason: that there is no connection is said anyway, and where OpenSSL found out is nobody's."""


def tls_context(ca_file: str | None, certificate_file: str | None, key_file: str | None) -> ssl.SSLContext:
    """Trusts the authorities of `ca_file` and no others; without one, those of the system. Reads the files.

    Raises SettingsError that names the file that cannot be used.
    """
    try:
        context = ssl.create_default_context(cafile=ca_file)
    except (OSError, ValueError) as error:
        raise SettingsError(f"{ca_file} holds no certificates that can be trusted: {_words_of(error)}") from error
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if certificate_file is not None:
        try:
            context.load_cert_chain(certificate_file, key_file, password=_no_password)
        except (OSError, ValueError) as error:
            files = f"{certificate_file} and {key_file} are no certificate and its key, unencrypted, in PEM"
            raise SettingsError(f"{files}: {_words_of(error)}") from error
    return context


class Dialer:
    """Opens connections in place of kazoo's handler; in kazoo's thread."""

    def __init__(self) -> None:
        self.tls: ssl.SSLContext | None = None
        """None: without TLS."""

    def __call__(self, *, address: tuple[str, int], hostname: str, timeout: float, **_ignored: Any) -> socket.socket:  # noqa: ANN401 - all that kazoo's own is told
        """A connection to this address, whose certificate is for this host name. Raises OSError."""
        timeout_s = min(timeout, METADATA_LOG_CALL_TIMEOUT_S)
        try:
            plain = socket.create_connection(address, timeout_s)
            try:
                plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                return plain if self.tls is None else self.tls.wrap_socket(plain, server_hostname=hostname)
            except BaseException:
                plain.close()
                raise
        except TimeoutError as error:
            raise TimeoutError(error.errno, f"no answer within {timeout_s:g} s") from error


class Complaints(logging.Logger):
    """Takes kazoo's log, a line for each attempt, and keeps the last reason: it is said once, by whoever gives up."""

    def __init__(self) -> None:
        super().__init__("kazoo", logging.WARNING)
        self.last = ""
        """Why there is no connection; "" when kazoo has said nothing yet."""

    def handle(self, record: logging.LogRecord) -> None:
        """Keep what is a reason. kazoo's others have nothing to fill in ("Transition to CONNECTING")."""
        if record.args:
            with suppress(TypeError, ValueError):  # a message that does not fit what is to be filled in
                self.last = _NOISE.sub("", record.getMessage())[:_CHARS_MAX]


def _no_password() -> str:
    """Whoever starts a broker is not asked at its terminal."""
    raise ValueError("the key is encrypted")


def _words_of(error: Exception) -> str:
    return _NOISE.sub("", getattr(error, "strerror", None) or str(error))[:_CHARS_MAX]
