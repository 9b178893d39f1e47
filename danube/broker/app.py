"""`Broker`: one running broker, from its settings to its end."""

from contextlib import AsyncExitStack

from danube.broker.assembly import Assembled, assemble
from danube.broker.config.settings import BrokerSettings
from danube.broker.environment import Environment


class Broker:
    """One running broker: made by `start`, ended by `stop`."""

    def __init__(self, parts: Assembled, running: AsyncExitStack) -> None:
        self.addresses = parts.addresses
        self.replaced = parts.replaced
        """Set when another process has taken this broker's place in the cluster: this one is to be stopped."""
        self.fenced = parts.fenced
        """Set when others have taken over all topics of this broker: it is to be stopped and started again."""
        self.cluster = parts.cluster
        """Its membership in a cluster; None for one that stands alone."""
        self.moves = parts.moves
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
            return cls(parts, running.pop_all())

    async def stop(self) -> None:
        """Drain and close: calls are refused, what was accepted is durable, cursors are saved. Idempotent."""
        await self._running.aclose()
