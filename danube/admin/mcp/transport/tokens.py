"""The bearer token of the HTTP server: who has it may use the server, and without one nobody may."""

import hmac
import os
import secrets
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mcp.server.context import ServerRequestContext

from danube.admin.target import PASSED_TOKEN
from danube.model.errors import SettingsError
from danube.model.limits.broker import TOKEN_CHARS_MAX
from danube.model.limits.faces import MCP_TOKEN_CHARS_MIN
from danube.model.limits.security import TOKEN_BYTES_MAX
from danube.runtime.paths import user_folder

VARIABLE = "DANUBE_MCP_TOKEN"
PASSED = "danube_token"
"""Key of a request's `state`: the token that goes on to the broker."""
_READABLE_BY_OTHERS = stat.S_IRWXG | stat.S_IRWXO
_BYTES = 32
_SCHEME = b"bearer "


def bearer_of(header: bytes | None) -> str:
    """The token in an Authorization header; empty for none that can be one."""
    if header is None or header[: len(_SCHEME)].lower() != _SCHEME:
        return ""
    token = header[len(_SCHEME) :].strip()
    is_word = token.isascii() and token.decode("ascii").isprintable() and b" " not in token
    return token.decode() if is_word and len(token) <= TOKEN_BYTES_MAX else ""


@dataclass(frozen=True, slots=True)
class PassedTokens:
    """No token of the server's own: who calls has one of the cluster, which goes to the broker with each call."""

    origin: str = "the caller"
    is_new: bool = False

    def opens(self, header: bytes | None) -> bool:
        """True if an Authorization header holds a token; the broker says what it is worth before a session begins."""
        return bool(bearer_of(header))


@contextmanager
def passing_token(context: ServerRequestContext[Any, Any]) -> Iterator[None]:
    """Have the calls to the broker made with the token of a request, where the server passes tokens on."""
    scope = getattr(context.request, "scope", None) or {}
    token = scope.get("state", {}).get(PASSED)
    kept = PASSED_TOKEN.set(token)
    try:
        yield
    finally:
        PASSED_TOKEN.reset(kept)


@dataclass(frozen=True, slots=True)
class BearerToken:
    """A token, and where a person finds it."""

    secret: str = field(repr=False)
    origin: str
    is_new: bool = False

    def opens(self, header: bytes | None) -> bool:
        """True if an Authorization header holds it. Takes the same time wherever it differs."""
        if header is None or header[: len(_SCHEME)].lower() != _SCHEME:
            return False
        return hmac.compare_digest(header[len(_SCHEME) :].strip(), self.secret.encode())


def find_token(token_file: Path | None, environ: Mapping[str, str]) -> BearerToken:
    """The token from the file that was named, else from DANUBE_MCP_TOKEN, else from a file of the user's.

    A file that is not there is written with a new token, for its owner alone. Raises SettingsError.
    """
    if token_file is None and (text := environ.get(VARIABLE)) is not None:
        return BearerToken(_checked(text, VARIABLE), f"the variable {VARIABLE}")
    path = token_file or _usual_file(environ)
    try:
        return _read(path)
    except FileNotFoundError:
        return _create(path)


def _usual_file(environ: Mapping[str, str]) -> Path:
    folder = user_folder(environ, "XDG_STATE_HOME", ".local/state")
    return folder / "danube" / "mcp-token"


def _read(path: Path) -> BearerToken:
    try:
        with path.open(encoding="ascii") as file:
            if os.fstat(file.fileno()).st_mode & _READABLE_BY_OTHERS:
                raise SettingsError(
                    f"others can read the token file {path}: delete it, and start again to get a new one"
                )
            return BearerToken(_checked(file.read(TOKEN_CHARS_MAX + 2), str(path)), str(path))
    except FileNotFoundError:
        raise
    except OSError as error:
        raise SettingsError(f"cannot read the token file {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise SettingsError(f"{path} holds no token: a token is one word of printable ASCII") from None


def _create(path: Path) -> BearerToken:
    secret = secrets.token_urlsafe(_BYTES)
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            file.write(f"{secret}\n")
    except OSError as error:
        raise SettingsError(
            f"cannot write a token to {path}: {error.strerror}; set {VARIABLE} or --token-file"
        ) from None
    return BearerToken(secret, str(path), is_new=True)


def _checked(text: str, origin: str) -> str:
    token = text.strip()
    if not token.isascii() or not token.isprintable() or " " in token:
        raise SettingsError(f"{origin} holds no token: a token is one word of printable ASCII, and not shown here")
    if not MCP_TOKEN_CHARS_MIN <= len(token) <= TOKEN_CHARS_MAX:
        raise SettingsError(
            f"the token in {origin} is too short or too long: use {MCP_TOKEN_CHARS_MIN} characters or more"
        )
    return token
