"""Plans and audit log in the user's state folder, for brokers that keep neither: the original's.

`plans.json` holds the plans and `audit.jsonl` the chain of `danube/model/records/audit.py`, a record a line. All
commands of one user share the folder of an endpoint: a command that changes something holds the lock in `lock`, so that
no two of them apply a plan twice or fork the chain. Files are for their owner alone, plans are replaced whole, and a
record that a crash tore is cut off, as no caller was told that it was written.
"""

import asyncio
import hashlib
import stat
from array import array
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from functools import cached_property
from pathlib import Path
from typing import TypeVar

from pydantic import TypeAdapter

from danube.model.errors import (
    DamagedDataError,
    InvalidRequestError,
    PlanNotFoundError,
    StorageError,
)
from danube.model.limits.broker import (
    LOCAL_LOCK_POLL_S,
    LOCAL_LOCK_WAIT_S,
    LOCAL_STATE_BYTES_MAX,
    READ_BYTES_MAX,
)
from danube.model.plans.plan import (
    Decision,
    Impact,
    Plan,
    PlanApplication,
    PlanRequest,
    applied,
    check_applicable,
    decided,
    new_plan,
    plans_to_drop,
)
from danube.model.records.audit import (
    GENESIS,
    AuditEntry,
    AuditPage,
    AuditReceipt,
    AuditRecord,
    bounded,
    decode_record,
    encode_record,
    next_record,
)
from danube.model.untrusted_json import decode_json
from danube.runtime.blocking import BlockingRunner
from danube.runtime.clock import Clock
from danube.runtime.disk import DiskLock, File, LocalDisk
from danube.runtime.paths import user_folder
from danube.runtime.rng import Rng

T = TypeVar("T")

KEEPER = "local"
"""Who keeps the log, in its records."""
PLANS_FILE = "plans.json"
AUDIT_FILE = "audit.jsonl"
LOCK_FILE = "lock"
ENDPOINT_FILE = "endpoint"
"""Says in words whose folder it is."""

_PLANS = TypeAdapter(tuple[Plan, ...])
_PLAN_ID_BITS = 48
_OWNER_ALONE = 0o700


def state_folder(endpoint: str, environ: Mapping[str, str]) -> Path:
    """The folder for the state of an endpoint, below the user's state folder."""
    state = user_folder(environ, "XDG_STATE_HOME", ".local/state")
    return state / "danube-admin" / hashlib.sha256(endpoint.encode()).hexdigest()[:16]


class LocalState:
    """The plans and the audit log of one endpoint. Every method raises StorageError when the folder fails it.

    `find_folder` is asked at the first use: a user without a home folder does without what needs one.
    """

    def __init__(
        self, find_folder: Callable[[], Path], endpoint: str, *, clock: Clock, rng: Rng, runner: BlockingRunner
    ) -> None:
        self._find_folder = find_folder
        self._endpoint = endpoint
        self._clock = clock
        self._rng = rng
        self._runner = runner
        self._changing = asyncio.Lock()

    @cached_property
    def folder(self) -> Path:
        """The folder. Raises SettingsError where the user has none."""
        return self._find_folder()

    @cached_property
    def _files(self) -> "_Files":
        return _Files(self.folder, self._endpoint)

    async def plans(self) -> list[Plan]:
        found = await self._run(self._files.read_plans)
        return sorted(found.values(), key=lambda plan: (-plan.created_ms, plan.plan_id))

    async def plan(self, plan_id: str) -> Plan:
        """One plan. Raises PlanNotFoundError."""
        return _get(await self._run(self._files.read_plans), plan_id)

    async def create(self, request: PlanRequest, impact: Impact) -> Plan:
        """Keep a new plan, unless it is only to be shown; old ones that are over go.

        Raises LimitReachedError when too many are not over.
        """
        now_ms = self._clock.now_ms()
        plan_id = f"plan-{self._rng.new_id() % 2**_PLAN_ID_BITS:012x}"
        plan = new_plan(request, impact, plan_id=plan_id, now_ms=now_ms)
        return plan if not plan.plan_id else await self._change(lambda plans: _with_new(plans, plan))

    async def decide(self, decision: Decision) -> Plan:
        """Approve or reject a plan that waits. Raises PlanNotFoundError, PlanRefusedError."""
        now_ms = self._clock.now_ms()
        return await self._change(lambda plans: decided(_get(plans, decision.plan_id), decision, now_ms))

    async def mark_applied(self, application: PlanApplication, impact: Impact) -> Plan:
        """Mark a plan as applied, if it may be with this impact; only who this answers carries it out.

        Raises PlanNotFoundError, PlanRefusedError, PlanWaitsError.
        """
        now_ms = self._clock.now_ms()
        return await self._change(lambda plans: _applied(_get(plans, application.plan_id), application, impact, now_ms))

    async def record(self, entry: AuditEntry) -> AuditReceipt:
        """Add to the log; durable when this returns."""
        async with self._locked():
            return await self._run(lambda: self._files.append(bounded(entry), self._clock.now_ms()))

    async def audit(self, start: int, limit: int) -> AuditPage:
        """A page of the log. Raises DamagedDataError that names the first record that is none."""
        return await self._run(lambda: self._files.read_audit(start, limit))

    async def _change(self, change: "Callable[[dict[str, Plan]], Plan]") -> Plan:
        async with self._locked():
            return await self._run(lambda: self._files.change_plans(change))

    @asynccontextmanager
    async def _locked(self) -> AsyncIterator[None]:
        async with self._changing:
            try:
                await self._lock()
                yield
            finally:
                await self._run(self._files.unlock)

    async def _lock(self) -> None:
        until_s = self._clock.monotonic_s() + LOCAL_LOCK_WAIT_S
        while not await self._run(self._files.try_lock):
            now_s = self._clock.monotonic_s()
            if now_s >= until_s:
                raise StorageError(f"another command is writing to {self.folder}: try again when it has ended")
            await self._clock.sleep_until(now_s + LOCAL_LOCK_POLL_S)

    async def _run(self, work: Callable[[], T]) -> T:
        try:
            return await self._runner.run(work)
        except OSError as error:
            raise StorageError(
                f"plans and audit log cannot be kept in {self.folder} ({error.strerror}): mend that, or set"
                " XDG_STATE_HOME to another folder"
            ) from error


class _Files:
    """The folder, read and written; everything here blocks."""

    def __init__(self, folder: Path, endpoint: str) -> None:
        self._folder = folder
        self._endpoint = endpoint
        self._disk = LocalDisk(folder)
        self._held: DiskLock | None = None
        self._ends = array("Q")
        """Where each whole line of the log ends."""

    def try_lock(self) -> bool:
        if not self._folder.is_dir():
            self._folder.mkdir(mode=_OWNER_ALONE, parents=True, exist_ok=True)
        if stat.S_IMODE(self._folder.stat().st_mode) != _OWNER_ALONE:
            self._folder.chmod(_OWNER_ALONE)
        try:
            self._held = self._disk.lock(LOCK_FILE)
        except BlockingIOError:
            return False
        if not self._disk.exists(ENDPOINT_FILE):
            self._disk.replace_file(ENDPOINT_FILE, f"{self._endpoint}\n".encode())
        return True

    def unlock(self) -> None:
        """Let the lock go, if it is held: kept here, so that a command that is cancelled as it gets it loses none."""
        held, self._held = self._held, None
        if held is not None:
            held.release()

    def read_plans(self) -> dict[str, Plan]:
        path = self._folder / PLANS_FILE
        try:
            content = path.read_bytes() if path.stat().st_size <= LOCAL_STATE_BYTES_MAX else b""
            return {plan.plan_id: plan for plan in _PLANS.validate_python(decode_json(content))}
        except FileNotFoundError:
            return {}
        except ValueError:  # pydantic's is one
            raise DamagedDataError(
                f"{path} does not hold plans: move it away, its plans are lost, and ask for new ones"
            ) from None

    def change_plans(self, change: Callable[[dict[str, Plan]], Plan]) -> Plan:
        """Replace the file by what `change` leaves in the plans, the one it answers included."""
        plans = self.read_plans()
        changed = change(plans)
        plans[changed.plan_id] = changed
        self._disk.replace_file(PLANS_FILE, _PLANS.dump_json(tuple(plans.values())))
        return changed

    def append(self, entry: AuditEntry, now_ms: int) -> AuditReceipt:
        if not self._disk.exists(AUDIT_FILE):
            self._disk.create(AUDIT_FILE).close()
            self._disk.sync_folder("")
        file = self._disk.open_append(AUDIT_FILE)
        try:
            self._index_new_lines(file)
            last = self._last(file)
            end = self._position(len(self._ends))
            if file.size() != end:
                file.truncate(end)
            record = next_record(
                entry,
                sequence=len(self._ends),
                at_ms=now_ms,
                keeper=KEEPER,
                previous=last.hash if last else GENESIS,
            )
            file.append([encode_record(record), b"\n"])
            file.sync()
        finally:
            file.close()
        return AuditReceipt(sequence=record.sequence, hash=record.hash)

    def read_audit(self, start: int, limit: int) -> AuditPage:
        if not self._disk.exists(AUDIT_FILE):
            return AuditPage(records=(), start=0, end=0)
        file = self._disk.open_read(AUDIT_FILE)
        try:
            self._index_new_lines(file)
            return AuditPage(records=self._read(file, start, start + limit), start=0, end=len(self._ends))
        finally:
            file.close()

    def _last(self, file: File) -> AuditRecord | None:
        lines = len(self._ends)
        found = self._read(file, lines - 1, lines)
        if len(self._ends) != lines:  # the file was changed, and the last line is another one
            found = self._read(file, len(self._ends) - 1, len(self._ends))
        return found[-1] if found else None

    def _read(self, file: File, start: int, end: int) -> tuple[AuditRecord, ...]:
        """The lines from `start` on, as far as there are any before `end`."""
        for is_fresh in (False, True):
            lines = range(max(start, 0), min(end, len(self._ends)))
            found = {line: self._record(file, line) for line in lines}
            damaged = [line for line, record in found.items() if record is None]
            moved = [line for line, record in found.items() if record and record.sequence != line]
            if not damaged and (is_fresh or not moved):
                break
            if is_fresh:
                raise DamagedDataError(
                    f"record {damaged[0]} of {self._folder / AUDIT_FILE} is not what was written: keep the file for"
                    " whoever looks into that, under another name; the log begins anew then"
                )
            self._ends = array("Q")  # whoever changed the file may have moved its lines
            self._index_new_lines(file)
        return tuple(record for record in found.values() if record is not None)

    def _index_new_lines(self, file: File) -> None:
        """Find the ends of lines that were written since; from the beginning when the file is shorter than it was."""
        size, position = file.size(), self._position(len(self._ends))
        if size < position:
            self._ends, position = array("Q"), 0
        while position < size and (chunk := file.read(position, READ_BYTES_MAX)):
            found = -1
            while (found := chunk.find(b"\n", found + 1)) >= 0:
                self._ends.append(position + found + 1)
            position += len(chunk)

    def _record(self, file: File, line: int) -> AuditRecord | None:
        begin = self._position(line)
        try:
            return decode_record(file.read(begin, self._position(line + 1) - begin - 1))
        except InvalidRequestError:
            return None

    def _position(self, lines: int) -> int:
        return self._ends[lines - 1] if lines else 0


def _with_new(plans: dict[str, Plan], plan: Plan) -> Plan:
    for gone in plans_to_drop(list(plans.values()), plan):
        del plans[gone]
    return plan


def _applied(plan: Plan, application: PlanApplication, impact: Impact, now_ms: int) -> Plan:
    check_applicable(plan, application, impact, now_ms)
    return applied(plan, application, now_ms)


def _get(plans: Mapping[str, Plan], plan_id: str) -> Plan:
    plan = plans.get(plan_id)
    if plan is None:
        raise PlanNotFoundError(f"there is no plan {plan_id[:40]!r} (any more): list the plans, or ask for a new one")
    return plan
