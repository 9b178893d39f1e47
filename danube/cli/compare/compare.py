"""`danube bench --compare`: this broker and others, measured in turns; medians, and how they compare."""

import statistics
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field

from danube.cli.compare.danube_peer import danube_peer
from danube.cli.compare.kafka import kafka_peer
from danube.cli.compare.nats import nats_peer
from danube.cli.compare.peer import Peer, latencies_s, throughput
from danube.cli.compare.redis import redis_peer
from danube.client import DanubeClient
from danube.model.errors import InvalidRequestError
from danube.model.limits.faces import COMPARE_LATENCY_MESSAGES_MAX, COMPARE_RATE

_SCHEMES: dict[str, Callable[[str], AbstractAsyncContextManager[Peer]]] = {
    "kafka": kafka_peer,
    "nats": nats_peer,
    "redis": redis_peer,
}


@dataclass(frozen=True, slots=True)
class Comparison:
    """Messages and rounds of a comparison."""

    messages: int
    size: int
    rounds: int
    rate: int = COMPARE_RATE


@dataclass(slots=True)
class Compared:
    """Outcome of one broker: a figure for each round."""

    name: str
    rates: list[float] = field(default_factory=list)
    p50_ms: list[float] = field(default_factory=list)
    p99_ms: list[float] = field(default_factory=list)


def peer_at(url: str) -> AbstractAsyncContextManager[Peer]:
    """A connection to another broker, by its URL. Raises InvalidRequestError."""
    scheme, _, address = url.partition("://")
    if scheme not in _SCHEMES or not address:
        raise InvalidRequestError(f"{url!r} cannot be compared with: use {', '.join(f'{one}://' for one in _SCHEMES)}")
    return _SCHEMES[scheme](address.rstrip("/"))


@asynccontextmanager
async def connected(client: DanubeClient, topic: str, others: Sequence[str]) -> AsyncIterator[list[Peer]]:
    """This broker, and those of the URLs. Raises as `peer_at` and its peers."""
    async with AsyncExitStack() as open_peers:
        ours: Peer = await open_peers.enter_async_context(danube_peer(client, topic))
        yield [ours, *[await open_peers.enter_async_context(peer_at(url)) for url in others]]


async def compare(peers: Sequence[Peer], wanted: Comparison) -> list[Compared]:
    """Measure all, in turns."""
    found = [Compared(peer.name) for peer in peers]
    for _ in range(wanted.rounds):
        for peer, compared in zip(peers, found, strict=True):
            compared.rates.append((await throughput(peer, wanted.messages, wanted.size)).rate)
        for peer, compared in zip(peers, found, strict=True):
            count = min(wanted.messages, COMPARE_LATENCY_MESSAGES_MAX)
            ordered = sorted(await latencies_s(peer, wanted.rate, count, wanted.size))
            compared.p50_ms.append(ordered[len(ordered) // 2] * 1e3)
            compared.p99_ms.append(ordered[len(ordered) * 99 // 100] * 1e3)
    return found


def comparison_lines(found: Sequence[Compared], wanted: Comparison) -> Iterator[str]:
    """For people: a table, whose first broker is ours."""
    median = statistics.median
    ours = median(found[0].rates)
    yield (
        f"{wanted.messages:,} messages of {wanted.size:,} bytes from producer to consumer, acknowledged; "
        f"then latency at {wanted.rate:,} a second; medians of {wanted.rounds}, in turns"
    )
    yield f"  {'':<16} {'messages/s':>12} {'ours to it':>12} {'p50 ms':>9} {'p99 ms':>9}"
    for each in found:
        rate = median(each.rates)
        figures = f"{rate:>12,.0f} {ours / rate:>12.2f} {median(each.p50_ms):>9.2f} {median(each.p99_ms):>9.2f}"
        yield f"  {each.name:<16} {figures}"
    yield "  Each broker syncs as it is configured: compare like with like."
