"""Seek of a subscription on all partitions of a topic, whichever brokers serve them."""

from dataclasses import replace
from typing import TypeVar

from danube.broker.control.positions import PositionControl
from danube.broker.topics.local_topics import Topics
from danube.metadata.records.catalog import ExtraWrites
from danube.model.address import host_and_port
from danube.model.calls.positions import SeekPreview, SeekSubscription
from danube.model.errors import TopicNotServedError
from danube.model.limits.broker import CALL_TIMEOUT_S
from danube.model.topic import TopicName
from danube.rpc.carrier import Carrier
from danube.wire import control_messages as wire
from danube.wire.codec import Codec

Answer = TypeVar("Answer")

_SERVICE = "/danube.control.Partitions"


class PartitionedSeek:
    """Seeks by the name of a topic: of this broker's partitions here, of others' by calls to the brokers."""

    def __init__(self, here: PositionControl, topics: Topics, carrier: Carrier) -> None:
        """`carrier` connects to admin ports of other brokers."""
        self._here = here
        self._topics = topics
        self._carrier = carrier

    async def preview(self, wanted: SeekSubscription) -> dict[TopicName, SeekPreview]:
        """The seek of each partition; of a topic that is not partitioned itself. Raises DanubeError.

        Raises TopicNotServedError where this broker serves no partition, and while no broker serves one of them.
        """
        return {
            each.name.topic: await self._here.preview(each)
            if self._is_here(each)
            else await self._ask("PreviewSeek", each, wire.SEEK_PREVIEW)
            for each in self._partitions(wanted)
        }

    async def seek(self, wanted: SeekSubscription, extra_writes: ExtraWrites) -> None:
        """Carry it out, the extra writes with the last partition: what an error left undone can be done again."""
        *others, last = sorted(self._partitions(wanted), key=self._is_here)
        for each in others:
            if self._is_here(each):
                await self._here.jump(each)
            else:
                await self._ask("Seek", each, wire.POSITION)
        await self._here.jump(last, extra_writes=extra_writes)

    def _partitions(self, wanted: SeekSubscription) -> list[SeekSubscription]:
        names = self._topics.matching(wanted.name.topic) or [wanted.name.topic]
        found = [replace(wanted, name=replace(wanted.name, topic=name)) for name in names]
        if not any(self._is_here(each) for each in found):
            self._topics.refuse_remote(names[0])
        return found

    def _is_here(self, wanted: SeekSubscription) -> bool:
        return self._topics.find(str(wanted.name.topic)) is not None

    async def _ask(self, method: str, wanted: SeekSubscription, answer: Codec[Answer]) -> Answer:
        name = wanted.name.topic
        record = self._topics.find_remote(name)
        server = self._topics.server_of(record) if record is not None else None
        if server is None:
            raise TopicNotServedError(f"{name} moves or is deleted at this moment: try again")
        channel = self._carrier.connect(host_and_port(server.admin_url))
        try:
            request = wire.SEEK.encode(wanted)
            return answer.decode(await channel.call(f"{_SERVICE}/{method}", request, timeout_s=CALL_TIMEOUT_S))
        finally:
            await channel.close()
