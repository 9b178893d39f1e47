"""Records of balance in the metadata: pins and exclusions, the automatic mode, and rebalances."""

import logging
from collections.abc import Callable

from danube.loadmgr.automatic import Automatic
from danube.metadata.records import keys
from danube.metadata.records.catalog import ExtraWrites
from danube.metadata.records.cluster import (
    AutomaticMode,
    decode_automatic,
    decode_rebalance,
    decode_rule,
    decode_running,
    encode_automatic,
    encode_rebalance,
    encode_rule,
    encode_running,
)
from danube.metadata.store import Entry, MetadataStore
from danube.metadata.transaction_builder import TransactionBuilder, commit_transaction
from danube.metadata.watch_cache import WatchCache
from danube.model.calls.balance import BalanceRule, ClearRule, Rebalance
from danube.model.errors import LimitReachedError, MetadataError, NotFoundError, PreconditionFailedError
from danube.model.limits.balance import BALANCE_RULES_MAX, REBALANCES_KEPT
from danube.runtime.clock import Clock
from danube.runtime.rng import Rng
from danube.runtime.tasks import TaskScope

_log = logging.getLogger(__name__)

Change = Callable[[Rebalance], Rebalance | None]
"""The next state of a rebalance; None for no change."""


class BalanceRecords:
    """The records, as the newest watch events have them, and their changes. Changes raise MetadataError."""

    def __init__(self, store: MetadataStore, clock: Clock, rng: Rng) -> None:
        self._store = store
        self._rng = rng
        self._cache = WatchCache(store, keys.BALANCE, clock, self._follow)
        self._rules: dict[str, BalanceRule] = {}
        self._rebalances: dict[str, Rebalance] = {}
        self._automatic: AutomaticMode | None = None
        self._running = ""
        self._listeners: list[Callable[[], None]] = []

    def start(self, tasks: TaskScope) -> None:
        """Follow them, in a task of this scope."""
        tasks.spawn(self._cache.run(), "watch the balance")

    async def ready(self) -> None:
        """Return once they are known."""
        await self._cache.ready()

    def on_change(self, listener: Callable[[], None]) -> None:
        """Have `listener` called after each change."""
        self._listeners.append(listener)

    @property
    def rules(self) -> tuple[BalanceRule, ...]:
        """Pins and exclusions, by kind and name."""
        return tuple(self._rules[key] for key in sorted(self._rules))

    @property
    def automatic(self) -> AutomaticMode | None:
        """The automatic mode that was set at run time, if any was."""
        return self._automatic

    @property
    def rebalances(self) -> list[Rebalance]:
        """Rebalances that run or ran, the newest first."""
        return sorted(self._rebalances.values(), key=lambda one: (-one.started_ms, one.rebalance_id))

    @property
    def running(self) -> Rebalance | None:
        """The rebalance that runs."""
        return self._rebalances.get(self._running)

    async def set_rule(self, rule: BalanceRule) -> tuple[BalanceRule, ...]:
        """Set a rule; answers all. Raises LimitReachedError."""
        key = keys.balance_rule(rule.kind, rule.name)

        async def change(builder: TransactionBuilder) -> None:
            if await builder.read(key) is None and len(await self._stored_rules()) >= BALANCE_RULES_MAX:
                raise LimitReachedError(f"there are {BALANCE_RULES_MAX} pins and exclusions, the most: clear some")
            builder.put(key, encode_rule(rule))

        await commit_transaction(self._store, self._rng, change)
        return await self._stored_rules()

    async def clear_rule(self, wanted: ClearRule) -> tuple[BalanceRule, ...]:
        """Take a rule away if it is there; answers the others."""
        key = keys.balance_rule(wanted.kind, wanted.name)

        async def change(builder: TransactionBuilder) -> None:
            if await builder.read(key) is not None:
                builder.delete(key)

        await commit_transaction(self._store, self._rng, change)
        return await self._stored_rules()

    async def set_automatic(self, mode: Automatic | None, set_by: str, now_ms: int) -> None:
        """Set the automatic mode at run time; None for that of the settings again."""

        async def change(builder: TransactionBuilder) -> None:
            known = await builder.read(keys.AUTOMATIC_BALANCE)
            if mode is not None:
                builder.put(
                    keys.AUTOMATIC_BALANCE, encode_automatic(AutomaticMode(mode=mode, set_by=set_by, set_ms=now_ms))
                )
            elif known is not None:
                builder.delete(keys.AUTOMATIC_BALANCE)

        await commit_transaction(self._store, self._rng, change)

    async def begin(self, rebalance: Rebalance, extra_writes: ExtraWrites | None = None) -> None:
        """Record that a rebalance runs from now on. Raises PreconditionFailedError while another one does."""

        async def change(builder: TransactionBuilder) -> None:
            running = await builder.read(keys.RUNNING_REBALANCE)
            if running is not None:
                raise PreconditionFailedError(
                    f"rebalance {decode_running(running)} runs already: wait for its end, or cancel it"
                )
            for gone in self.rebalances[REBALANCES_KEPT - 1 :]:
                builder.delete(keys.rebalance(gone.rebalance_id))
            builder.put(keys.RUNNING_REBALANCE, encode_running(rebalance.rebalance_id))
            builder.put(keys.rebalance(rebalance.rebalance_id), encode_rebalance(rebalance))
            if extra_writes is not None:
                await extra_writes(builder)

        await commit_transaction(self._store, self._rng, change)

    async def change(self, rebalance_id: str, step: Change) -> Rebalance:
        """Apply a step to a rebalance; answers it as it stands then. Raises NotFoundError."""
        key = keys.rebalance(rebalance_id)

        async def change(builder: TransactionBuilder) -> Rebalance:
            entry = await builder.read(key)
            if entry is None:
                raise NotFoundError(f"there is no rebalance {rebalance_id[:40]!r}: list the rebalances")
            known = decode_rebalance(entry)
            after = step(known)
            if after is None:
                return known
            builder.put(key, encode_rebalance(after))
            if after.state.is_over:
                running = await builder.read(keys.RUNNING_REBALANCE)
                if running is not None and decode_running(running) == rebalance_id:
                    builder.delete(keys.RUNNING_REBALANCE)
            return after

        return await commit_transaction(self._store, self._rng, change)

    async def _stored_rules(self) -> tuple[BalanceRule, ...]:
        entries = await self._store.list(keys.BALANCE_RULES)
        return tuple(decode_rule(entry) for entry in sorted(entries, key=lambda entry: entry.key))

    def _follow(self, key: str, entry: Entry | None) -> None:
        try:
            self._apply(key, entry)
        except MetadataError as error:
            _log.warning("a record of the balance cannot be read, and is left out: %s", error)
        for listener in self._listeners:
            listener()

    def _apply(self, key: str, entry: Entry | None) -> None:
        if key == keys.AUTOMATIC_BALANCE:
            self._automatic = decode_automatic(entry) if entry else None
        elif key == keys.RUNNING_REBALANCE:
            self._running = decode_running(entry) if entry else ""
        elif key.startswith(f"{keys.BALANCE_RULES}/"):
            self._rules.pop(key, None)
            if entry is not None:
                self._rules[key] = decode_rule(entry)
        elif key.startswith(f"{keys.REBALANCES}/"):
            self._rebalances.pop(keys.parse_rebalance(key), None)
            if entry is not None:
                found = decode_rebalance(entry)
                self._rebalances[found.rebalance_id] = found
