"""Settings of a member of the Raft group."""

from dataclasses import dataclass, field

from danube.metadata.raft.port.tls import TlsSettings
from danube.model.errors import InvalidRequestError
from danube.model.limits.metadata import (
    RAFT_ELECTION_MAX_S,
    RAFT_ELECTION_MIN_S,
    RAFT_FALLBACK_S,
    RAFT_HEARTBEAT_S,
    RAFT_LOG_BYTES_MAX,
    RAFT_LOG_ENTRIES_MAX,
    RAFT_START_TIMEOUT_S,
    RAFT_TICK_S,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RaftTiming:
    """Seconds. Of all members the same, or nearly so; shorter ones are for tests."""

    election_min_s: float = RAFT_ELECTION_MIN_S
    election_max_s: float = RAFT_ELECTION_MAX_S
    heartbeat_s: float = RAFT_HEARTBEAT_S
    fallback_s: float = RAFT_FALLBACK_S
    tick_s: float = RAFT_TICK_S

    def __post_init__(self) -> None:
        """Raises InvalidRequestError for times by which nobody could lead for long."""
        if not 0 < 3 * self.heartbeat_s < self.election_min_s < self.election_max_s:
            raise InvalidRequestError(
                f"elections after {self.election_min_s:g} to {self.election_max_s:g} s and a heartbeat each"
                f" {self.heartbeat_s:g} s do not fit: three heartbeats must be shorter than the shortest election"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class LogBounds:
    """Bounds beyond which a member takes a snapshot and trims its log."""

    entries_max: int = RAFT_LOG_ENTRIES_MAX
    bytes_max: int = RAFT_LOG_BYTES_MAX


@dataclass(frozen=True, slots=True, kw_only=True)
class RaftSettings:
    """Settings of one member."""

    bind: str = "127.0.0.1:0"
    """`host:port` of its Raft port; port 0 takes a free one at the first start, and that one again. Other than loopback
    only with a secret or with TLS."""
    advertised: str = ""
    """`host:port` at which the others reach it; "" for where it is bound. It must stay the same over restarts."""
    secret: bytes | None = field(default=None, repr=False)
    """The same for all members; never sent, never logged."""
    tls: TlsSettings | None = None
    seeds: tuple[str, ...] = ()
    """Addresses of all brokers that form the cluster, this one's too; none for a cluster of one."""
    join: bool = False
    """Form no cluster: wait until a member of one adds this broker."""
    is_alone: bool = False
    """Without a port, in a group of one; the other settings of the port and of the cluster do not count."""
    timing: RaftTiming = field(default_factory=RaftTiming)
    log: LogBounds = field(default_factory=LogBounds)
    start_timeout_s: float = RAFT_START_TIMEOUT_S
