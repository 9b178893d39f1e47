"""Deaths of other brokers: a process that ends closes its connections, and new ones are refused. Silence is no death.

The leader stays connected with every broker, and every broker with the leader. A connection that ends is a suspicion;
it is confirmed if DEATH_LOOKS new ones are refused, one after the other: no process listens there any more. Then the
broker's lease ends at once. A broker that stands still accepts connections, and one that is cut off refuses none:
their leases run out by themselves. A broker that was taken for dead and lives renews its lease, or is fenced by the
storage.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import closing, suppress
from functools import partial

from danube.metadata.cluster.election import Election
from danube.metadata.cluster.registry import BrokerRegistry
from danube.metadata.records.cluster import BrokerRegistration
from danube.metadata.store import MetadataStore
from danube.model.address import host_and_port
from danube.model.errors import DanubeError, SettingsError
from danube.model.limits.metadata import CLUSTER_RETRY_S, DEATH_DIAL_TIMEOUT_S, DEATH_LOOK_S, DEATH_LOOKS
from danube.rpc.address import split_address
from danube.runtime.clock import Clock, sleep_for
from danube.runtime.tasks import TaskScope

_log = logging.getLogger(__name__)

Connect = Callable[[str], Awaitable[Awaitable[None]]]
"""Connects with the broker whose administrators' port this URL leads to; answers what returns when the connection ends.
Raises ConnectionRefusedError where no process listens, and another OSError where that is unknown."""


async def connect(url: str) -> Awaitable[None]:
    """A connection over TCP, on which nothing is said."""
    host, port = split_address(host_and_port(url))
    async with asyncio.timeout(DEATH_DIAL_TIMEOUT_S):
        reader, writer = await asyncio.open_connection(host, port, limit=1)
    return _end(reader, writer)


async def _end(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with closing(writer), suppress(OSError):
        while await reader.read(1):
            continue


class DeathWatch:
    """One broker's watch over the others."""

    def __init__(
        self,
        store: MetadataStore,
        registry: BrokerRegistry,
        election: Election,
        clock: Clock,
        *,
        broker_id: int,
        connect: Connect,
    ) -> None:
        self._store = store
        self._registry = registry
        self._election = election
        self._clock = clock
        self._broker_id = broker_id
        self._connect = connect
        self._watched: dict[BrokerRegistration, asyncio.Task[None]] = {}

    def start(self, tasks: TaskScope) -> None:
        """Begin, in tasks of this scope."""
        follow = partial(self._follow, tasks)
        self._registry.on_change(follow)
        self._election.on_change(follow)
        follow()

    def _follow(self, tasks: TaskScope) -> None:
        """Watch those that this broker is to watch now, each start of a process for itself."""
        own_id, leader = self._broker_id, self._election.leader
        wanted = {
            one
            for broker_id, one in self._registry.brokers.items()
            if broker_id != own_id and leader in {own_id, broker_id} and not tasks.closed
        }
        for one in self._watched.keys() - wanted:
            self._watched.pop(one).cancel()
        for one in wanted - self._watched.keys():
            self._watched[one] = tasks.spawn(self._watch(one), f"watch broker {one.broker_id}")

    async def _watch(self, broker: BrokerRegistration) -> None:
        was_connected, refusals = False, 0
        while True:
            try:
                connection = await self._connect(broker.admin_url)
            except ConnectionRefusedError:
                refusals += 1
                if was_connected and refusals == DEATH_LOOKS:  # not later: this ends as soon as the lease does
                    _log.warning("broker %d is dead: it closed its connections and refuses new ones", broker.broker_id)
                if was_connected and refusals >= DEATH_LOOKS:
                    await self._end_lease(broker)
                await sleep_for(self._clock, DEATH_LOOK_S if was_connected else CLUSTER_RETRY_S)
            except (OSError, SettingsError):
                refusals = 0
                await sleep_for(self._clock, CLUSTER_RETRY_S)
            else:
                was_connected, refusals = True, 0
                await connection

    async def _end_lease(self, broker: BrokerRegistration) -> None:
        lease_id = self._registry.lease_of(broker)
        if not lease_id:
            return
        try:
            await self._store.expire_lease(lease_id)
        except DanubeError as error:  # the others agree on nothing at the moment
            _log.debug("broker %d is dead, and its lease cannot be ended yet: %s", broker.broker_id, error)
