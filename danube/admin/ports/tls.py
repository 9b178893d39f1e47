"""TLS of a port of this program: a certificate and its key, read again while it serves."""

import stat
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from danube.model.errors import SettingsError
from danube.model.limits.security import CERTIFICATE_CHECK_S
from danube.model.text import install_text
from danube.runtime.blocking import run_apart
from danube.runtime.clock import Clock, sleep_for

if TYPE_CHECKING:
    from danube.security.certificates import ServerCertificates


def check_pair(certificate: Path | None, key: Path | None) -> None:
    """Raise SettingsError for a certificate without its key, or a key alone."""
    if (certificate is None) is not (key is None):
        raise SettingsError("--tls-cert and --tls-key belong together: give both, or neither")


async def certificates_of(certificate: Path | None, key: Path | None) -> "ServerCertificates | None":
    """The certificates to listen with; None without files. Raises SettingsError that names the wrong one."""
    if certificate is None or key is None:
        return None
    return await run_apart("certificates", partial(_read, certificate, key))


async def keep_fresh(certificates: "ServerCertificates", clock: Clock) -> None:
    """Read the files again every CERTIFICATE_CHECK_S, until this is cancelled."""
    while True:
        await sleep_for(clock, CERTIFICATE_CHECK_S)
        await run_apart("certificates", certificates.reload)


def _read(certificate: Path, key: Path) -> "ServerCertificates":
    from danube.security.certificates import ServerCertificates, TlsFiles  # noqa: PLC0415 - most ports have no TLS

    try:
        is_open = key.stat().st_mode & stat.S_IROTH
    except OSError as error:
        raise SettingsError(f"cannot read {key}: {error.strerror}") from None
    if is_open:
        raise SettingsError(f"{key} holds a private key that others on this machine may read: chmod o-rwx {key}")
    try:
        return ServerCertificates(TlsFiles(certificate=certificate, key=key), "http/1.1")
    except ModuleNotFoundError as error:
        raise SettingsError(f"TLS needs the package {error.name}: {install_text('security')}") from None
