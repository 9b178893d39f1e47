"""Connection of a channel to its address: made when it is first used, and again after a loss."""

import asyncio
import ssl

from danube.model import errors
from danube.model.errors import DanubeError
from danube.model.limits import broker as broker_limits
from danube.model.limits import http2 as limits
from danube.rpc.carrier import CarrierOptions, NotConnectedError
from danube.rpc.http2.client.connection import ClientConnection
from danube.rpc.http2.sockets import Network
from danube.runtime.clock import Clock, within
from danube.runtime.tasks import TaskScope


class Connector:
    """Makes one connection at a time, and knows those that only end what is under way."""

    def __init__(self, address: str, options: CarrierOptions, clock: Clock, network: Network) -> None:
        self.address = address
        self.options = options
        self.clock = clock
        self.tasks = TaskScope(f"channel to {address}")
        self.closed = False
        self._network = network
        self._lost: str | None = None
        self._connection: ClientConnection | None = None
        self._attempt: asyncio.Task[None] | None = None
        self._failure: DanubeError | None = None
        self._failures = 0
        self._not_before_s = 0.0
        self._draining: set[ClientConnection] = set()
        """Connections whose server takes no new calls; those under way go on."""

    def ready(self) -> ClientConnection | None:
        """The connection, if there is one that takes calls. Raises the error of a closed channel."""
        if self.closed:
            raise self.closed_error()
        connection = self._connection
        if connection is not None and not connection.usable:
            self._retire(connection)
            return None
        return connection

    async def connected(self) -> ClientConnection:
        """A connection that takes one call more. Raises DanubeError."""
        while True:
            connection = self.ready()
            if connection is None:
                await self._connect()
            elif connection.has_room:
                return connection
            else:
                await connection.room()

    async def connected_within(self, timeout_s: float | None) -> ClientConnection:
        """The same, in time. Raises DeadlineExceededError, too."""
        try:
            async with within(self.clock, timeout_s):
                return await self.connected()
        except TimeoutError:
            raise errors.DeadlineExceededError(f"no connection to {self.address} within {timeout_s:g} s") from None

    async def close(self, lost: str | None = None) -> None:
        """As `Channel.close`."""
        self.closed = True
        self._lost = self._lost or lost
        connections = {*self._draining, *([] if self._connection is None else [self._connection])}
        for connection in connections:
            connection.end(self.closed_error())
        await self.tasks.close()
        for connection in connections:
            await self._wait_closed(connection)

    def closed_error(self) -> DanubeError:
        """The error of a call whose channel is closed under it."""
        if self._lost is not None:
            return errors.BrokerUnreachableError(self._lost)
        return errors.CancelledError(f"the channel to {self.address} was closed at this end")

    async def _connect(self) -> None:
        """Return after an attempt that succeeded, one's own or another call's. Raises the error of one that failed."""
        attempt = self._attempt
        if attempt is None:
            if self._failure is not None and self.clock.monotonic_s() < self._not_before_s:
                await asyncio.sleep(0)  # a caller that tries again at once lets others run
                raise type(self._failure)(str(self._failure))
            attempt = self._attempt = self.tasks.spawn(self._dial(), "connect")
        await asyncio.wait([attempt])
        if self.closed:
            raise self.closed_error()
        if self._failure is not None:
            raise type(self._failure)(str(self._failure))

    async def _dial(self) -> None:
        try:
            self._connection = await self._dialled()
            self._failures, self._failure = 0, None
        except (OSError, TimeoutError, ssl.SSLError, ssl.CertificateError, DanubeError) as error:
            self._failure = self._dial_error(error)
            delay_s = broker_limits.RPC_RECONNECT_DELAY_MIN_S * 2 ** min(self._failures, 10)
            self._failures += 1
            self._not_before_s = self.clock.monotonic_s() + min(delay_s, broker_limits.RPC_RECONNECT_DELAY_MAX_S)
        finally:
            self._attempt = None

    async def _dialled(self) -> ClientConnection:
        async with within(self.clock, broker_limits.CONNECT_TIMEOUT_S):
            connection = await self._network.dial(
                self.address, lambda: ClientConnection(self.address, self.options, self.clock, self._network.scheme)
            )
            try:
                await asyncio.shield(connection.settled)
            except asyncio.CancelledError:
                connection.abort()
                raise
        if connection.lost:
            raise errors.BrokerUnreachableError(connection.end_reason)
        return connection

    def _dial_error(self, error: Exception) -> DanubeError:
        reason = (isinstance(error, OSError) and error.strerror) or str(error) or "it did not answer in time"
        return NotConnectedError(f"cannot reach {self.address}: {reason}")

    def _retire(self, connection: ClientConnection) -> None:
        self._connection = None
        self._draining = {each for each in self._draining if not each.lost}
        if not connection.lost:
            self._draining.add(connection)
            connection.retire()

    async def _wait_closed(self, connection: ClientConnection) -> None:
        deadline_s = self.clock.monotonic_s() + limits.HTTP2_CLOSE_S
        timer = self.clock.call_at(deadline_s, connection.abort)
        try:
            await connection.gone()
        finally:
            timer.cancel()
