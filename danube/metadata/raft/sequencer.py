"""Raft as a `Sequencer` of metadata changes among the brokers, and its `Membership`.

Submissions of this event loop go to Raft's thread, and with its next tick into the log, as one batch; a member that
does not lead forwards it. Committed entries come back the same way, in order.
"""

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from typing import Any

from danube.metadata.cluster.membership import Member as MemberView
from danube.metadata.cluster.membership import MemberRole, MembershipStatus
from danube.metadata.raft.alone import LoneTransport
from danube.metadata.raft.apply_queue import ApplyQueue
from danube.metadata.raft.core.poller import Poller
from danube.metadata.raft.folder.folder import RaftFolder
from danube.metadata.raft.folder.recovery import members_after
from danube.metadata.raft.leader_calls import NO_LEADER, LeaderCalls
from danube.metadata.raft.local_node import LocalNode
from danube.metadata.raft.member import Member
from danube.metadata.raft.port.addresses import Listener, listen, split
from danube.metadata.raft.port.dialer import TransportSettings
from danube.metadata.raft.port.transport import RaftTransport
from danube.metadata.raft.settings import RaftSettings
from danube.metadata.raft.thread import RaftThread, Report, Submission
from danube.metadata.raft.values.node import ALONE, RaftNode
from danube.metadata.replication.sequencer import Follower, NotOrderedError
from danube.metadata.replication.shared_rounds import SharedRounds
from danube.model.errors import DanubeError, MetadataError
from danube.model.limits.metadata import (
    METADATA_ATTEMPT_TIMEOUT_S,
    METADATA_RETRY_DELAY_S,
    RAFT_BARRIER_TIMEOUT_S,
)
from danube.rpc.address import join_address
from danube.runtime.blocking import BlockingThread
from danube.runtime.clock import Clock
from danube.runtime.disk import Disk
from danube.runtime.rng import Rng
from danube.runtime.tasks import TaskScope, resolve

_log = logging.getLogger(__name__)

_CLOSED = "the metadata store is closed: this broker is going down"


class RaftSequencer:
    """One broker's part in the agreement; made by `open`, on the event loop that it stays on."""

    def __init__(
        self, settings: RaftSettings, folder: RaftFolder, listener: Listener | None, *, clock: Clock, rng: Rng
    ) -> None:
        """Use `open`. Raises SettingsError for settings that would let unknown peers in."""
        own = RaftNode.of(folder.node_id, (settings.advertised or listener.address) if listener else ALONE)
        poller, self._origin = Poller(), rng.new_id()
        port = TransportSettings(
            cluster_id=lambda: self._local_node.cluster_id, secret=settings.secret, tls=settings.tls
        )
        try:
            transport = (
                RaftTransport(port, own, MemberRole.LEARNER, poller, clock, listener) if listener else LoneTransport()
            )
        except BaseException:
            poller.close()
            raise
        self._settings = settings
        self._local_node = LocalNode(settings, own, folder, transport=transport, poller=poller, clock=clock, rng=rng)
        self._local_node.on_member = self._became_member
        self._thread = RaftThread(
            self._local_node,
            poller,
            self._origin,
            on_report=self._on_report,
            on_failed=self._fail,
            view_s=settings.timing.heartbeat_s,
        )
        self._tasks = TaskScope("raft")
        self._calls = LeaderCalls(self._local_node, self._thread, self._tasks)
        self._runner = BlockingThread("raft-snapshot")
        self._view = self._local_node.view()
        self._apply_queue: ApplyQueue | None = None
        self._follower: Follower | None = None
        self._is_closed = False
        self._started = False
        self._ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Done when nothing will be agreed on here any more: it is closed, or `_failure` says why."""
        self._failure: BaseException | None = None
        self._barriers: dict[int, asyncio.Future[None]] = {}
        self._readers = SharedRounds(partial(self._agree_within, RAFT_BARRIER_TIMEOUT_S))

    @classmethod
    async def open(cls, settings: RaftSettings, disk: Disk, clock: Clock, rng: Rng) -> "RaftSequencer":
        """Open the folder `raft/` on the disk and the port, if it has one; nothing is said on it before `start`.

        Raises SettingsError, DamagedDataError and DataFolderError, each with the next step in it.
        """
        runner = BlockingThread("raft-open")
        try:
            folder = await runner.run(partial(RaftFolder.open, disk, rng))
            try:
                listener = (
                    None if settings.is_alone else await runner.run(partial(listen, _bind_again(settings.bind, folder)))
                )
                return cls(settings, folder, listener, clock=clock, rng=rng)
            except BaseException:
                await runner.run(folder.close)
                raise
        finally:
            await runner.aclose()

    @property
    def address(self) -> str:
        """`host:port` at which the others reach this member."""
        return self._local_node.own.address

    # As a sequencer

    async def start(self, follower: Follower) -> None:
        self._follower = follower
        self._apply_queue = ApplyQueue(
            follower, self._runner, self._tasks, on_batch=self._was_applied, on_failed=self._fail
        )
        self._started = True
        self._thread.start()
        self._tasks.spawn(self._readers.run(), "barriers")
        try:
            await self._agree_within(self._settings.start_timeout_s)
        except MetadataError as error:
            is_alone = self._local_node.member is None and not self._local_node.full
            waited = self._local_node.waits if is_alone else ""
            await self.close()
            if self._failure is not None:
                raise MetadataError(str(self._failure)) from self._failure
            raise (
                MetadataError(f"this broker belongs to no cluster: it waited {waited}") if waited else error
            ) from None

    @property
    def leadership(self) -> int:
        return self._view.term if self._view.leader_id else 0

    async def submit(self, request: bytes, leadership: int | None = None) -> None:
        if not await self._submit_batch(request, leadership):
            raise NotOrderedError(self._local_node.full or NO_LEADER)

    def renew_by(self, renewal: Callable[[], bytes | None]) -> None:
        """Have what this answers put in the sequence, too; Raft's thread asks it with each tick."""
        self._thread.renewal = renewal

    def make_room_by(self, make_room: Callable[[], bool]) -> None:
        """Have this called in Raft's thread on a full disk; it answers whether there is room to go on."""
        self._local_node.make_room = make_room

    async def barrier(self) -> None:
        self._check()
        await self._readers.join()

    async def close(self) -> None:
        if self._is_closed:
            return
        self._is_closed = True
        self._calls.close()
        resolve(self._ended, None)
        if self._apply_queue is not None:
            self._apply_queue.close()
        if self._started:
            await self._stop_thread()
        else:
            await self._runner.run(self._local_node.close)
        await self._tasks.close()
        self._readers.fail(MetadataError(_CLOSED))
        await self._runner.aclose()

    # As the membership

    def status(self) -> MembershipStatus:
        return self._view

    async def leader_status(self) -> MembershipStatus:
        try:
            self._check()
            return await self._calls.leader_status()
        except (DanubeError, TimeoutError):
            return self._view

    async def add(self, address: str, node_id: int | None = None) -> MemberView:
        member: MemberView = await self._change("add", (address, node_id))
        return member

    async def promote(self, node_id: int) -> MemberView:
        member: MemberView = await self._change("promote", node_id)
        return member

    async def remove(self, node_id: int) -> None:
        await self._change("remove", node_id)

    async def transfer(self, node_id: int | None = None) -> int:
        leader_id: int = await self._change("transfer", node_id)
        return leader_id

    async def _change(self, what: str, argument: Any) -> Any:  # noqa: ANN401 - plain data
        self._check()
        return await self._calls.change(what, argument)

    # Submitting

    async def _submit_batch(self, request: bytes | None, leadership: int | None = None) -> int:
        """The number of the batch that it went with; 0 if it surely did not. Raises MetadataError."""
        self._check()
        handed_on: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._thread.submit(Submission(request, handed_on, leadership))
        await self._first_of(handed_on)
        self._check()
        return handed_on.result()

    async def _agree_within(self, seconds: float) -> None:
        """Have a batch agreed on and applied here: then everything before it is here, too. Raises MetadataError."""
        try:
            async with asyncio.timeout(seconds):
                await self._agree()
        except TimeoutError:
            raise MetadataError(
                f"nothing was agreed on within {seconds:g} s: {self._local_node.full or NO_LEADER}"
            ) from None

    async def _agree(self) -> None:
        while True:
            if await self._agree_once():
                return
            await asyncio.sleep(METADATA_RETRY_DELAY_S)

    async def _agree_once(self) -> bool:
        number = await self._submit_batch(None)
        if not number:
            return False
        applied = self._barriers.setdefault(number, asyncio.get_running_loop().create_future())
        try:
            await self._first_of(applied, METADATA_ATTEMPT_TIMEOUT_S)
            self._check()
            return applied.done()
        finally:
            self._barriers.pop(number, None)

    async def _first_of(self, awaited: "asyncio.Future[Any]", timeout_s: float | None = None) -> None:
        """Return when it is done, or when nothing will be done any more."""
        both: list[asyncio.Future[Any]] = [awaited, self._ended]
        await asyncio.wait(both, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)

    def _check(self) -> None:
        if self._failure is not None:
            raise MetadataError(f"this broker's metadata stopped: {self._failure}") from self._failure
        if self._is_closed:
            raise MetadataError(_CLOSED)

    # What the thread reports

    def _on_report(self, report: Report) -> None:
        if report.view is not None:
            self._show(report.view)
        for batch, number in report.handed:
            for submission in batch:
                if number and submission.request is None:  # there is one at a time
                    self._barriers = {number: asyncio.get_running_loop().create_future()}
                resolve(submission.handed_on, number)
        if self._apply_queue is not None:
            self._apply_queue.enqueue(report.found)

    def _show(self, view: MembershipStatus) -> None:
        if view.leader_id != self._view.leader_id:
            leads = f"member {view.leader_id} leads" if view.leader_id else "nobody leads"
            level = logging.DEBUG if self._settings.is_alone else logging.INFO
            _log.log(level, "%s the metadata cluster (term %d)", leads, view.term)
        is_new = (view.term, view.leader_id) != (self._view.term, self._view.leader_id)
        self._view = view
        if is_new and self._follower is not None:
            self._follower.led_anew()

    def _was_applied(self, origin: int, number: int) -> None:
        if origin == self._origin:
            resolve(self._barriers.get(number), None)

    def _became_member(self, member: Member) -> None:
        """In Raft's thread, before anything is found."""
        member.on_own = self._calls.receive
        if self._apply_queue is not None:
            self._apply_queue.source = member

    def _fail(self, error: BaseException) -> None:
        if self._failure is not None or self._is_closed:
            return
        self._failure = error
        self._calls.close()
        self._ended.set_result(None)
        traceback = None if isinstance(error, DanubeError | OSError) else error  # those are sentences for the operator
        _log.error("this broker takes part in the metadata cluster no more: %s", error, exc_info=traceback)
        if self._follower is not None:
            self._follower.failed(error if isinstance(error, Exception) else MetadataError(repr(error)))
        self._view = MembershipStatus(
            kind="raft", node_id=self._view.node_id, address=self._view.address, has_quorum=False
        )
        self._tasks.spawn(self._stop_thread(), "stop")

    async def _stop_thread(self) -> None:
        try:
            await self._thread.stop()
        except Exception as error:
            if self._failure is None:
                _log.exception("Raft's thread ended with an error while this broker goes down", exc_info=error)


def _bind_again(bind: str, folder: RaftFolder) -> str:
    """Address to bind: for port 0 the port of the last time, if others know this member by it."""
    snapshot, (host, port) = folder.snapshot, split(bind)
    if port or snapshot is None:
        return bind
    known = (RaftNode(member) for member in members_after(snapshot.members, folder.log[:]))
    own = (member for member in known if member.node_id == folder.node_id and member.address != ALONE)
    return next((join_address(host, member.port) for member in own), bind)
