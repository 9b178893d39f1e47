"""Webhooks out: to a real receiver, and by the contract of sinks."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from danube.client import DispatchStrategy
from danube.connect.connectors.webhook_in.proof import proof_of
from danube.connect.connectors.webhook_in.settings import Auth
from danube.connect.connectors.webhook_out import WebhookSink, retry_after_s
from danube.connect.sdk import Definition, definition_of
from danube.rpc.http_port import HttpPort, Message, Receive, Send, listen
from danube.runtime.tasks import TaskScope
from danube.testing.connect import SINK_CASES, Case, SinkSide
from danube.testing.connect.workbench import TOPIC, payloads, until, workbench


class Receiver:
    """A receiver of webhooks; it answers with `statuses` first, then with 204."""

    def __init__(self) -> None:
        self.taken: list[bytes] = []
        self.requests: list[tuple[bytes, dict[str, str]]] = []
        self.statuses: list[int] = []
        self.refuses: set[bytes] = set()
        self._scope = TaskScope("receiver")
        listener = listen("127.0.0.1", 0, "")
        self.url = f"http://127.0.0.1:{listener.getsockname()[1]}/hook"
        self._port = HttpPort(self._answer, requests_max=1_000, drain_s=1)
        self._serving = self._scope.spawn(self._port.serve(sockets=[listener]), "serve")

    @property
    def definition(self) -> Definition:
        return definition_of(WebhookSink)

    @property
    def section(self) -> dict[str, Any]:
        return {"url": self.url, "secret": "the-key"}

    @property
    def route(self) -> dict[str, Any]:
        return {}

    async def rows(self) -> list[bytes]:
        return list(self.taken)

    async def close(self) -> None:
        await self._port.stop(self._serving)
        await self._scope.close()

    async def _answer(self, scope: Message, receive: Receive, send: Send) -> None:
        body = b""
        while True:
            message = await receive()
            body += message.get("body", b"")
            if not message.get("more_body"):
                break
        headers = {name.decode(): value.decode() for name, value in scope["headers"]}
        self.requests.append((body, headers))
        status = 422 if body in self.refuses else self.statuses.pop(0) if self.statuses else 204
        if status == 204:
            self.taken.append(body)
        await send({"type": "http.response.start", "status": status, "headers": [(b"retry-after", b"1")]})
        await send({"type": "http.response.body", "body": b"" if status == 204 else b"why not"})


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    made = Receiver()
    yield made
    await made.close()


ROUTE = {"from": TOPIC}
CASES = [case for case in SINK_CASES if "paused" not in str(case)]
"""A task that was paused posts again: at least once, and the receiver knows the id."""


@pytest.mark.parametrize("case", CASES, ids=str)
async def test_the_webhook_sink_keeps_the_contract(case: Case[SinkSide], receiver: Receiver, tmp_path: Path) -> None:
    await case.run(receiver, tmp_path)


async def test_requests_are_signed_and_have_an_id_that_stays(receiver: Receiver, tmp_path: Path) -> None:
    receiver.statuses = [500]
    async with workbench(tmp_path) as bench:
        await bench.produce([b"one"])
        await bench.run(receiver.definition, receiver.section, [ROUTE])
        await until(lambda: _has(receiver, 1), "the record is taken")
    first, second = receiver.requests
    assert first[1]["webhook-id"] == second[1]["webhook-id"]
    assert first[1]["webhook-id"].endswith(":/default/orders:0")
    judge = proof_of(Auth(type="hmac", secret_env="S"), {"S": "the-key"})
    for body, headers in (first, second):
        assert judge(headers, body, float(headers["webhook-timestamp"])) is None


async def test_refused_records_go_to_the_dead_letters_and_the_rest_is_posted_once(
    receiver: Receiver, tmp_path: Path
) -> None:
    receiver.refuses = {b"record-2", b"record-4"}
    async with workbench(tmp_path) as bench:
        await bench.produce(payloads(6))
        await bench.run(receiver.definition, receiver.section, [ROUTE])
        await until(lambda: _has(receiver, 4), "the rest is taken")

        async def are_letters() -> bool:
            return len(await bench.dead_letters()) == 2

        await until(are_letters, "the refused ones are dead letters")
        (first, _) = await bench.dead_letters()
    assert sorted(receiver.taken) == [b"record-0", b"record-1", b"record-3", b"record-5"]
    assert "answered 422: why not" in first.attributes["x-failure-reason"]


async def test_records_of_one_key_are_posted_in_order_through_failures(receiver: Receiver, tmp_path: Path) -> None:
    async with workbench(tmp_path) as bench:
        async with (
            bench.client.new_producer()
            .with_topic(TOPIC)
            .with_name("maker")
            .with_dispatch_strategy(DispatchStrategy.RELIABLE)
            .build() as producer
        ):
            await producer.send_many_with_keys(("same", payload) for payload in payloads(20))
        receiver.statuses = [204, 503, 204, 429]
        await bench.run(receiver.definition, receiver.section, [ROUTE])
        await until(lambda: _has(receiver, 20), "all are taken")
    assert list(dict.fromkeys(receiver.taken)) == payloads(20)  # some may come again, and none before an earlier one


async def _has(receiver: Receiver, count: int) -> bool:
    return len(set(receiver.taken)) >= count


def test_retry_after_is_seconds_or_a_date() -> None:
    assert retry_after_s("7", 0) == 7
    assert retry_after_s("Thu, 01 Jan 1970 00:01:40 GMT", 40) == 60
    assert (retry_after_s("soon", 0), retry_after_s("", 0), retry_after_s("999999999", 0)) == (0, 0, 600)
