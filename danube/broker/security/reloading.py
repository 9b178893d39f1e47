"""Certificates and keys of tokens, read again while the broker serves: files that changed, and a key set by URL.

What cannot be used is refused with an error in the log, and what was there stays.
"""

import logging
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from danube.broker.config.auth import AuthSettings
from danube.broker.security.building import Credentials, refresh_client_tls, token_rules
from danube.broker.security.key_sets import fetch_key_set
from danube.model.errors import SettingsError, UnavailableError
from danube.model.limits.security import (
    CERTIFICATE_CHECK_S,
    CERTIFICATE_WARNING_S,
    KEY_SET_REFRESH_S,
    KEY_SET_RETRY_S,
)
from danube.runtime.blocking import BlockingRunner, run_apart
from danube.runtime.clock import Clock, sleep_for
from danube.security.tokens import TokenKey

_log = logging.getLogger(__name__)
_Signature = tuple[tuple[int, int, int] | None, ...]
_DAY_S = 86_400.0


class Reloading:
    """Keeps the credentials of one broker up to date."""

    def __init__(self, settings: AuthSettings, credentials: Credentials, clock: Clock, runner: BlockingRunner) -> None:
        self._settings = settings
        self._credentials = credentials
        self._clock = clock
        self._runner = runner
        self._seen: _Signature | None = None
        self._rules = credentials.rules
        self._fetched: tuple[TokenKey, ...] = ()
        self._fetched_s = -KEY_SET_REFRESH_S
        self._has_failed = False
        self._refused = 0
        """Tokens refused at the time of the last fetch: a new one may be signed by a key that is not known yet."""
        self._warned_s = -_DAY_S

    async def run(self) -> None:
        """Look every CERTIFICATE_CHECK_S."""
        while True:
            await sleep_for(self._clock, CERTIFICATE_CHECK_S)
            await self.look()

    async def look(self) -> None:
        """Read what has changed, or is due."""
        await self._runner.run(self._certificates)
        changed = await self._fetch() if self._is_due() else False
        seen = await self._runner.run(partial(_signature, _key_files(self._settings)))
        if changed or self._seen not in {None, seen}:
            await self._use()
        self._seen = seen

    def _certificates(self) -> None:
        certificates = self._credentials.certificates
        if any([certificates.reload(), self._credentials.http_certificates.reload()]):
            refresh_client_tls(self._credentials.client_tls, self._settings)
        now_s, left_s = self._clock.monotonic_s(), certificates.expires_s - self._clock.now_ms() / 1_000
        if left_s < CERTIFICATE_WARNING_S and now_s >= self._warned_s + _DAY_S:
            self._warned_s = now_s
            _log.warning("the broker's certificate is void in %.1f days: put a new one in its place", left_s / _DAY_S)

    def _is_due(self) -> bool:
        if self._settings.jwt_key_set_url is None:
            return False
        since_s = self._clock.monotonic_s() - self._fetched_s
        is_wanted = self._has_failed or self._credentials.authenticator.refused > self._refused
        return since_s >= (KEY_SET_RETRY_S if is_wanted else KEY_SET_REFRESH_S)

    async def _fetch(self) -> bool:
        """Fetch the key set; answers whether it is another one now."""
        settings = self._settings
        self._fetched_s, self._refused = self._clock.monotonic_s(), self._credentials.authenticator.refused
        assert settings.jwt_key_set_url is not None  # noqa: S101 - its caller has looked
        try:
            found = await run_apart(
                "key-set", partial(fetch_key_set, settings.jwt_key_set_url, settings.jwt_key_set_ca)
            )
        except (UnavailableError, SettingsError) as error:
            if not self._has_failed:
                _log.error("the keys of the key set stay as they were: %s", error)
            self._has_failed = True
            return False
        is_new = _names(found) != _names(self._fetched)
        self._has_failed, self._fetched = False, found
        return is_new

    async def _use(self) -> None:
        try:
            rules = await self._runner.run(partial(token_rules, self._settings, self._fetched))
        except SettingsError as error:
            _log.error("the keys of tokens stay as they were, the new ones cannot be used: %s", error)
            return
        if rules is not None and rules != self._rules:
            self._rules = rules
            self._credentials.authenticator.use(rules)
            _log.info("other keys of tokens are in use: %d", len(rules.keys))


def _names(keys: Sequence[TokenKey]) -> list[tuple[str, str, bytes]]:
    """The keys, as they can be compared."""
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat  # noqa: PLC0415 - slow to load

    return [
        (key.algorithm, key.key_id, key.key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo))
        for key in keys
    ]


def _key_files(settings: AuthSettings) -> list[Path]:
    given = [settings.jwt_secret_file, settings.jwt_key_set_file, *settings.jwt_public_keys]
    return [path for path in given if path is not None]


def _signature(paths: Sequence[Path]) -> _Signature:
    """Inode, size and time of change of each file: files are read again only if one of these differs. Blocks."""
    return tuple(_mark(path) for path in paths)


def _mark(path: Path) -> tuple[int, int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns
