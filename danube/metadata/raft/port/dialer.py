"""Dialer: makes connections, on both sides, with the settings of this member."""

import os
import socket
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from danube.metadata.raft.core.poller import Poller
from danube.metadata.raft.port.addresses import Names, Target, is_loopback
from danube.metadata.raft.port.connection import Connection
from danube.metadata.raft.port.handshake import NONCE_BYTES, Handshake, Identity, Peer, Purpose, Side
from danube.metadata.raft.port.refusals import Reason, RefusedError
from danube.metadata.raft.port.session import Session
from danube.metadata.raft.port.tls import TlsContexts, TlsSettings
from danube.metadata.raft.values.node import RaftNode
from danube.model.errors import SettingsError
from danube.model.limits.metadata import RAFT_DIAL_RETRY_S, RAFT_NONCES_MAX, RAFT_SECRET_BYTES_MIN, RAFT_SILENCE_S_MAX
from danube.runtime.clock import Clock


@dataclass(frozen=True, slots=True, kw_only=True)
class TransportSettings:
    """Settings of a Raft port: authentication and timeouts. Without secret and TLS all must be on loopback."""

    cluster_id: Callable[[], str]
    """Asked for each connection; "" while it is unknown."""
    secret: bytes | None = field(default=None, repr=False)
    """Shared by all members, at least RAFT_SECRET_BYTES_MIN long, and random."""
    tls: TlsSettings | None = None
    """With a secret too, both are asked for."""
    silence_s_max: float = RAFT_SILENCE_S_MAX
    dial_retry_s: float = RAFT_DIAL_RETRY_S

    @property
    def is_open(self) -> bool:
        """True if no peer has to authenticate."""
        return self.secret is None and self.tls is None

    def check(self, *, loopback: bool) -> None:
        """Raises SettingsError for what would let unknown peers in."""
        if self.secret is not None and len(self.secret) < RAFT_SECRET_BYTES_MIN:
            raise SettingsError(
                f"the secret of the Raft port has less than {RAFT_SECRET_BYTES_MIN} bytes: make one with "
                "`openssl rand -hex 32` and give it to all members"
            )
        if self.is_open and not loopback:
            raise SettingsError(
                "the Raft port has neither a secret nor TLS, so it may listen on a loopback address only: give all "
                "members the same secret (made with `openssl rand -hex 32`), or certificates"
            )


class Dialer:
    """All connections of one port. `identity` says who this member is at the time."""

    def __init__(
        self, settings: TransportSettings, poller: Poller, clock: Clock, identity: Callable[[], Identity]
    ) -> None:
        self._settings = settings
        self._tls = TlsContexts(settings.tls) if settings.tls else None
        self._poller = poller
        self._clock = clock
        self._identity = identity
        self._names = Names(poller.wake)
        self._nonces: deque[bytes] = deque(maxlen=RAFT_NONCES_MAX)
        """Nonces of recent dials: by them this member recognizes itself."""
        self._open: set[Connection] = set()

    def dial(self, address: str, purpose: Purpose, expected: RaftNode | None = None) -> Connection | None:
        """A connection to whoever listens there, to be begun; None while its host name is looked up.

        Raises OSError or SettingsError when there is nothing to connect to, RefusedError when this must not be.
        """
        target = self._names.target(address, self._clock.monotonic_s())
        if target is None:
            return None
        if self._settings.is_open and not is_loopback(target.address[0]):
            raise RefusedError(
                Reason.SECRET_MISSING, "it is on another machine, and this member has neither a secret nor TLS"
            )
        endpoint = socket.socket(target.family, socket.SOCK_STREAM)
        endpoint.settimeout(0)
        nonce = os.urandom(NONCE_BYTES)
        self._nonces.append(nonce)
        handshake = Handshake(
            Side.DIALER,
            self._identity(),
            self._settings.secret,
            nonce=nonce,
            purpose=purpose,
            expected=expected,
        )
        return self._connection(endpoint, handshake, Side.DIALER, address, target)

    def accept(self, accepted: socket.socket, host: str, admit: Callable[[Peer], None]) -> Connection:
        """A connection of somebody who dialed, to be begun."""
        handshake = Handshake(
            Side.ACCEPTOR,
            self._identity(),
            self._settings.secret,
            nonce=os.urandom(NONCE_BYTES),
            issued=self._nonces,
            admit=admit,
        )
        return self._connection(accepted, handshake, Side.ACCEPTOR, host)

    def tick(self, now_s: float) -> None:
        self._open = {each for each in self._open if each.is_open}
        for connection in tuple(self._open):
            connection.tick(now_s)

    def close(self) -> None:
        """Close all connections without their callbacks."""
        for connection in self._open:
            connection.close()
        self._open.clear()
        self._names.close()

    def _connection(
        self, endpoint: socket.socket, handshake: Handshake, side: Side, where: str, target: Target | None = None
    ) -> Connection:
        tls = self._tls.pipe(side) if self._tls else None
        now_s = self._clock.monotonic_s()
        session = Session(handshake, tls, now_s, silence_s_max=self._settings.silence_s_max)
        connection = Connection(endpoint, session, self._poller, self._clock.monotonic_s, where, target=target)
        self._open.add(connection)
        return connection
