"""The surroundings of a broker: clock, chance, carrier; and the addresses it ends up with."""

from dataclasses import dataclass, field

from danube.broker.cluster.metadata_store import MetaStore
from danube.rpc.carrier import Carrier
from danube.runtime.clock import Clock, SystemClock
from danube.runtime.process import OwnProcess, Process
from danube.runtime.rng import Rng, SystemRng


@dataclass(frozen=True, slots=True)
class Addresses:
    """Where a running broker listens, each `host:port`."""

    broker: str
    admin: str
    metrics: str | None


@dataclass(frozen=True, slots=True)
class Environment:
    """What a broker gets from outside: a test gives its own."""

    clock: Clock = field(default_factory=SystemClock)
    rng: Rng = field(default_factory=SystemRng)
    carrier: Carrier | None = None
    """gRPC over TCP when not given."""
    process: Process = field(default_factory=OwnProcess)
    meta_store: MetaStore | None = None
    """What several brokers of one process share; as the settings say when not given. It is not closed here."""
