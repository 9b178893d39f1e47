"""Webhooks in: over real sockets, into a real broker."""

import asyncio
import hashlib
import hmac
import json
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx2
import jwt
import pytest

from danube.connect.connectors.webhook_in.limits import Limiter, wait_s
from danube.connect.connectors.webhook_in.proof import proof_of, standard_key, standard_signature
from danube.connect.connectors.webhook_in.settings import Auth, RateLimit
from danube.connect.connectors.webhook_in.source import WebhookSource
from danube.connect.runner import Runner
from danube.connect.sdk import Context, definition_of
from danube.model.errors import SettingsError
from danube.model.records.connectors import Status
from danube.testing.connect.workbench import TOPIC, Workbench, until, workbench

KEY = {"x-api-key": "the-key"}
SERVER = {"host": "127.0.0.1", "port": 0, "max_body_size": 1_000}


@pytest.fixture(autouse=True)
def _secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOOK_KEY", "the-key")


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Workbench]:
    async with workbench(tmp_path) as bench:
        yield bench


class Hooks:
    """A webhook source that serves, and its client."""

    def __init__(self, bench: Workbench) -> None:
        self.bench = bench
        self.sources: list[WebhookSource] = []

    async def start(self, *, auth: dict[str, Any] | None = None, **route: Any) -> Runner:
        found = definition_of(WebhookSource)

        def make(context: Context) -> WebhookSource:
            self.sources.append(WebhookSource(context))
            return self.sources[-1]

        section = {"server": SERVER, "auth": auth or {"type": "apikey", "secret_env": "HOOK_KEY"}}
        routes = [{"from": "/orders", "to": TOPIC, **route}]
        runner = await self.bench.run(replace(found, make=make), section, routes)

        async def serves() -> bool:
            return bool(self.sources and self.sources[-1].address)

        await until(serves, "the source serves")
        return runner

    async def post(self, body: bytes, headers: dict[str, str], path: str = "/orders") -> httpx2.Response:
        async with httpx2.AsyncClient() as client:
            return await client.post(f"http://{self.sources[-1].address}{path}", content=body, headers=headers)


async def test_a_request_is_answered_after_its_record_is_stored(bench: Workbench) -> None:
    hooks = Hooks(bench)
    await hooks.start(key_header="x-order")
    answer = await hooks.post(b'{"id":1}', KEY | {"x-order": "7", "content-type": "application/json"})
    (stored,) = await bench.stored()
    assert (answer.status_code, answer.json()) == (202, {"status": "stored"})
    assert (stored.payload, stored.routing_key) == (b'{"id":1}', "7")
    assert stored.attributes == {"content-type": "application/json", "x-webhook-path": "/orders"}


async def test_a_request_is_refused_in_a_sentence_and_not_stored(bench: Workbench) -> None:
    hooks = Hooks(bench)
    await hooks.start()
    no_key = "the header x-api-key has no valid key"
    refusals = [
        (await hooks.post(b"x", {}), 401, no_key),
        (await hooks.post(b"x", {"x-api-key": "another"}), 401, no_key),
        (await hooks.post(b"x", KEY, "/other"), 404, "no route has this path"),
        (await hooks.post(b"x" * 1_001, KEY), 413, "the body has more than 1,000 bytes"),
    ]
    for answer, status, sentence in refusals:
        assert (answer.status_code, answer.json()) == (status, {"error": sentence})
    assert await bench.stored() == []


async def test_a_request_that_comes_again_is_stored_once(bench: Workbench) -> None:
    hooks = Hooks(bench)
    await hooks.start()
    answers = await asyncio.gather(*(hooks.post(b"x", KEY | {"webhook-id": "msg_1"}) for _ in range(5)))
    again = await hooks.post(b"x", KEY | {"webhook-id": "msg_1"})
    assert {answer.status_code for answer in [*answers, again]} == {202}
    assert [message.attributes["x-webhook-id"] for message in await bench.stored()] == ["msg_1"]


async def test_too_many_requests_are_told_when_to_come_again(bench: Workbench) -> None:
    hooks = Hooks(bench)
    await hooks.start(rate_limit={"requests_per_second": 0.1, "burst_size": 2})
    answers = [await hooks.post(b"x", KEY) for _ in range(3)]
    assert [answer.status_code for answer in answers] == [202, 202, 429]
    assert 1 <= int(answers[2].headers["retry-after"]) <= 10


async def test_a_missing_secret_is_a_wrong_configuration_and_no_open_port(
    bench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("HOOK_KEY")
    found = definition_of(WebhookSource)
    section = {"server": SERVER, "auth": {"type": "apikey", "secret_env": "HOOK_KEY"}}
    runner = await bench.run(found, section, [{"from": "/orders", "to": TOPIC}])

    async def has_failed() -> bool:
        return [state.status for state in runner.states] == [Status.FAILED]

    await until(has_failed, "the task has failed")
    assert "HOOK_KEY is empty" in (runner.problem() or "")


async def test_a_request_under_way_is_answered_when_the_source_drains(bench: Workbench) -> None:
    hooks = Hooks(bench)
    runner = await hooks.start()
    assert (await hooks.post(b"x", KEY)).status_code == 202
    assert await runner.drain()
    with pytest.raises(httpx2.ConnectError):
        await hooks.post(b"x", KEY)


BODY = b'{"amount": 5}'
NOW_S = 1_700_000_000.0


def hexadecimal(body: bytes) -> str:
    return hmac.new(b"the-key", body, hashlib.sha256).hexdigest()


@pytest.mark.parametrize(
    ("header", "headers"),
    [
        (
            "webhook-signature",
            {
                "webhook-id": "m",
                "webhook-timestamp": "1700000000",
                "webhook-signature": f"v1,AAAA {standard_signature(b'the-key', 'm', 1_700_000_000, BODY)}",
            },
        ),
        ("Stripe-Signature", {"stripe-signature": f"t=1700000000,v0=1,v1={hexadecimal(b'1700000000.' + BODY)}"}),
        ("X-Hub-Signature-256", {"x-hub-signature-256": f"sha256={hexadecimal(BODY)}"}),
        ("x-signature", {"x-signature": hexadecimal(BODY)}),
    ],
)
def test_a_signature_of_each_form_is_right_for_its_body_and_time_alone(header: str, headers: dict[str, str]) -> None:
    judge = proof_of(Auth(type="hmac", secret_env="HOOK_KEY", header=header), {"HOOK_KEY": "the-key"})
    assert judge(headers, BODY, NOW_S) is None
    assert judge(headers, BODY + b" ", NOW_S) == "the signature is wrong"
    assert judge({}, BODY, NOW_S) is not None
    if any("1700000000" in value for value in headers.values()):
        assert judge(headers, BODY, NOW_S + 301) == "the signature is too old, or the clocks differ"


def test_a_signature_is_that_of_the_standard() -> None:
    """The example of the specification of Standard Webhooks."""
    key = standard_key("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
    body = json.dumps({"test": 2432232314}).encode()
    wanted = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
    assert standard_signature(key, "msg_p5jXN8AQM9LWM0D4loKWxJek", 1_614_265_330, body) == wanted


def token(**claims: Any) -> dict[str, str]:
    secret = "the-key-that-is-long-enough-for-a-token"
    return {"authorization": f"Bearer {jwt.encode({'exp': time.time() + 60} | claims, secret, 'HS256')}"}


@pytest.mark.parametrize(
    ("made", "problem"),
    [
        (lambda: token(aud="us"), None),
        (lambda: token(aud="them"), "the token is not valid"),
        (lambda: token(aud="us", exp=1), "the token has ended: get a new one"),
        (dict, "the token is not valid"),
        (lambda: {"authorization": "Bearer x.y.z"}, "the token is not valid"),
    ],
)
def test_a_token_is_judged(made: Callable[[], dict[str, str]], problem: str | None) -> None:
    auth = Auth(type="jwt", secret_env="JWT", audience="us")
    assert proof_of(auth, {"JWT": "the-key-that-is-long-enough-for-a-token"})(made(), b"", NOW_S) == problem


def test_a_public_key_is_no_secret_of_an_hmac() -> None:
    with pytest.raises(SettingsError, match="does not go with its key"):
        proof_of(Auth(type="jwt", secret_env="HOOK_KEY", algorithm="RS256"), {"HOOK_KEY": "x"})


def test_each_address_has_a_rate_of_its_own_and_what_was_refused_is_not_counted() -> None:
    limit = RateLimit(requests_per_second=100, per_ip_enabled=True, per_ip_requests_per_second=1)
    limiters = [Limiter(limit, 0.0)]
    assert [wait_s(limiters, "a", 0.0), wait_s(limiters, "b", 0.0)] == [0, 0]
    assert wait_s(limiters, "a", 0.5) == pytest.approx(0.5)
    assert wait_s(limiters, "a", 1.0) == 0
