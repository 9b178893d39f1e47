"""Replicated metadata store: each process has a replica, and a sequencer agrees on the order of changes."""

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Sequence
from functools import partial

from danube.metadata.commands import Command, ExpireLease, GrantLease, LeaseGiven, Outcome, RenewLease, Transact
from danube.metadata.replication.command_format import Request, encode_request
from danube.metadata.replication.replica import Replica
from danube.metadata.replication.sequencer import NotOrderedError, Sequencer
from danube.metadata.store import Entry, Transaction, Watch
from danube.metadata.writing import CommandWriter
from danube.model.errors import DanubeError, MetadataError, UnknownOutcomeError
from danube.model.limits.metadata import (
    LEASE_RENEWALS,
    METADATA_ATTEMPT_TIMEOUT_S,
    METADATA_EXPIRY_WAIT_S,
    METADATA_RETRY_DELAY_S,
    METADATA_SUBMISSIONS_MAX,
    METADATA_SUBMIT_TIMEOUT_S,
    METADATA_WATCH_EVENTS_MAX,
)
from danube.runtime.clock import Clock
from danube.runtime.rng import Rng
from danube.runtime.tasks import TaskScope, is_being_cancelled


class ReplicatedStore(CommandWriter):
    """A `MetadataStore` over a sequencer. Reads come from this process's replica, and cost nothing.

    A change is submitted until it was applied here, the same one each time, so it has effect once. Leases are timed by
    every member, each by its own monotonic clock from the moment it saw the last renewal; so none ends early.
    """

    def __init__(
        self, sequencer: Sequencer, clock: Clock, rng: Rng, *, watch_events_max: int = METADATA_WATCH_EVENTS_MAX
    ) -> None:
        """`clock` times the leases; how long the sequencer may take is measured by the event loop's own time."""
        self._sequencer = sequencer
        self._rng = rng
        self._replica = Replica(clock, self._sweep_soon, watch_events_max=watch_events_max)
        self._tasks = TaskScope("metadata")
        self._turns = asyncio.Semaphore(METADATA_SUBMISSIONS_MAX)
        self._expiring: dict[ExpireLease, asyncio.Task[Outcome | DanubeError]] = {}
        self._unsettled: OrderedDict[str, str] = OrderedDict()
        """Requests whose outcome this process does not know yet, by the id of their command."""

        self._overdue: Callable[[], tuple[int, float] | None] = lambda: None
        self._on_renewed: Callable[[int, float], None] = lambda _lease_id, _sent_s: None
        self._renewals: OrderedDict[str, tuple[int, float]] = OrderedDict()
        """Renewals by another thread than the event loop's: lease and time of sending, by the id of their request."""

    def renew_for(
        self, overdue: Callable[[], tuple[int, float] | None], on_renewed: Callable[[int, float], None]
    ) -> None:
        """Renew the lease that is `overdue` now, if there is one, with this moment: asked in the thread of `renewal`.

        `on_renewed` is told of both on the event loop.
        """
        self._overdue, self._on_renewed, self._replica.on_outcome = overdue, on_renewed, self._renewed

    def renewal(self) -> bytes | None:
        """The renewal of a lease that is overdue, to be submitted now; from any thread, one at a time."""
        if (overdue := self._overdue()) is None:
            return None
        request_id = self._command_id()
        self._renewals[request_id] = overdue
        return encode_request(Request(request_id, RenewLease(overdue[0])))

    def _renewed(self, request_id: str, outcome: Outcome) -> None:
        if (renewal := self._renewals.pop(request_id, None)) and isinstance(outcome, LeaseGiven):
            self._on_renewed(*renewal)
        while len(self._renewals) > LEASE_RENEWALS:
            self._renewals.popitem(last=False)

    @property
    def position(self) -> int:
        """Position of this member in the sequence."""
        return self._replica.position

    async def start(self) -> None:
        """Take part. Raises MetadataError when that is not possible."""
        await self._sequencer.start(self._replica)

    async def get(self, key: str, *, linearizable: bool = False) -> Entry | None:
        await self._freshen(linearizable=linearizable)
        return self._replica.entry(key)

    async def list(self, prefix: str, *, linearizable: bool = False) -> Sequence[Entry]:
        await self._freshen(linearizable=linearizable)
        return self._replica.below(prefix)

    def watch(self, prefix: str) -> Watch:
        self._check_open()
        return self._replica.watch(prefix)

    async def expire_lease(self, lease_id: int) -> None:
        self._check_open()
        command = self._replica.end_lease(lease_id)
        if command is not None:
            _raised(await asyncio.shield(self._expire(command)))

    async def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        await self._tasks.close()
        await self._sequencer.close()
        await self._replica.close()

    def _command_id(self) -> str:
        return f"{self._rng.new_id():016x}"

    async def _submit(self, command: Command) -> Outcome:
        self._check_open()
        # A task of its own: a caller that is cancelled must not leave a change half agreed on.
        task = self._tasks.spawn(self._settle(self._identified(command)), "submit")
        try:
            return _raised(await asyncio.shield(task))
        except asyncio.CancelledError:
            if task.cancelled() and not is_being_cancelled():
                raise UnknownOutcomeError("the metadata store was closed, and the change may still be made") from None
            raise

    def _identified(self, command: Command) -> Command:
        """With an id, by which it can be submitted again."""
        if isinstance(command, Transact) and not command.transaction.transaction_id:
            transaction = command.transaction
            return Transact(Transaction(self._command_id(), transaction.conditions, transaction.writes))
        return command

    async def _settle(self, command: Command) -> Outcome | DanubeError:
        command_id = _id_of(command)
        known_id = self._unsettled.pop(command_id, "")
        request = Request(known_id or self._command_id(), command)
        try:
            packed = encode_request(request)
            async with self._turns:
                outcome = await self._agree(request, packed, again=bool(known_id))
        except DanubeError as error:
            if command_id and isinstance(error, UnknownOutcomeError):
                self._leave_unsettled(command_id, request.request_id)
            else:
                self._replica.forget(request.request_id)
            return error  # the caller's to raise: it may have gone, and then nobody needs to hear of it
        self._replica.forget(request.request_id)
        return outcome

    def _leave_unsettled(self, command_id: str, request_id: str) -> None:
        """Go on looking for the request: by the time the caller asks again, the state may have forgotten it."""
        self._unsettled[command_id] = request_id
        if len(self._unsettled) > METADATA_SUBMISSIONS_MAX:
            _, forgotten = self._unsettled.popitem(last=False)
            self._replica.forget(forgotten)

    async def _agree(self, request: Request, packed: bytes, *, again: bool) -> Outcome:
        """Submit the request until it is applied here; `again` for one whose outcome was unknown before.

        Raises UnknownOutcomeError when that is not known, and MetadataError when it surely was not.
        """
        outcome = self._replica.expect(request.request_id)
        attempt = _Attempt(outcome, may_be_ordered=again)
        deadline_s = asyncio.get_running_loop().time() + METADATA_SUBMIT_TIMEOUT_S
        try:
            # Only an attempt that takes too long is cut off: of the others it is known how they ended.
            async with asyncio.timeout_at(deadline_s + 2 * METADATA_ATTEMPT_TIMEOUT_S):
                while not outcome.done():
                    self._replica.check()
                    leadership = self._leadership_for(request.command)
                    if leadership == 0 or asyncio.get_running_loop().time() >= deadline_s:
                        raise attempt.given_up()
                    await attempt.make(self._sequencer, packed, leadership)
            return outcome.result()
        except TimeoutError:
            raise attempt.given_up() from None
        except MetadataError as error:
            if attempt.may_be_ordered and not isinstance(error, UnknownOutcomeError):
                raise UnknownOutcomeError(f"the change may still be made: {error}") from error
            raise

    def _leadership_for(self, command: Command) -> int | None:
        """The leadership that the end of a lease is submitted to, 0 once that must not be; None for other commands.

        A new leader does not know what renewals were lost with the one before: as in etcd, every lease lasts for all of
        its time once more.
        """
        if not isinstance(command, ExpireLease):
            return None
        return self._sequencer.leadership if command in self._replica.due() else 0

    async def _freshen(self, *, linearizable: bool) -> None:
        self._check_open()
        if linearizable:
            await self._sequencer.barrier()
        self._replica.check()
        due = self._replica.due()
        if due:
            await asyncio.wait([self._expire(command) for command in due], timeout=METADATA_EXPIRY_WAIT_S)

    def _expire(self, command: ExpireLease) -> "asyncio.Task[Outcome | DanubeError]":
        """End a lease that has run out; all who need that wait for the same attempt."""
        under_way = self._expiring.get(command)
        if under_way is None:
            under_way = self._expiring[command] = self._tasks.spawn(self._settle(command), "expire a lease")
            under_way.add_done_callback(partial(self._expiry_ended, command))
        return under_way

    def _expiry_ended(self, command: ExpireLease, _task: object) -> None:
        """One that could not be agreed on is tried again: nobody may come to ask, and watchers wait for it."""
        self._expiring.pop(command, None)
        if not self._closed and command in self._replica.due():
            asyncio.get_running_loop().call_later(METADATA_RETRY_DELAY_S, self._sweep_soon)

    def _sweep_soon(self) -> None:
        if not self._closed:
            for command in self._replica.due():
                self._expire(command)


class _Attempt:
    """The attempts at one request, and what is known of them."""

    def __init__(self, outcome: "asyncio.Future[Outcome]", *, may_be_ordered: bool) -> None:
        self._outcome = outcome
        self.may_be_ordered = may_be_ordered
        """True if the request may stand in the sequence, now or later."""
        self._refusal: MetadataError | None = None

    async def make(self, sequencer: Sequencer, packed: bytes, leadership: int | None) -> None:
        """Try once; returns when it was applied, or when it is time to try again."""
        if self.may_be_ordered and not await self._is_missing(sequencer):
            return
        before, self.may_be_ordered = self.may_be_ordered, True  # an attempt that is cancelled may be ordered, too
        try:
            await sequencer.submit(packed, leadership)
            wait_s = METADATA_ATTEMPT_TIMEOUT_S
        except NotOrderedError as error:
            self.may_be_ordered, self._refusal, wait_s = before, error, METADATA_RETRY_DELAY_S
        await asyncio.wait([self._outcome], timeout=wait_s)

    async def _is_missing(self, sequencer: Sequencer) -> bool:
        """True if an earlier attempt is surely not applied yet.

        Its outcome is remembered for a bounded number of changes only: one that is submitted again blindly, by a member
        that slept through more than those, would be applied twice.
        """
        try:
            async with asyncio.timeout(METADATA_ATTEMPT_TIMEOUT_S):
                await sequencer.barrier()
        except (MetadataError, TimeoutError):
            await asyncio.wait([self._outcome], timeout=METADATA_RETRY_DELAY_S)
            return False
        return not self._outcome.done()

    def given_up(self) -> MetadataError:
        """Error for the caller."""
        if self.may_be_ordered:
            why = f" (another attempt was refused: {self._refusal})" if self._refusal is not None else ""
            return UnknownOutcomeError(
                f"nothing was agreed on within {METADATA_SUBMIT_TIMEOUT_S:g} s{why}, and the change may still be made:"
                " submit it again"
            )
        return MetadataError(f"the change was not made: {self._refusal}; see to it that what keeps the metadata runs")


def _raised(result: Outcome | DanubeError) -> Outcome:
    if isinstance(result, DanubeError):
        raise result
    return result


def _id_of(command: Command) -> str:
    """Id by which the same command is recognized when it is submitted again; "" for one that has none."""
    match command:
        case Transact(transaction):
            return transaction.transaction_id
        case GrantLease(command_id):
            return command_id
        case _:
            return ""
