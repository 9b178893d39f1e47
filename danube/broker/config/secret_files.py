"""Files of secrets: read whole, up to a bound, and refused if others on this machine can read them."""

import os
import stat
from pathlib import Path

from pydantic import SecretStr

from danube.model.errors import SettingsError
from danube.model.limits.metadata import SECRET_BYTES_MAX


def secret_of(secret: SecretStr | None, path: Path | None) -> bytes | None:
    """The secret as given, or from its file, without white space around it. Blocks.

    Raises SettingsError for an empty secret, and for a file that others can read.
    """
    if path is None:
        return None if secret is None else _not_empty(secret.get_secret_value().strip().encode(), "the secret")
    return _not_empty(private_content(path, "a secret").strip(), str(path))


def private_content(path: Path, what: str) -> bytes:
    """The content of a file with `what` in it. Blocks. Raises SettingsError, also if others can read it."""
    content = public_content(path)
    check_private(path, what)
    return content


def public_content(path: Path) -> bytes:
    """The content of a file that anybody may read, such as a certificate. Blocks. Raises SettingsError."""
    try:
        with path.open("rb") as file:
            content = file.read(SECRET_BYTES_MAX + 1)
    except OSError as error:
        raise _unreadable(path, error) from None
    if len(content) > SECRET_BYTES_MAX:
        raise SettingsError(f"{path} is larger than {SECRET_BYTES_MAX} bytes: it is no secret and no certificate")
    return content


def check_private(path: Path, what: str, *, otherwise: str = "") -> None:
    """Raise SettingsError if others can read a file with `what` in it. Blocks.

    A file of another user may be readable by its group: root gives a service its secrets so.
    """
    try:
        found = path.stat()
    except OSError as error:
        raise _unreadable(path, error) from None
    others = stat.S_IROTH | (stat.S_IRGRP if found.st_uid == os.geteuid() else 0)
    if found.st_mode & others:
        mode = "600" if found.st_uid == os.geteuid() else "o-rwx"
        raise SettingsError(f"{path} holds {what} that others on this machine may read: chmod {mode} {path}{otherwise}")


def _not_empty(secret: bytes, where: str) -> bytes:
    if not secret:
        raise SettingsError(f"{where} is empty: it is to hold what all brokers of the cluster know, and nobody else")
    return secret


def _unreadable(path: Path, error: OSError) -> SettingsError:
    return SettingsError(f"cannot read {path}: {error.strerror}")
