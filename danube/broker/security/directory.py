"""Directory of security: roles, bindings, revocations and API keys as this broker follows them."""

import logging
from collections.abc import Callable, Mapping

from danube.metadata.records import keys
from danube.metadata.security.records import DECODERS
from danube.metadata.store import Entry, MetadataStore
from danube.metadata.watch_cache import WatchCache
from danube.model.errors import MetadataError
from danube.model.security.credentials import ApiKey, Revocation
from danube.model.security.grants import Binding, Role
from danube.runtime.clock import Clock
from danube.runtime.tasks import TaskScope
from danube.security.decision import Rules
from danube.security.revocations import Revocations

_log = logging.getLogger(__name__)


class SecurityDirectory:
    """A followed copy; a record that cannot be read is left out with a warning, and grants nothing."""

    def __init__(self, store: MetadataStore, clock: Clock, super_admins: frozenset[str] = frozenset()) -> None:
        self._super_admins = super_admins
        self._store = store
        self._cache = WatchCache(store, keys.SECURITY, clock, self._follow)
        self._namespaces = WatchCache(store, keys.NAMESPACES, clock, lambda _key, _entry: self._tell())
        self._records: dict[str, Role | Binding | Revocation | ApiKey] = {}
        self._listeners: list[Callable[[], None]] = []
        self.is_plain: Callable[[str], bool] = lambda _topic: False
        """As in `Rules`."""
        self.rules = Rules.of([], [], super_admins)
        self.revocations = Revocations()

    @property
    def roles(self) -> Mapping[str, Role]:
        """Roles by name, the built-in ones among them."""
        return self.rules.roles

    @property
    def bindings(self) -> list[Binding]:
        """All bindings, by key."""
        return [record for _, record in sorted(self._records.items()) if isinstance(record, Binding)]

    @property
    def api_keys(self) -> Mapping[str, ApiKey]:
        """API keys by id."""
        return {record.id: record for record in self._records.values() if isinstance(record, ApiKey)}

    @property
    def all_revocations(self) -> list[Revocation]:
        """Revocations, the newest first."""
        found = [record for record in self._records.values() if isinstance(record, Revocation)]
        return sorted(found, key=lambda record: -record.revoked_ms)

    def on_change(self, listener: Callable[[], None]) -> None:
        """Have `listener` called when a record came, changed or went."""
        self._listeners.append(listener)

    def know_topics(self, is_plain: Callable[[str], bool]) -> None:
        """Tell plain topics from partitions by this from now on."""
        self.is_plain = is_plain
        self._rebuild()

    async def start(self, tasks: TaskScope) -> None:
        """Follow the records in a task of this scope; returns once all of now are known."""
        tasks.spawn(self._cache.run(), "follow roles and bindings")
        tasks.spawn(self._namespaces.run(), "follow namespaces")
        await self._cache.ready()
        await self._namespaces.ready()

    async def refresh(self) -> None:
        """Read all records again: a change that this broker made holds here when it is answered."""
        entries = {entry.key: entry for entry in await self._store.list(keys.SECURITY, linearizable=True)}
        for key in self._records.keys() - entries.keys():
            self._set(key, None)
        for key, entry in entries.items():
            self._set(key, entry)
        self._rebuild()

    def _follow(self, key: str, entry: Entry | None) -> None:
        self._set(key, entry)
        self._rebuild()

    def _set(self, key: str, entry: Entry | None) -> None:
        self._records.pop(key, None)
        decode = next((decode for root, decode in DECODERS.items() if key.startswith(f"{root}/")), None)
        if entry is None or decode is None:
            return
        try:
            self._records[key] = decode(entry)
        except MetadataError as error:
            _log.error("a record of security cannot be read, and grants nothing: %s", error)

    def _rebuild(self) -> None:
        records = self._records.values()
        roles = [record for record in records if isinstance(record, Role)]
        bindings = [record for record in records if isinstance(record, Binding)]
        self.rules = Rules.of(roles, bindings, self._super_admins, self.is_plain, self._is_namespace)
        self.revocations = Revocations(record for record in records if isinstance(record, Revocation))
        self._tell()

    def _is_namespace(self, name: str) -> bool:
        return bool(name) and keys.namespace(name) in self._namespaces.entries

    def _tell(self) -> None:
        for listener in self._listeners:
            listener()
