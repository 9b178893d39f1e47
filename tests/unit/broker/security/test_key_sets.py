"""Keys of tokens by URL: read over HTTP, kept while that is down, exchanged when they change."""

import asyncio
import json
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from jwt.algorithms import ECAlgorithm, RSAAlgorithm

from danube.broker.config.auth import AuthSettings
from danube.broker.security.building import Credentials, read_credentials
from danube.broker.security.key_sets import fetch_key_set, keys_of
from danube.broker.security.reloading import Reloading
from danube.model.errors import SettingsError, UnauthenticatedError, UnavailableError
from danube.model.limits.security import KEY_SET_BYTES_MAX, KEY_SET_REFRESH_S, KEY_SET_RETRY_S
from danube.runtime.blocking import BlockingThread, run_apart
from danube.security.authentication import Proof
from danube.testing.simulated.clock import SimClock


@dataclass(slots=True)
class Issuer:
    """Somebody who publishes a key set, and signs tokens."""

    status: int = 200
    content: bytes = b""
    asked: int = 0
    url: str = ""
    keys: dict[str, ec.EllipticCurvePrivateKey] = field(default_factory=dict)

    def publish(self, *names: str) -> None:
        """Have these keys in the set, and no others."""
        self.keys |= {name: ec.generate_private_key(ec.SECP256R1()) for name in names if name not in self.keys}
        public = [ECAlgorithm.to_jwk(self.keys[name].public_key(), as_dict=True) | {"kid": name} for name in names]
        self.content = json.dumps({"keys": public}).encode()

    def token(self, key: str, now_s: float) -> str:
        claims = {"iss": "danube-auth", "sub": "ada", "exp": now_s + 3_600}
        return f"Bearer {jwt.encode(claims, self.keys[key], algorithm='ES256', headers={'kid': key})}"

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        self.asked += 1
        writer.write(b"HTTP/1.1 %d X\r\nconnection: close\r\n" % self.status)
        writer.write(b"location: %s/elsewhere\r\n\r\n" % self.url.encode() + self.content)
        writer.close()
        await writer.wait_closed()


@pytest.fixture
async def issuer() -> AsyncIterator[Issuer]:
    issuer = Issuer()
    server = await asyncio.start_server(issuer.answer, "127.0.0.1", 0)
    async with server:
        issuer.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        yield issuer


@asynccontextmanager
async def reloading(issuer: Issuer, authority: Path) -> AsyncIterator[tuple[Reloading, Credentials, SimClock]]:
    given: dict[str, Any] = {
        "mode": "tls",
        "tls_cert": authority / "broker.pem",
        "tls_key": authority / "broker.key",
        "jwt_key_set_url": issuer.url,
    }
    settings, clock, runner = AuthSettings.model_validate(given), SimClock(), BlockingThread("files")
    try:
        credentials = await runner.run(lambda: read_credentials(settings))
        yield Reloading(settings, credentials, clock, runner), credentials, clock
    finally:
        await runner.aclose()


def principal(credentials: Credentials, token: str, clock: SimClock) -> str:
    return str(credentials.authenticator.principal_of(Proof(host="h", authorization=token), clock.now_ms() / 1_000))


async def test_a_key_set_that_changes_or_is_down_is_followed(issuer: Issuer, authority: Path) -> None:
    async with reloading(issuer, authority) as (looking, credentials, clock):
        now_s = clock.now_ms() / 1_000
        issuer.status = 503
        await looking.look()  # it is down at the start: nobody gets in, and the broker runs
        issuer.publish("first")
        first = issuer.token("first", now_s)
        with pytest.raises(UnauthenticatedError):
            principal(credentials, first, clock)
        issuer.status = 200
        clock.advance(KEY_SET_RETRY_S)
        await looking.look()
        assert principal(credentials, first, clock) == "service_account:ada"
        issuer.status = 503
        clock.advance(KEY_SET_REFRESH_S)
        await looking.look()  # it is down: the keys stay
        assert principal(credentials, first, clock) == "service_account:ada"
        issuer.status = 200
        issuer.publish("second")
        clock.advance(KEY_SET_RETRY_S)
        await looking.look()
        assert principal(credentials, issuer.token("second", now_s), clock) == "service_account:ada"
        with pytest.raises(UnauthenticatedError):
            principal(credentials, first, clock)


async def test_it_is_asked_seldom_and_sooner_where_a_token_was_refused(issuer: Issuer, authority: Path) -> None:
    issuer.publish("first")
    async with reloading(issuer, authority) as (looking, credentials, clock):
        for _ in range(5):
            await looking.look()
        assert issuer.asked == 1
        issuer.publish("first", "second")
        token = issuer.token("second", clock.now_ms() / 1_000)
        for _ in range(5):
            with pytest.raises(UnauthenticatedError):
                principal(credentials, token, clock)
            await looking.look()
        assert issuer.asked == 1
        clock.advance(KEY_SET_RETRY_S)
        await looking.look()
        assert issuer.asked == 2
        assert principal(credentials, token, clock) == "service_account:ada"


@pytest.mark.parametrize(
    ("status", "content", "error"),
    [
        (200, b"[]", SettingsError),
        (200, b"{", SettingsError),
        (200, b'{"keys": []}', SettingsError),
        (200, b" " * (KEY_SET_BYTES_MAX + 1), SettingsError),
        (302, b"", UnavailableError),
        (404, b"", UnavailableError),
    ],
)
async def test_what_is_no_key_set_is_refused(
    status: int, content: bytes, error: type[Exception], issuer: Issuer
) -> None:
    issuer.status, issuer.content = status, content
    with pytest.raises(error):
        await run_apart("key-set", lambda: fetch_key_set(issuer.url, None))
    assert issuer.asked == 1  # nobody was followed elsewhere


def test_keys_that_are_too_short_secret_or_symmetric_are_left_out() -> None:
    short = RSAAlgorithm.to_jwk(rsa.generate_private_key(65_537, 1_024).public_key(), as_dict=True)
    whole = ECAlgorithm.to_jwk(ec.generate_private_key(ec.SECP256R1()), as_dict=True)
    symmetric = {"kty": "oct", "k": secrets.token_urlsafe(32)}
    with pytest.raises(SettingsError, match="no key"):
        keys_of(json.dumps({"keys": [short, whole, symmetric]}).encode(), "a set")


async def test_files_are_read_again_only_when_they_change(
    tmp_path: Path, authority: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, read = tmp_path / "secret", []
    await asyncio.to_thread(_write, file, secrets.token_hex(32))
    given = {"mode": "tls", "tls_cert": authority / "broker.pem", "tls_key": authority / "broker.key"}
    settings, runner = AuthSettings.model_validate({**given, "jwt_secret_file": file}), BlockingThread("files")
    credentials = await runner.run(lambda: read_credentials(settings))
    looking = Reloading(settings, credentials, SimClock(), runner)
    monkeypatch.setattr("danube.broker.security.reloading.token_rules", lambda *_: read.append(1))
    for _ in range(3):
        await looking.look()
    assert read == []
    await asyncio.to_thread(_write, file, secrets.token_hex(33))
    for _ in range(3):
        await looking.look()
    await runner.aclose()
    assert read == [1]


def _write(path: Path, content: str) -> None:
    path.write_text(content)
    path.chmod(0o600)
