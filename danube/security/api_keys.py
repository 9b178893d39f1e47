"""API keys: a random secret that an application exchanges for a token; the cluster keeps its digest alone."""

import hashlib
import hmac
import re

from danube.model.errors import UnauthenticatedError
from danube.model.security.credentials import ApiKey

_FORM = re.compile(r"dk_([0-9a-f]{16})_([0-9a-f]{64})")


def new_key(key_id: int, secret: bytes) -> tuple[str, str, str]:
    """The id, the whole key to show once, and the digest to keep, of 32 random bytes."""
    text_id = f"{key_id & (1 << 64) - 1:016x}"
    return text_id, f"dk_{text_id}_{secret.hex()}", _digest(secret.hex())


def is_key(text: str) -> bool:
    """True if a text has the form of an API key."""
    return _FORM.fullmatch(text) is not None


def key_id_of(key: str) -> str:
    """The id within a key. Raises UnauthenticatedError."""
    found = _FORM.fullmatch(key)
    if found is None:
        raise UnauthenticatedError("that is no API key of this cluster")
    return found[1]


def check_key(key: str, known: ApiKey | None, now_ms: int) -> ApiKey:
    """The record of a key. Raises UnauthenticatedError, the same for an unknown key and for a wrong secret."""
    found = _FORM.fullmatch(key)
    digest = _digest(found[2]) if found else ""
    if known is None or not hmac.compare_digest(digest, known.digest):
        raise UnauthenticatedError("that is no API key of this cluster")
    if known.expires_ms and known.expires_ms <= now_ms:
        raise UnauthenticatedError("the API key has expired: create a new one")
    return known


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()
