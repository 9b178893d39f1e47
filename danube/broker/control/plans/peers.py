"""Topics of other brokers, for plans: their owners are asked, side by side and within PLAN_OWNERS_TIMEOUT_S."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Self, TypeVar

from danube.broker.control.positions import PositionControl
from danube.broker.topics.local_topics import Topics
from danube.broker.topics.topic import AnyTopic, ReliableTopic
from danube.metadata.records.catalog import ExtraWrites
from danube.model.address import host_and_port
from danube.model.calls.admin import DescribeTopics, TopicDescription
from danube.model.calls.positions import SeekPreview, SeekSubscription
from danube.model.errors import DanubeError, TopicNotServedError
from danube.model.limits.broker import CALL_TIMEOUT_S, DESCRIBE_NAMES_MAX
from danube.model.limits.moves import PLAN_OWNERS_TIMEOUT_S
from danube.model.topic import TopicName
from danube.rpc.carrier import Carrier
from danube.wire import control_messages as wire
from danube.wire.codec import Codec

Request = TypeVar("Request")
Answer = TypeVar("Answer")

_DESCRIBE_TOPICS = "/danube.control.Inspection/DescribeTopics"
_SERVICE = "/danube.control.Partitions"


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicCounts:
    """Contents of a topic, and the clients connected to it."""

    subscriptions: tuple[str, ...] = ()
    producers: int = 0
    consumers: int = 0
    messages: int = 0
    bytes: int = 0

    @classmethod
    def of(cls, topic: AnyTopic) -> Self:
        """The counts of a topic of this broker."""
        log = topic.log if isinstance(topic, ReliableTopic) else None
        return cls(
            subscriptions=tuple(sorted(topic.subscriptions)),
            producers=len(topic.producers),
            consumers=sum(each.connected() for each in topic.subscriptions.values()),
            messages=log.durable_end - log.start_offset if log else 0,
            bytes=log.body_bytes if log else 0,
        )

    def with_described(self, topic: TopicDescription) -> "TopicCounts":
        """The counts of another broker's topic, whose subscriptions may come on several pages."""
        return TopicCounts(
            subscriptions=(*self.subscriptions, *(each.name for each in topic.subscriptions)),
            producers=topic.producers,
            consumers=self.consumers + sum(each.connected_count for each in topic.subscriptions),
            messages=topic.end_offset - topic.start_offset,
            bytes=topic.storage.stored_bytes if topic.storage else 0,
        )


@dataclass(frozen=True, slots=True)
class CountedTopics:
    """Counts of topics of the cluster."""

    known: Mapping[TopicName, TopicCounts]
    unknown: Mapping[TopicName, str]
    """Topics whose owner does not answer, with the reason."""

    def total(self, name: str) -> int | None:
        """The sum of one of the counts; None where some are unknown."""
        return None if self.unknown else sum(getattr(each, name) for each in self.known.values())

    def warnings(self) -> tuple[str, ...]:
        """A sentence for each reason why topics are not counted."""
        by_reason: dict[str, list[TopicName]] = {}
        for name, reason in sorted(self.unknown.items()):
            by_reason.setdefault(reason, []).append(name)
        return tuple(
            f"Not counted: what is in {names[0]}{f' and {len(names) - 1:,} more' if names[1:] else ''}; {reason}."
            for reason, names in by_reason.items()
        )


class Peers:
    """Calls to the brokers that own topics."""

    def __init__(self, topics: Topics, carrier: Carrier) -> None:
        """`carrier` connects to admin ports of other brokers."""
        self._topics = topics
        self._carrier = carrier

    async def counts(self, names: Sequence[TopicName]) -> CountedTopics:
        """Counts of topics, whichever brokers serve them. Raises nothing."""
        known: dict[TopicName, TopicCounts] = {}
        unknown: dict[TopicName, str] = {}
        by_server: dict[str, list[TopicName]] = {}
        for name in names:
            topic = self._topics.find(str(name))
            if topic is not None:
                known[name] = TopicCounts.of(topic)
                continue
            try:
                by_server.setdefault(self._server(name), []).append(name)
            except DanubeError:
                unknown[name] = "no broker serves it at this moment"

        async def described(url: str, wanted: Sequence[TopicName]) -> None:
            try:
                async with asyncio.timeout(PLAN_OWNERS_TIMEOUT_S):
                    known.update(await self._described(url, wanted))
                reason = "it moves or is deleted at this moment"
            except (TimeoutError, DanubeError):
                reason = f"the broker at {url} does not answer"
            unknown.update({name: reason for name in wanted if name not in known})

        await asyncio.gather(*(described(*each) for each in by_server.items()))
        return CountedTopics(known, unknown)

    async def ask(
        self, name: TopicName, path: str, request: Codec[Request], value: Request, answer: Codec[Answer]
    ) -> Answer:
        """One call to the broker that serves a topic. Raises DanubeError."""
        return await self._call(self._server(name), path, request, value, answer)

    async def ask_servers(
        self,
        names: Sequence[TopicName],
        path: str,
        request: Codec[Request],
        value: Callable[[Sequence[TopicName]], Request],
        answer: Codec[Sequence[Answer]],
    ) -> list[Answer]:
        """The answers of all brokers that serve these topics, side by side. Raises DanubeError of any."""
        by_server: dict[str, list[TopicName]] = {}
        for name in names:
            by_server.setdefault(self._server(name), []).append(name)
        calls = (
            self._call(url, path, request, value(wanted[first : first + DESCRIBE_NAMES_MAX]), answer)
            for url, wanted in by_server.items()
            for first in range(0, len(wanted), DESCRIBE_NAMES_MAX)
        )
        return [one for found in await asyncio.gather(*calls) for one in found]

    async def _described(self, url: str, names: Sequence[TopicName]) -> dict[TopicName, TopicCounts]:
        found: dict[TopicName, TopicCounts] = {}
        for first in range(0, len(names), DESCRIBE_NAMES_MAX):
            part = tuple(names[first : first + DESCRIBE_NAMES_MAX])
            wanted = DescribeTopics(topics=part, page_size=DESCRIBE_NAMES_MAX)
            while True:
                page = await self._call(url, _DESCRIBE_TOPICS, wire.DESCRIBE_TOPICS, wanted, wire.TOPICS_PAGE)
                for topic in page.topics:
                    if topic.is_served:
                        found[topic.topic] = found.get(topic.topic, TopicCounts()).with_described(topic)
                if page.next is None:
                    break
                wanted = replace(wanted, after=page.next)
        return found

    def _server(self, name: TopicName) -> str:
        """The admin address of the broker that serves a topic. Raises TopicNotServedError."""
        record = self._topics.find_remote(name)
        server = self._topics.server_of(record) if record is not None else None
        if server is None:
            raise TopicNotServedError(f"{name} moves or is deleted at this moment: try again")
        return host_and_port(server.admin_url)

    async def _call(
        self, address: str, path: str, request: Codec[Request], value: Request, answer: Codec[Answer]
    ) -> Answer:
        channel = self._carrier.connect(address)
        try:
            return answer.decode(await channel.call(path, request.encode(value), timeout_s=CALL_TIMEOUT_S))
        finally:
            await channel.close()


class PartitionedSeek:
    """Seeks by the name of a topic: of this broker's partitions here, of others' by calls to the brokers."""

    def __init__(self, here: PositionControl, topics: Topics, peers: Peers) -> None:
        self._here = here
        self._topics = topics
        self._peers = peers

    async def preview(self, wanted: SeekSubscription) -> dict[TopicName, SeekPreview]:
        """The seek of each partition; of a topic that is not partitioned itself. Raises DanubeError.

        Raises TopicNotServedError where this broker serves no partition, and while no broker serves one of them.
        """
        return {
            each.name.topic: await self._here.preview(each)
            if self._is_here(each)
            else await self._peers.ask(each.name.topic, f"{_SERVICE}/PreviewSeek", wire.SEEK, each, wire.SEEK_PREVIEW)
            for each in self._partitions(wanted)
        }

    async def seek(self, wanted: SeekSubscription, extra_writes: ExtraWrites) -> None:
        """Carry it out, the extra writes with the last partition: what an error left undone can be done again."""
        *others, last = sorted(self._partitions(wanted), key=self._is_here)
        for each in others:
            if self._is_here(each):
                await self._here.jump(each)
            else:
                await self._peers.ask(each.name.topic, f"{_SERVICE}/Seek", wire.SEEK, each, wire.POSITION)
        await self._here.jump(last, extra_writes=extra_writes)

    def _partitions(self, wanted: SeekSubscription) -> list[SeekSubscription]:
        names = self._topics.matching(wanted.name.topic) or [wanted.name.topic]
        found = [replace(wanted, name=replace(wanted.name, topic=name)) for name in names]
        if not any(self._is_here(each) for each in found):
            self._topics.refuse_remote(names[0])
        return found

    def _is_here(self, wanted: SeekSubscription) -> bool:
        return self._topics.find(str(wanted.name.topic)) is not None
