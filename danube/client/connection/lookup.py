"""Finding the broker of a topic and the topics behind a name. Asked afresh each time: only a move makes it matter."""

import itertools

from danube.client.connection import paths
from danube.client.connection.address import BrokerAddress
from danube.client.connection.transport import Transport
from danube.model.calls.client import Lookup, LookupKind
from danube.model.errors import LookupError as TopicLookupError
from danube.model.limits.broker import CONNECT_TIMEOUT_S
from danube.model.topic import TopicName
from danube.wire import client_messages


class LookupService:
    """Asks brokers where topics are."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._request_ids = itertools.count(1)

    async def locate(self, url: str, topic: TopicName) -> BrokerAddress:
        """The broker that serves `topic`, by the word of the one at `url`. Raises DanubeError."""
        answer = client_messages.LOOKUP_ANSWER.decode(await self._ask(paths.TOPIC_LOOKUP, url, topic))
        if answer.kind is LookupKind.FAILED or not answer.connect_url:
            raise TopicLookupError(f"the broker at {url} cannot say who serves {topic}: try again later")
        return BrokerAddress(answer.connect_url, answer.broker_url, answer.proxy)

    async def partitions(self, url: str, topic: TopicName) -> tuple[TopicName, ...]:
        """The topics behind a name: itself, its partitions, or nothing. Raises DanubeError."""
        return client_messages.PARTITIONS_ANSWER.decode(await self._ask(paths.TOPIC_PARTITIONS, url, topic)).partitions

    async def _ask(self, path: str, url: str, topic: TopicName) -> bytes:
        request = client_messages.LOOKUP.encode(Lookup(request_id=next(self._request_ids), topic=topic))
        return await self._transport.call(BrokerAddress.direct(url), path, request, timeout_s=CONNECT_TIMEOUT_S)
