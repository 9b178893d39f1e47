"""Connectors as records of the metadata store: what runners tell lives by a lease, and wishes stay."""

import logging
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

from danube.metadata.records import keys
from danube.metadata.records.record_values import record_values
from danube.metadata.store import Entry, MetadataStore
from danube.metadata.transaction_builder import TransactionBuilder, commit_transaction
from danube.model.errors import AlreadyExistsError, LimitReachedError, MetadataError, NotFoundError
from danube.model.limits.faces import CONNECT_LEASE_S, CONNECT_RUNNERS_MAX, CONNECT_RUNNERS_OF_ONE_MAX
from danube.model.records.connectors import ChangeConnector, ConnectorBook, ConnectorWish, RunnerReport
from danube.runtime.clock import Clock
from danube.runtime.rng import Rng

R = TypeVar("R")
_log = logging.getLogger(__name__)
encode_report, decode_report = record_values(RunnerReport, lambda one: keys.connect_runner(one.runner))
encode_wish, decode_wish = record_values(ConnectorWish, lambda one: keys.connect_wish(one.connector))


class ConnectorRecords:
    """The records in a metadata store. Every method raises MetadataError when the store fails."""

    def __init__(self, store: MetadataStore, rng: Rng, clock: Clock) -> None:
        self._store = store
        self._rng = rng
        self._clock = clock

    async def book(self) -> ConnectorBook:
        """All runners that tell, and all wishes."""
        runners = await self._all(keys.CONNECT_RUNNERS, decode_report)
        return ConnectorBook(runners=runners, wishes=await self._all(keys.CONNECT_WISHES, decode_wish))

    async def report(self, report: RunnerReport) -> tuple[ConnectorWish, ...]:
        """Keep what a runner tells until it tells again; answers the wishes.

        Raises LimitReachedError, and AlreadyExistsError for the name of another principal's runner.
        """
        key = keys.connect_runner(report.runner)
        entry = await self._store.get(key)
        if entry is not None and decode_report(entry).principal != report.principal:
            raise AlreadyExistsError(f"another principal has a runner {report.runner[:40]!r}: run it on another host")
        if report.release:
            if entry is not None:
                await self._store.revoke_lease(entry.lease_id)
            return ()
        await self._keep(key, report, entry)
        told = {task.connector for task in report.tasks}
        return tuple(wish for wish in await self._all(keys.CONNECT_WISHES, decode_wish) if wish.connector in told)

    async def change(self, wanted: ChangeConnector) -> ConnectorWish:
        """Keep a wish for a connector. Raises NotFoundError for one that no runner tells of."""
        if wanted.connector not in (await self.book()).names():
            raise NotFoundError(f"no runner has a connector {wanted.connector[:40]!r}: list the connectors")
        key = keys.connect_wish(wanted.connector)

        async def change(builder: TransactionBuilder) -> ConnectorWish:
            entry = await builder.read(key)
            known = decode_wish(entry) if entry else ConnectorWish(connector=wanted.connector)
            wish = known.after(wanted, self._clock.now_ms())
            builder.put(key, encode_wish(wish))
            return wish

        return await commit_transaction(self._store, self._rng, change)

    async def _keep(self, key: str, report: RunnerReport, entry: Entry | None) -> None:
        value = encode_report(report)
        if entry is not None:
            with suppress(NotFoundError):  # its lease has run out meanwhile
                await self._store.renew_lease(entry.lease_id)
                await self._store.put(key, value, lease_id=entry.lease_id)
                return
        told = await self._all(keys.CONNECT_RUNNERS, decode_report)
        if len(told) >= CONNECT_RUNNERS_MAX:
            raise LimitReachedError(f"{CONNECT_RUNNERS_MAX} runners tell of connectors, the most there may be")
        own = sum(one.principal == report.principal for one in told)
        if report.principal and own >= CONNECT_RUNNERS_OF_ONE_MAX:
            raise LimitReachedError(f"{report.principal} has {own} runners, the most it may: stop some")
        await self._store.put(key, value, lease_id=await self._store.grant_lease(CONNECT_LEASE_S))

    async def _all(self, prefix: str, decode: Callable[[Entry], R]) -> tuple[R, ...]:
        """All records of a family that can be read."""
        found = []
        for entry in await self._store.list(prefix):
            try:
                found.append(decode(entry))
            except MetadataError as error:
                _log.warning("%s", error)
        return tuple(found)
