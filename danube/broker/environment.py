"""Environment of a broker, and the dependencies that each of its parts is built from."""

import logging
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from danube.broker.balance.reporting.machine import Machine
from danube.broker.cluster.metadata_store import MetaStore
from danube.broker.config.settings import BrokerSettings, Mode
from danube.broker.telemetry.log_ring import LogRing
from danube.data_folder.data_folder import DataFolder
from danube.model.errors import DanubeError
from danube.model.limits.broker import SWEEP_INTERVAL_S
from danube.objects.store import ObjectStore
from danube.rpc.carrier import Carrier
from danube.runtime.blocking import BlockingThread
from danube.runtime.clock import Clock, SystemClock, sleep_for
from danube.runtime.disk import Disk
from danube.runtime.process import OwnProcess, Process
from danube.runtime.rng import Rng, SystemRng
from danube.runtime.tasks import TaskScope

if TYPE_CHECKING:
    from danube.broker.cluster.deaths import Connect

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Addresses:
    """The `host:port` addresses on which a running broker listens."""

    broker: str
    admin: str
    metrics: str | None
    schemas: str | None = None
    """Of the schema registry over HTTP."""


@dataclass(frozen=True, slots=True)
class Environment:
    """The surroundings of a broker: a test gives its own."""

    clock: Clock = field(default_factory=SystemClock)
    rng: Rng = field(default_factory=SystemRng)
    carrier: Carrier | None = None
    """gRPC over TCP when not given."""
    process: Process = field(default_factory=OwnProcess)
    machine: Machine | None = None
    """The machine of this process when not given."""
    meta_store: MetaStore | None = None
    """Shared by several brokers of one process; as the settings say when not given. It is not closed here."""
    shared_disk: Disk | None = None
    """The shared folder of `storage.mode` shared_fs; as the settings say when not given."""
    peers: "Connect | None" = None
    """Connections to other brokers, by which their deaths show; over TCP when not given, or none with a `carrier`."""
    objects: ObjectStore | None = None
    """The object store; as the settings say when not given."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Dependencies:
    """Everything that the parts of one broker are built from, and where they register how they are stopped."""

    settings: BrokerSettings
    environment: Environment
    folder: DataFolder
    running: AsyncExitStack
    """Stops what was started, the last part first."""
    tasks: TaskScope
    writer: BlockingThread
    reader: BlockingThread
    flusher: BlockingThread
    log: LogRing = field(default_factory=LogRing)
    """The newest records of the log, since the broker began to start."""

    @property
    def clock(self) -> Clock:
        """The environment's."""
        return self.environment.clock

    @property
    def rng(self) -> Rng:
        """The environment's."""
        return self.environment.rng

    @property
    def is_cluster(self) -> bool:
        """Tell whether this broker is one of several."""
        return self.settings.mode is Mode.CLUSTER

    def sweep(self, what: str, sweep: Callable[[], Awaitable[object]]) -> None:
        """Call `sweep` periodically for as long as the broker runs, independent of other sweeps."""
        self.tasks.spawn(sweep_on(self.clock, what, sweep), what)


async def sweep_on(clock: Clock, what: str, sweep: Callable[[], Awaitable[object]]) -> None:
    """Call `sweep` every SWEEP_INTERVAL_S, until cancelled. Of consecutive failures the first is logged."""
    is_failing = False
    while True:
        await sleep_for(clock, SWEEP_INTERVAL_S)
        try:
            await sweep()
        except DanubeError as error:
            if not is_failing:
                _log.warning("%s has to wait, it is tried again every %.0f s: %s", what, SWEEP_INTERVAL_S, error)
            is_failing = True
        except Exception:
            if not is_failing:
                _log.exception("%s met a fault of its own, and is tried again every %.0f s", what, SWEEP_INTERVAL_S)
            is_failing = True
        else:
            is_failing = False
