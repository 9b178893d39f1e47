"""Reads of a page that many look at: the same read of the same caller is asked once, and its answer is shared."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, cast

from danube.admin.gateway import AdminGateway
from danube.admin.target import PASSED_TOKEN
from danube.model.errors import DanubeError
from danube.model.limits.faces import WEB_SHARED_READS_MAX, WEB_SHARED_S
from danube.runtime.clock import Clock

_READS = frozenset(
    {"brokers", "cluster_balance", "connection", "describe_broker", "describe_brokers", "describe_cluster"}
    | {"describe_topics", "leader", "metrics", "namespaces", "plans", "raft_status", "system_records"}
    | {"topic_connections", "topic_policies"}
)
Key = tuple[object, ...]


@dataclass(frozen=True, slots=True)
class _Read:
    asked_s: float
    answer: "asyncio.Future[Any]" = field(default_factory=lambda: asyncio.get_running_loop().create_future())


class SharedReads:
    """A gateway whose reads are shared for WEB_SHARED_S; every other call goes through.

    An error is that of all who wait for it, and is not kept.
    """

    def __init__(self, gateway: AdminGateway, clock: Clock) -> None:
        self._gateway = gateway
        self._clock = clock
        self._reads: dict[Key, _Read] = {}

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - a call of the gateway's
        call = getattr(self._gateway, name)
        if name not in _READS:
            return call

        async def ask(*given: Any, **named: Any) -> Any:  # noqa: ANN401 - as the gateway's
            key = (PASSED_TOKEN.get(), name, *given, *sorted(named.items()))
            return await self._ask(key, lambda: call(*given, **named))

        return ask

    async def _ask(self, key: Key, call: Callable[[], Awaitable[Any]]) -> Any:  # noqa: ANN401 - as above
        now_s = self._clock.monotonic_s()
        while (read := self._reads.get(key)) is not None and now_s - read.asked_s < WEB_SHARED_S:
            await asyncio.wait([read.answer])
            if not read.answer.cancelled():
                return read.answer.result()
        self._reads = {one: kept for one, kept in self._reads.items() if now_s - kept.asked_s < WEB_SHARED_S}
        if len(self._reads) >= WEB_SHARED_READS_MAX:
            return await call()
        read = self._reads[key] = _Read(now_s)
        try:
            answer = await call()
        except DanubeError as error:
            self._reads.pop(key, None)
            read.answer.set_exception(error)
            read.answer.exception()  # nobody may wait for it
            raise
        except BaseException:
            self._reads.pop(key, None)
            read.answer.cancel()  # whoever waits asks for itself
            raise
        read.answer.set_result(answer)
        return answer


def shared_reads(gateway: AdminGateway, clock: Clock) -> AdminGateway:
    """The gateway, with its reads shared."""
    return cast("AdminGateway", SharedReads(gateway, clock))
