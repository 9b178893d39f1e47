"""Key sets by URL: read over HTTPS, bounded in size and time, without following anybody elsewhere."""

import ssl
import urllib.error
import urllib.request
from http.client import HTTPException
from pathlib import Path
from typing import Any

from danube.model.errors import SettingsError, UnavailableError
from danube.model.limits.security import KEY_SET_BYTES_MAX, KEY_SET_TIMEOUT_S
from danube.model.untrusted_json import decode_json
from danube.security.tokens import TokenKey, key_set


class _Nowhere(urllib.request.HTTPRedirectHandler):
    """Follows no redirect: the keys come from where the settings say, or not at all."""

    def redirect_request(self, *_: Any) -> None:  # noqa: ANN401 - of another's signature
        return None


def fetch_key_set(url: str, ca: Path | None) -> tuple[TokenKey, ...]:
    """The keys at a URL. Blocks for about KEY_SET_TIMEOUT_S at most. Raises UnavailableError, SettingsError."""
    try:
        context = ssl.create_default_context(cafile=ca)
        opener = urllib.request.build_opener(
            _Nowhere, urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context)
        )
        with opener.open(url, timeout=KEY_SET_TIMEOUT_S) as answer:
            content = answer.read(KEY_SET_BYTES_MAX + 1)
    except urllib.error.HTTPError as error:
        with error:
            raise UnavailableError(f"the key set at {url} cannot be read: the answer is {error.code}") from None
    except (OSError, HTTPException, ValueError) as error:
        reason = getattr(error, "reason", None) or error
        raise UnavailableError(f"the key set at {url} cannot be read: {reason}") from None
    if len(content) > KEY_SET_BYTES_MAX:
        raise SettingsError(f"the key set at {url} is larger than {KEY_SET_BYTES_MAX} bytes")
    return keys_of(content, url)


def keys_of(content: bytes, where: str) -> tuple[TokenKey, ...]:
    """The keys of a key set in JSON. Raises SettingsError for one without a key that is known here."""
    try:
        document = decode_json(content)
    except ValueError:
        document = None
    if not isinstance(document, dict):
        raise SettingsError(f"{where} is no JSON Web Key Set")
    found = key_set(document)
    if not found:
        raise SettingsError(f"{where} has no key of RSA from 2,048 bits, P-256 or Ed25519")
    return found
