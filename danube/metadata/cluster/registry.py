"""Registry of running brokers: each keeps a key of its own, which lives with its lease, and all follow the keys."""

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from danube.metadata.cluster.lease_keeper import LeaseKeeper
from danube.metadata.cluster.reconcile import Reconciler
from danube.metadata.records import keys
from danube.metadata.records.cluster import BrokerRegistration, decode_registration, encode_registration
from danube.metadata.store import Entry, MetadataStore
from danube.metadata.watch_cache import WatchCache
from danube.model.errors import MetadataError, NotFoundError
from danube.model.limits.metadata import CLUSTER_BROKERS_MAX
from danube.runtime.clock import Clock
from danube.runtime.tasks import TaskScope

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Seen:
    registration: BrokerRegistration
    lease_id: int
    revision: int


@dataclass(frozen=True, slots=True)
class GoneBroker:
    """A broker whose lease has ended, or was given back."""

    registration: BrokerRegistration
    last_seen_ms: int


class BrokerRegistry:
    """Registry of running brokers as this broker sees it; once announced, this broker is in it."""

    def __init__(self, store: MetadataStore, keeper: LeaseKeeper, clock: Clock) -> None:
        self._store = store
        self._keeper = keeper
        self._watch_cache = WatchCache(store, keys.REGISTERED, clock, self._follow)
        self._clock = clock
        self._seen: dict[int, _Seen] = {}
        self._gone: dict[int, GoneBroker] = {}
        self._own: BrokerRegistration | None = None
        self._put = (0, 0)
        """The lease under which this broker was registered last, and the revision of that."""
        self._is_replaced = False
        self._registered = asyncio.Event()
        self._registering = Reconciler(clock, self._register, "this broker cannot be registered")
        self._listeners: list[Callable[[], None]] = []
        self._replaced_listeners: list[Callable[[], None]] = []
        keeper.on_change(self._registering.wake)

    def __contains__(self, broker_id: object) -> bool:
        return broker_id in self._seen

    @property
    def brokers(self) -> Mapping[int, BrokerRegistration]:
        """Running brokers, by id, ascending."""
        return {broker_id: self._seen[broker_id].registration for broker_id in sorted(self._seen)}

    @property
    def gone(self) -> Mapping[int, GoneBroker]:
        """Brokers that ran since this one follows them, and run no more; CLUSTER_BROKERS_MAX at most."""
        return self._gone

    def find(self, broker_id: int) -> BrokerRegistration | None:
        """The broker of this id, if it runs."""
        seen = self._seen.get(broker_id)
        return seen.registration if seen else None

    def lease_of(self, broker: BrokerRegistration) -> int:
        """The lease of this very start of a broker; 0 if it does not run."""
        seen = self._seen.get(broker.broker_id)
        return seen.lease_id if seen and seen.registration == broker else 0

    def on_change(self, listener: Callable[[], None]) -> None:
        """Have `listener` called when a broker came, changed or went."""
        self._listeners.append(listener)

    def on_replaced(self, listener: Callable[[], None]) -> None:
        """Have `listener` called when another process has registered as this broker: of the two, this one must end."""
        self._replaced_listeners.append(listener)

    def start(self, tasks: TaskScope) -> None:
        """Follow who runs, and keep this broker registered, in tasks of this scope."""
        tasks.spawn(self._watch_cache.run(), "watch the brokers")
        tasks.spawn(self._run(), "register")

    async def ready(self) -> None:
        """Return once the running brokers are known."""
        await self._watch_cache.ready()

    async def announce(self, own: BrokerRegistration) -> None:
        """Have the others see this broker, from now on; returns when they can.

        A registration of the same id that an earlier start of this broker left behind is replaced.
        """
        self._own, self._put = own, (0, 0)
        self._registered.clear()
        self._registering.wake()
        await self._registered.wait()

    async def _run(self) -> None:
        await self._watch_cache.ready()
        await self._registering.run()

    async def _register(self) -> None:
        own, lease_id = self._own, self._keeper.lease_id
        if own is None or self._is_replaced:
            return
        if self._is_anothers(own):
            self._replaced(own)
        elif lease_id:
            await self._register_under(lease_id, own)

    async def _register_under(self, lease_id: int, own: BrokerRegistration) -> None:
        if self._is_due(own, lease_id):
            key = keys.registered_broker(own.broker_id)
            try:
                revision = await self._store.put(key, encode_registration(own), lease_id=lease_id)
            except NotFoundError:
                return  # the lease has just run out: the keeper will tell of the next one
            self._put = lease_id, revision
        self._registered.set()

    def _is_anothers(self, own: BrokerRegistration) -> bool:
        """True if another start of this broker has registered since this one did, under a younger lease.

        One's own may come twice: a put whose outcome was unknown is made again, and the first may arrive last. The put
        of a former start may arrive last, too; its lease is older than the one of this start, and it is put over.
        """
        seen, (lease_id, revision) = self._seen.get(own.broker_id), self._put
        if seen is None or not revision or seen.revision <= revision:
            return False
        return seen.registration.start_id != own.start_id and seen.lease_id > lease_id

    def _is_due(self, own: BrokerRegistration, lease_id: int) -> bool:
        """True if the others do not see this broker, or only until a lease of before runs out."""
        seen, (put_lease, revision) = self._seen.get(own.broker_id), self._put
        if seen is None or put_lease != lease_id:
            return True
        return seen.revision > revision and seen.lease_id != lease_id

    def _replaced(self, own: BrokerRegistration) -> None:
        self._is_replaced = True
        _log.error(
            "another process has registered as broker %d: is a copy of this data folder in use? This one ends now, so"
            " that no topic is served twice",
            own.broker_id,
        )
        for listener in self._replaced_listeners:
            listener()

    def _follow(self, key: str, entry: Entry | None) -> None:
        try:
            self._update(keys.parse_registered_broker(key), entry)
        except MetadataError as error:
            _log.warning("a broker's registration cannot be read, and is left out: %s", error)
        self._registering.wake()
        for listener in self._listeners:
            listener()

    def _update(self, broker_id: int, entry: Entry | None) -> None:
        before = self._seen.pop(broker_id, None)
        if entry is not None and len(self._seen) < CLUSTER_BROKERS_MAX:
            self._seen[broker_id] = _Seen(decode_registration(entry), entry.lease_id, entry.revision)
            self._gone.pop(broker_id, None)
        elif before is not None:
            if len(self._gone) >= CLUSTER_BROKERS_MAX:
                self._gone.pop(next(iter(self._gone)))
            self._gone[broker_id] = GoneBroker(before.registration, self._clock.now_ms())
