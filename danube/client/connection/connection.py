"""What every producer and consumer of one client shares."""

import itertools
import logging
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Protocol

from danube.client.connection import paths
from danube.client.connection.address import BrokerAddress
from danube.client.connection.lookup import LookupService
from danube.client.connection.session import Link
from danube.client.connection.transport import Transport
from danube.model.calls.client import ClientKind, HealthCheck, HealthStatus
from danube.model.errors import UnsupportedError
from danube.model.limits.broker import CLIENT_CHANNELS_MAX, CLIENT_DETACH_TIMEOUT_S, CONNECT_TIMEOUT_S
from danube.runtime.clock import Clock
from danube.runtime.rng import Rng
from danube.wire import client_messages

_log = logging.getLogger(__name__)


class Closing(Protocol):
    """What a client closes with itself."""

    async def end(self, *, in_order: bool) -> None:
        """Stop and let go of everything; not `in_order` where the application failed. Idempotent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Connection:
    """One client's way to the cluster."""

    service_url: str
    transport: Transport
    lookup: LookupService
    clock: Clock
    rng: Rng
    members: set[Closing] = field(default_factory=set)
    """The attached producers and consumers, which closing the client closes."""
    request_ids: Iterator[int] = field(default_factory=lambda: itertools.count(1))
    """Of health checks."""
    without_streams: set[str] = field(default_factory=set)
    """Brokers, by their URL, that take no batches: the original's, for one. At most CLIENT_CHANNELS_MAX."""

    def refuse_without_streams(self, address: BrokerAddress) -> None:
        """Raise UnsupportedError for a broker that is known to take no batches."""
        if address.broker_url in self.without_streams:
            raise UnsupportedError(f"the broker at {address.broker_url} takes no batches: send single messages")

    def note_without_streams(self, address: BrokerAddress) -> None:
        """Remember that this broker takes no batches."""
        if len(self.without_streams) >= CLIENT_CHANNELS_MAX:
            self.without_streams.clear()
        self.without_streams.add(address.broker_url)

    async def check_health(self, kind: ClientKind, link: Link) -> HealthStatus:
        """Ask the link's broker whether it holds. Raises DanubeError."""
        call = HealthCheck(request_id=next(self.request_ids), client=kind, id=link.member_id)
        request = client_messages.HEALTH_CHECK.encode(call)
        answer = await self.transport.call(link.address, paths.HEALTH_CHECK, request, timeout_s=CONNECT_TIMEOUT_S)
        return client_messages.HEALTH_STATUS.decode(answer)

    async def close_producer(self, link: Link) -> None:
        """Tell the link's broker that a producer is closed. Raises nothing: a broker that is not told notices later."""
        if link.address.broker_url in self.without_streams:
            return
        request = client_messages.CLOSE_PRODUCER.encode(link.member_id)
        try:
            await self.transport.call(link.address, paths.CLOSE_PRODUCER, request, timeout_s=CLIENT_DETACH_TIMEOUT_S)
        except Exception as error:  # the application's token supplier may raise anything
            _log.debug("the broker was not told that a producer is closed, and will notice: %s", error)
