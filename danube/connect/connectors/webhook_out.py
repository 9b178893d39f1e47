"""The webhook sink: POSTs each record, in order for each key, signed as Standard Webhooks has it."""

import asyncio
import ssl
import time
from collections.abc import Sequence
from datetime import UTC
from email.utils import parsedate_to_datetime
from functools import cache
from typing import Annotated
from urllib.parse import quote

import httpx2
from pydantic import AfterValidator, Field, SecretStr

from danube.connect.batch import Batch, Partition, Record
from danube.connect.config.routes import SinkRoute, SinkSettings
from danube.connect.connectors.webhook_in.proof import standard_key, standard_signature
from danube.connect.failures import OtherSideError, RefusedError
from danube.connect.sdk import Context, Sink, sink
from danube.model.errors import SettingsError
from danube.model.limits.faces import WEBHOOK_IN_FLIGHT_MAX, WEBHOOK_RETRY_AFTER_MAX_S
from danube.runtime.blocking import run_apart

_TRIED_AGAIN = {401, 403, 407, 408, 409, 421, 423, 425, 429}
"""Answers of the 400s that say nothing against the record: a token has ended, or there is too much at once."""


def _url(value: str) -> str:
    if value and not value.startswith(("http://", "https://")):
        raise ValueError("is no URL: begin it with https://")
    return value


Url = Annotated[str, AfterValidator(_url)]


class WebhookOutRoute(SinkRoute):
    """A topic, and a URL for its records."""

    to: Url = Field(default="", description="In place of the url of all routes.")


class WebhookOutSettings(SinkSettings):
    """`[webhook_out]`; the `to` of a route is a URL of its own."""

    url: Url = Field(default="", description="URL of routes that have no `to`.")
    timeout_secs: float = Field(default=10, gt=0, le=25)
    secret: SecretStr | None = Field(default=None, description="Signs as Standard Webhooks.")
    headers: dict[str, SecretStr] = Field(default_factory=dict, description="Of each request.")
    routes: tuple[WebhookOutRoute, ...] = Field(min_length=1)


@sink(settings=WebhookOutSettings)
class WebhookSink(Sink[bytes]):
    """POSTs records. Those of one key one after the other, those of different keys at the same time."""

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._settings: WebhookOutSettings = context.settings
        self._url = context.route.to or self._settings.url
        secret = self._settings.secret
        self._key = None if secret is None else standard_key(secret.get_secret_value())
        self._client: httpx2.AsyncClient | None = None
        self._done: set[int] = set()
        """Offsets of a batch that is retried whose records were taken."""

    async def open(self) -> None:
        if not self._url:
            raise SettingsError(f"{self.context.connector}: a route has no `to`, and [webhook_out] no url: set one")
        self._client = await run_apart("http client", self._made)  # reads the certificates of the system

    async def write(self, batch: Batch[bytes]) -> None:
        self._done = {offset for offset in self._done if offset >= batch.start}
        lanes: dict[object, list[Record[bytes]]] = {}
        for record in batch.records:
            if record.offset not in self._done:
                lanes.setdefault(record.key or record.offset, []).append(record)
        room = asyncio.Semaphore(WEBHOOK_IN_FLIGHT_MAX)
        sending = (self._send_lane(batch.partition, lane, room) for lane in lanes.values())
        failures = [each for each in await asyncio.gather(*sending, return_exceptions=True) if each is not None]
        refused = [each for each in failures if isinstance(each, RefusedError)]
        if failures:
            raise next((each for each in failures if each not in refused), failures[0])

    async def close(self) -> None:
        if self._client is not None:
            await self._client.aclose()

    async def check(self) -> str:
        async with await run_apart("http client", self._made) as client:
            try:
                answer = await client.head(self._url)
            except httpx2.HTTPError as error:
                raise OtherSideError(f"{self._url} cannot be reached: {error}") from None
        return f"{self._url} answers, HEAD with {answer.status_code}"

    async def _send_lane(self, partition: Partition, lane: Sequence[Record[bytes]], room: asyncio.Semaphore) -> None:
        """Send the records of one key. Raises what the first one raises that failed."""
        async with room:
            for record in lane:
                await self._post(partition, record)
                self._done.add(record.offset)

    async def _post(self, partition: Partition, record: Record[bytes]) -> None:
        if self._client is None:
            raise OtherSideError("the sink is closed")
        try:
            answer = await self._client.post(
                self._url, content=record.payload, headers=self._headers(partition, record)
            )
        except httpx2.InvalidURL as error:
            raise SettingsError(f"{self._url} is no URL: {error}") from None
        except httpx2.HTTPError as error:
            raise OtherSideError(f"{self._url}: {type(error).__name__} {error}".rstrip()) from None
        status = answer.status_code
        if 200 <= status < 300:
            return
        if 400 <= status < 500 and status not in _TRIED_AGAIN:
            raise RefusedError(f"{self._url} answered {status}: {answer.text[:200]}", [record.offset])
        asked_s = retry_after_s(answer.headers.get("retry-after", ""), time.time())
        raise OtherSideError(f"{self._url} answered {status}", asked_s)

    def _headers(self, partition: Partition, record: Record[bytes]) -> dict[str, str]:
        identity, now_s = f"{partition.key}:{record.offset}", int(time.time())
        headers = {
            "content-type": record.attributes.get("content-type", "application/octet-stream"),
            "webhook-id": identity,
            "webhook-timestamp": str(now_s),
            "x-danube-topic": partition.topic,
            "x-danube-offset": str(record.offset),
        }
        if self._key is not None:
            headers["webhook-signature"] = standard_signature(self._key, identity, now_s, record.payload)
        if record.key:
            headers["x-danube-key"] = quote(record.key)
        return headers | {name: value.get_secret_value() for name, value in self._settings.headers.items()}

    def _made(self) -> httpx2.AsyncClient:
        limits = httpx2.Limits(max_connections=WEBHOOK_IN_FLIGHT_MAX)
        timeout_s = self._settings.timeout_secs
        return httpx2.AsyncClient(verify=_trust(), timeout=timeout_s, limits=limits, follow_redirects=False)


@cache
def _trust() -> ssl.SSLContext:
    """The certificates of the system, read once for all tasks."""
    return ssl.create_default_context()


def retry_after_s(text: str, now_s: float) -> float:
    """Seconds that a Retry-After asks for: a number, or a date; 0 for anything else."""
    if text.isascii() and text.isdigit():
        return min(float(text[:9]), WEBHOOK_RETRY_AFTER_MAX_S)
    try:
        moment = parsedate_to_datetime(text)
    except ValueError:
        return 0.0
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return min(max(moment.timestamp() - now_s, 0.0), WEBHOOK_RETRY_AFTER_MAX_S)
