"""Exposure of the server: its address, its tokens, and what is refused before it starts. Pure."""

import hmac
from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from urllib.parse import urlsplit

from danube.admin.access import AccessLevel
from danube.admin.ports.tls import check_pair
from danube.model.errors import SettingsError
from danube.model.limits.faces import WEB_TOKEN_CHARS_MAX, WEB_TOKEN_CHARS_MIN, WEB_TOKENS_MAX
from danube.rpc.address import is_loopback, split_address

DEFAULT_LISTEN_ADDR = "127.0.0.1:8080"
TOKEN_VARIABLE = "DANUBE_ADMIN_WEB_TOKEN"  # noqa: S105 - the name of a variable, not a token
DEFAULT_LABEL = "web"
"""The name of a token without one."""
_LABEL_CHARS_MAX = 60
_MAKE_ONE = "make one with `python3 -c 'import secrets; print(secrets.token_urlsafe(32))'`"


@dataclass(frozen=True, slots=True)
class WebToken:
    """A token of the server, and the name of its holder in the audit log."""

    label: str
    secret: str = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Exposure:
    """The address of the server, and who may reach it."""

    listen_addr: str = DEFAULT_LISTEN_ADDR
    public_url: str | None = None
    """`https://name`, where a proxy stands in front: people's browsers know the server by it."""
    tokens: tuple[WebToken, ...] = ()
    passes_tokens: bool = False
    """Callers have tokens or API keys of the cluster, and what they do is done as them."""
    certificate: Path | None = None
    """Of this server, with its chain, in PEM; None: no TLS."""
    key: Path | None = None
    is_plain_meant: bool = False
    """Said in words: other machines reach it without TLS."""

    @property
    def is_loopback(self) -> bool:
        """True if only this machine can reach it."""
        return is_loopback(split_address(self.listen_addr)[0])

    @property
    def is_encrypted(self) -> bool:
        """True if browsers use TLS; cookies are bound to it then."""
        if self.public_url is not None:
            return self.public_url.startswith("https://")
        return self.certificate is not None

    @property
    def has_login(self) -> bool:
        """True if callers have to prove who they are."""
        return bool(self.tokens) or self.passes_tokens

    @property
    def public_host(self) -> str | None:
        """Host, and port where it is not the scheme's own, of the public URL."""
        return urlsplit(self.public_url).netloc.lower() if self.public_url else None

    def who(self, presented: str) -> str | None:
        """The label of this token; None for a wrong one. Takes the same time wherever it differs, and for each."""
        digest = sha256(presented.encode("utf-8", "surrogateescape")).digest()
        found = None
        for token in self.tokens:
            if hmac.compare_digest(digest, sha256(token.secret.encode()).digest()):
                found = token.label
        return found


def check_exposure(exposure: Exposure, level: AccessLevel) -> None:
    """Raise SettingsError where strangers could read, or anybody could change something, without a token."""
    if exposure.public_url is not None:
        _check_public_url(exposure.public_url)
    if exposure.tokens and exposure.passes_tokens:
        raise SettingsError(
            "--pass-tokens takes tokens of the cluster, and --token-file those of this server: give one"
        )
    if not exposure.has_login:
        _check_reach(exposure, level)
    _check_encryption(exposure)


def _check_reach(exposure: Exposure, level: AccessLevel) -> None:
    if not exposure.is_loopback or exposure.public_url is not None:
        raise SettingsError(
            f"{exposure.public_url or exposure.listen_addr} can be reached from other machines and there is no token:"
            f" give --token-file or {TOKEN_VARIABLE}, or --pass-tokens, or listen on {DEFAULT_LISTEN_ADDR}"
        )
    if level is not AccessLevel.READ:
        raise SettingsError(
            f"--access {level} lets whoever reaches the port change the cluster: give --token-file or"
            f" {TOKEN_VARIABLE}, or leave --access out"
        )


def _check_encryption(exposure: Exposure) -> None:
    check_pair(exposure.certificate, exposure.key)
    if not (exposure.is_loopback or exposure.certificate or exposure.is_encrypted or exposure.is_plain_meant):
        raise SettingsError(
            f"{exposure.listen_addr} can be reached from other machines and has no TLS: tokens could be read on the"
            " way. Give --tls-cert and --tls-key, or --public-url https://... where a proxy has TLS, or --without-tls"
            " if that is meant"
        )


def warnings_of(exposure: Exposure) -> tuple[str, ...]:
    """Warnings for the person who starts the server."""
    if exposure.is_loopback or exposure.is_encrypted or exposure.certificate:
        return ()
    sentence = f"{exposure.listen_addr} is served without TLS: tokens and pages can be read on the way"
    return (sentence,)


def parse_tokens(text: str, *, source: str) -> tuple[WebToken, ...]:
    """The tokens of a file: a line each, `label token` or the token alone; a line with `#` first is a
    comment.

    Raises SettingsError, which names the line and never shows a token.
    """
    tokens = []
    for number, line in enumerate(text.splitlines(), 1):
        words = line.split()
        if words and not words[0].startswith("#"):
            tokens.append(_token(words, f"{source}, line {number}"))
    if not tokens:
        raise SettingsError(f"{source} holds no token: {_MAKE_ONE}")
    if len(tokens) > WEB_TOKENS_MAX:
        raise SettingsError(f"{source} holds {len(tokens)} tokens and {WEB_TOKENS_MAX} are taken at most")
    _check_unique(tokens, source)
    return tuple(tokens)


def _token(words: Sequence[str], where: str) -> WebToken:
    if len(words) > 2:
        raise SettingsError(f"{where}: give `label token`, or the token alone")
    label, secret = words if len(words) == 2 else (DEFAULT_LABEL, words[0])
    if len(label) > _LABEL_CHARS_MAX or not label.isprintable():
        raise SettingsError(f"{where}: a label is printable and at most {_LABEL_CHARS_MAX} characters long")
    if not WEB_TOKEN_CHARS_MIN <= len(secret) <= WEB_TOKEN_CHARS_MAX:
        raise SettingsError(f"{where}: a token has at least {WEB_TOKEN_CHARS_MIN} characters; {_MAKE_ONE}")
    return WebToken(label, secret)


def _check_unique(tokens: Sequence[WebToken], source: str) -> None:
    if len({token.secret for token in tokens}) < len(tokens) or len({token.label for token in tokens}) < len(tokens):
        raise SettingsError(f"{source} holds a label or a token twice: the audit log could not tell who called")


def _check_public_url(url: str) -> None:
    parts = urlsplit(url)
    if parts.scheme not in {"http", "https"} or not parts.hostname or parts.path.strip("/") or parts.query:
        raise SettingsError(f"--public-url {url!r} is not scheme and host: give it as https://admin.example.org")
