"""Schedules as records of the metadata store, and the key that lives by the lease of their runner."""

import logging
from contextlib import suppress
from dataclasses import replace

from danube.metadata.records import keys
from danube.metadata.records.record_values import record_values
from danube.metadata.store import MetadataStore
from danube.metadata.transaction_builder import TransactionBuilder, commit_transaction
from danube.model.errors import (
    LimitReachedError,
    MetadataError,
    NotFoundError,
    PreconditionFailedError,
    VersionConflictError,
)
from danube.model.limits.faces import SCHEDULE_LEASE_S, SCHEDULES_MAX
from danube.model.records.schedules import BeginRun, RunnerClaim, RunnerLease, Schedule, ScheduleBook
from danube.runtime.rng import Rng

_log = logging.getLogger(__name__)


encode_schedule, decode_schedule = record_values(Schedule, lambda one: keys.schedule(one.name))
encode_runner, decode_runner = record_values(str)
"""The runner that has the lease."""


class ScheduleRecords:
    """The records in a metadata store. Every method raises MetadataError when the store fails."""

    def __init__(self, store: MetadataStore, rng: Rng) -> None:
        self._store = store
        self._rng = rng

    async def book(self) -> ScheduleBook:
        """All schedules that can be read, by name, and the runner."""
        found: list[Schedule] = []
        for entry in await self._store.list(keys.SCHEDULES, linearizable=True):
            try:
                found.append(decode_schedule(entry))
            except MetadataError as error:
                _log.warning("%s", error)
        holder = await self._store.get(keys.SCHEDULE_RUNNER)
        return ScheduleBook(schedules=tuple(found), runner=decode_runner(holder) if holder else "")

    async def put(self, schedule: Schedule) -> Schedule:
        """Keep a schedule; one of the same name keeps the runs that it has begun. Raises LimitReachedError."""
        key = keys.schedule(schedule.name)

        async def change(builder: TransactionBuilder) -> Schedule:
            entry = await builder.read(key)
            if entry is None and len(await self._store.list(keys.SCHEDULES)) >= SCHEDULES_MAX:
                raise LimitReachedError(f"there are {SCHEDULES_MAX} schedules already, the most there may be")
            known = decode_schedule(entry) if entry else schedule
            kept = replace(
                schedule,
                requested_ms=known.requested_ms,
                begun_due_ms=known.begun_due_ms,
                begun_ms=known.begun_ms,
            )
            builder.put(key, encode_schedule(kept))
            return kept

        return await commit_transaction(self._store, self._rng, change)

    async def remove(self, name: str) -> Schedule:
        """Remove a schedule; answers it as it was. Raises NotFoundError."""

        async def change(builder: TransactionBuilder) -> Schedule:
            known = await _read(builder, name)
            builder.delete(keys.schedule(name))
            return known

        return await commit_transaction(self._store, self._rng, change)

    async def request(self, name: str, now_ms: int) -> Schedule:
        """Ask for a run out of turn; one that is asked for already is the same. Raises NotFoundError."""

        async def change(builder: TransactionBuilder) -> Schedule:
            known = await _read(builder, name)
            if known.requested_ms > known.begun_due_ms:
                return known
            # Runs are named by the second of their due time: this one must differ from the one before.
            asked = replace(known, requested_ms=max(now_ms, known.begun_due_ms + 1_000))
            builder.put(keys.schedule(name), encode_schedule(asked))
            return asked

        return await commit_transaction(self._store, self._rng, change)

    async def begin(self, wanted: BeginRun, now_ms: int) -> Schedule:
        """Record that a run begins. Raises PreconditionFailedError for a runner without the lease, or a slower one."""

        async def change(builder: TransactionBuilder) -> Schedule:
            holder = await builder.read(keys.SCHEDULE_RUNNER)
            if holder is None or decode_runner(holder) != wanted.runner:
                raise PreconditionFailedError(f"runner {wanted.runner[:40]} does not have the lease: claim it first")
            known = await _read(builder, wanted.name)
            if known.begun_ms != wanted.seen_begun_ms:
                raise PreconditionFailedError(f"another run of {wanted.name} was begun meanwhile: list the schedules")
            after = known.begun(wanted.due_ms, now_ms)
            builder.put(keys.schedule(wanted.name), encode_schedule(after))
            return after

        return await commit_transaction(self._store, self._rng, change)

    async def claim(self, claim: RunnerClaim) -> RunnerLease:
        """Claim the lease where it is free, renew or release it where it is the runner's; answers who has it then."""
        entry = await self._store.get(keys.SCHEDULE_RUNNER, linearizable=True)
        holder = decode_runner(entry) if entry else ""
        if entry is not None and holder == claim.runner:
            if claim.release:
                await self._store.revoke_lease(entry.lease_id)
                return RunnerLease()
            with suppress(NotFoundError):
                await self._store.renew_lease(entry.lease_id)
                return RunnerLease(runner=holder, lease_s=SCHEDULE_LEASE_S)
            holder = ""
        if holder or claim.release:
            return RunnerLease(runner=holder)
        return await self._claimed(claim.runner)

    async def _claimed(self, runner: str) -> RunnerLease:
        lease_id = await self._store.grant_lease(SCHEDULE_LEASE_S)
        value = encode_runner(runner)
        try:
            await self._store.compare_and_set(keys.SCHEDULE_RUNNER, value, revision=0, lease_id=lease_id)
        except VersionConflictError:
            await self._store.revoke_lease(lease_id)
            entry = await self._store.get(keys.SCHEDULE_RUNNER, linearizable=True)
            return RunnerLease(runner=decode_runner(entry) if entry else "")
        return RunnerLease(runner=runner, lease_s=SCHEDULE_LEASE_S)


async def _read(builder: TransactionBuilder, name: str) -> Schedule:
    entry = await builder.read(keys.schedule(name))
    if entry is None:
        raise NotFoundError(f"there is no schedule {name[:40]!r}: list the schedules")
    return decode_schedule(entry)
