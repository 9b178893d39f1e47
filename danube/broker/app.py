"""Broker: one running broker, from its settings to its end."""

import asyncio
from contextlib import AsyncExitStack

from danube.broker.assembly import Assembly
from danube.broker.config.settings import BrokerSettings
from danube.broker.environment import Addresses, Environment
from danube.broker.topics.moves import Moves


class Broker:
    """One running broker: made by `start`, ended by `stop`."""

    def __init__(self, addresses: Addresses, moves: Moves, parts: AsyncExitStack, replaced: asyncio.Event) -> None:
        self.addresses = addresses
        self.replaced = replaced
        """Set when another process has taken this broker's place in the cluster: this one is to be stopped."""
        self.moves = moves
        """Takes topics off it, and back on it."""
        self._parts = parts

    @classmethod
    async def start(cls, settings: BrokerSettings, world: Environment | None = None) -> "Broker":
        """Open the data folder, recover what is in it, and listen.

        Raises:
            DataFolderError, DataFolderInUseError, DamagedDataError: the folder cannot be used; nothing was changed.
            SettingsError: an address cannot be listened on, or a compression is not there.
        """
        async with AsyncExitStack() as parts:
            assembly = Assembly(settings, world or Environment(), parts)
            addresses, moves = await assembly.build()
            return cls(addresses, moves, parts.pop_all(), assembly.replaced)

    async def stop(self) -> None:
        """Drain and close: no call is taken any more, what was accepted is durable, cursors are saved. Idempotent."""
        await self._parts.aclose()
