"""`Broker`: one running broker, from its settings to its end."""

import asyncio
from contextlib import AsyncExitStack

from danube.broker.assembly import assemble
from danube.broker.config.settings import BrokerSettings
from danube.broker.environment import Addresses, Environment
from danube.broker.topics.moves import Moves


class Broker:
    """One running broker: made by `start`, ended by `stop`."""

    def __init__(self, addresses: Addresses, moves: Moves, running: AsyncExitStack, replaced: asyncio.Event) -> None:
        self.addresses = addresses
        self.replaced = replaced
        """Set when another process has taken this broker's place in the cluster: this one is to be stopped."""
        self.moves = moves
        """Unloads topics, and opens them again."""
        self._running = running

    @classmethod
    async def start(cls, settings: BrokerSettings, environment: Environment | None = None) -> "Broker":
        """Open the data folder, recover what is in it, and listen.

        Raises:
            DataFolderError, DataFolderInUseError, DamagedDataError: the folder cannot be used; nothing was changed.
            SettingsError: an address cannot be listened on, or a compression is not there.
        """
        async with AsyncExitStack() as running:
            parts = await assemble(settings, environment or Environment(), running)
            return cls(parts.addresses, parts.moves, running.pop_all(), parts.replaced)

    async def stop(self) -> None:
        """Drain and close: no call is taken any more, what was accepted is durable, cursors are saved. Idempotent."""
        await self._running.aclose()
