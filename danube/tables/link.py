"""The way to the cluster for code that is not async: a client with an event loop.

Spark plans through it on the driver and reads on the workers. A process of Spark keeps one, so that the tasks that a
worker is given one after the other share a connection. Workers are forked by a process that has not imported this, so
gRPC never sees a fork. A query has one of its own, whose loop runs in a thread: its readers run in several threads.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from danube.client.client import DanubeClient, DanubeClientBuilder
from danube.client.connection.retry import Failure, RetryPolicy, delay_before_retry
from danube.model.calls.schemas import FindVersion, VersionDescription
from danube.model.calls.stream import FetchedBatch
from danube.model.errors import (
    DanubeError,
    PreconditionFailedError,
    SettingsError,
    TopicNotFoundError,
    UnavailableError,
)
from danube.model.limits.broker import CONNECT_TIMEOUT_S
from danube.model.topic import TopicName
from danube.rpc.engines import ClientTls, client_carrier
from danube.runtime.blocking import LoopThread
from danube.runtime.clock import Clock, SystemClock
from danube.runtime.paths import expanded
from danube.runtime.rng import Rng, SystemRng
from danube.tables.planning import OffsetRange, TopicState

T = TypeVar("T")

BOUNDS_AT_ONCE_MAX = 64
"""Partitions of one topic whose offsets are asked for at the same time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """Address and credentials of the cluster; sent to the workers with each task."""

    service_url: str
    ca_pem: bytes | None = field(default=None, repr=False)
    token: str | None = field(default=None, repr=False)
    retry_s: float
    """How long a broker that was lost is tried for."""
    skip_unreachable: bool = False
    """Whether partitions of brokers that do not run are left out."""


def read_certificate(path: str) -> bytes:
    """The PEM file of the authority to trust. Raises SettingsError."""
    try:
        return expanded(Path(path)).read_bytes()
    except OSError as error:
        raise SettingsError(f"cannot read {path} ({error.strerror}): give the path of a PEM file") from None


class Link:
    """A client with its event loop. Without a `thread` not for several threads, and where no event loop runs."""

    def __init__(self, endpoint: Endpoint, thread: LoopThread | None = None) -> None:
        self.endpoint = endpoint
        self._thread = thread
        self._loop = _event_loop() if thread is None else thread.loop
        self._client = self._run(connect(endpoint))
        self._reached = False
        self.unreached: list[str] = []
        """Partitions that were left out when states were asked for last."""
        self._clock = SystemClock()
        self._rng = SystemRng()

    def states(self, topic: str, times_ms: Sequence[int] = ()) -> list[TopicState]:
        """Bounds of a topic, or of all its partitions. Raises TopicNotFoundError, DanubeError."""
        return self._run(self._patiently(lambda: self._states(topic, times_ms)))

    def state(self, topic: str) -> TopicState:
        """Bounds of one topic or partition. Raises TopicNotFoundError, DanubeError."""
        return self._run(self._patiently(lambda: self._state(topic, ())))

    def partition_index(self, topic: str) -> int | None:
        """Number of a partition; None of a plain topic, whatever its name. Raises DanubeError."""
        index = TopicName.parse(topic).partition_index
        if index is None:
            return None
        return index if self._run(self._patiently(lambda: self._client.base_of(topic))) != topic else None

    def batches(self, wanted: OffsetRange) -> Iterator[list[FetchedBatch]]:
        """The stored batches that hold a range, some at a time, as they come. Raises DanubeError."""
        answers = self._client.fetch_batches(
            wanted.topic, start=wanted.start, end=wanted.end, retry_s=self.endpoint.retry_s
        )
        try:
            while (batches := self._run(_next(answers))) is not None:
                yield batches
        finally:
            self._run(answers.aclose())

    def topic_schema(self, topic: str) -> VersionDescription:
        """The newest version of the subject that a topic is bound to; of a partitioned one, its first partition's.

        Raises PreconditionFailedError for a topic without a schema, DanubeError.
        """
        return self._run(self._patiently(lambda: self._topic_schema(topic)))

    def schema_version(self, schema_id: int, version: int | None) -> VersionDescription:
        """A version of a subject; None is the newest. Raises DanubeError."""
        wanted = FindVersion(schema_id=schema_id, version=version or 0)
        return self._run(self._patiently(lambda: self._client.schema().find(wanted)))

    def close(self) -> None:
        """Disconnect. Idempotent."""
        self._run(self._client.close())

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        """Not by `asyncio.Runner`: at each run it spells out the last result for an error that nobody sees."""
        if self._thread is not None:
            return asyncio.run_coroutine_threadsafe(work, self._loop).result()
        return self._loop.run_until_complete(work)

    async def _topic_schema(self, topic: str) -> VersionDescription:
        names = await self._client.partitions(topic) or [topic]
        config = await self._client.schema().get_topic_schema_config(names[0])
        if not config.schema_subject:
            raise PreconditionFailedError(f"{topic} has no schema: bind it to a subject, or read the column value")
        return await self._client.schema().find(FindVersion(subject=config.schema_subject))

    async def _states(self, topic: str, times_ms: Sequence[int]) -> list[TopicState]:
        names = await self._client.partitions(topic)
        if not names:
            raise TopicNotFoundError(
                f"there is no topic {topic} at {self.endpoint.service_url}: check its name, or create it"
            )
        found: list[TopicState | UnavailableError] = []
        for at in range(0, len(names), BOUNDS_AT_ONCE_MAX):
            some = names[at : at + BOUNDS_AT_ONCE_MAX]
            found += await asyncio.gather(*(self._state_or_fault(name, times_ms) for name in some))
        self.unreached = [name for name, each in zip(names, found, strict=True) if isinstance(each, UnavailableError)]
        states = [each for each in found if isinstance(each, TopicState)]
        if not states:
            raise next(each for each in found if isinstance(each, UnavailableError))
        return states

    async def _state_or_fault(self, topic: str, times_ms: Sequence[int]) -> TopicState | UnavailableError:
        if not self.endpoint.skip_unreachable:
            return await self._state(topic, times_ms)
        try:
            return await self._patiently(lambda: self._state(topic, times_ms), CONNECT_TIMEOUT_S)
        except UnavailableError as error:
            return error

    async def _state(self, topic: str, times_ms: Sequence[int]) -> TopicState:
        bounds = await self._client.bounds(topic, times_ms)
        offsets_at = dict(zip(times_ms, bounds.offsets, strict=True))
        return TopicState(topic, bounds.topic_id, bounds.start_offset, bounds.end_offset, offsets_at)

    async def _patiently(self, work: Callable[[], Awaitable[T]], patience_s: float | None = None) -> T:
        """The answer, tried for again while that may help; a cluster that was never reached is given up soon."""
        began_s, attempt = self._clock.monotonic_s(), 0
        while True:
            try:
                answer = await work()
            except DanubeError as error:
                attempt += 1
                now_s = self._clock.monotonic_s()
                failure = Failure(error=error, attempt=attempt, elapsed_s=now_s - began_s)
                delay_s = delay_before_retry(self._policy(patience_s), failure, self._rng.uniform(0, 1))
                if delay_s is None:
                    raise
                await self._clock.sleep_until(now_s + delay_s)
            else:
                self._reached = True
                return answer

    def _policy(self, patience_s: float | None) -> RetryPolicy:
        patience_s = self.endpoint.retry_s if patience_s is None else min(patience_s, self.endpoint.retry_s)
        return RetryPolicy(total_s=patience_s if self._reached else min(patience_s, CONNECT_TIMEOUT_S))


@cache
def _event_loop() -> asyncio.AbstractEventLoop:
    """One for the life of the process: gRPC goes on to hand events to loops that it has once seen."""
    return asyncio.new_event_loop()


_open: list[Link] = []
"""The link of this process: one at most."""


def link_to(endpoint: Endpoint) -> Link:
    """This process's link; the one to another cluster, or with another token, is closed for it."""
    if _open and _open[0].endpoint == endpoint:
        return _open[0]
    close_link()
    _open.append(Link(endpoint))
    return _open[0]


def close_link() -> None:
    """Disconnect this process. Idempotent."""
    while _open:
        _open.pop().close()


async def connect(endpoint: Endpoint, clock: Clock | None = None, rng: Rng | None = None) -> DanubeClient:
    """A client as `endpoint` says; it connects when it is first used."""
    builder = DanubeClientBuilder().service_url(endpoint.service_url)
    if clock is not None:
        builder = builder.with_clock(clock, rng)
    token = endpoint.token
    if token is not None:
        builder = builder.with_token(token)  # over TLS only, whatever the URL says
    if endpoint.ca_pem is not None:
        builder = builder.with_carrier(client_carrier(SystemClock(), ClientTls(ca=endpoint.ca_pem)))
    return await builder.build()


def _next(answers: AsyncGenerator[list[FetchedBatch], None]) -> Coroutine[None, None, list[FetchedBatch] | None]:
    async def following() -> list[FetchedBatch] | None:
        return await anext(answers, None)

    return following()
