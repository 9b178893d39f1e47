"""Members of one Raft group in one process: real ports on loopback, real threads and folders, short times."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

from danube.metadata.raft.bootstrap import begin
from danube.metadata.raft.folder.folder import RaftFolder
from danube.metadata.raft.sequencer import RaftSequencer
from danube.metadata.raft.settings import LogBounds, RaftSettings, RaftTiming
from danube.metadata.raft.values.node import RaftNode
from danube.metadata.replication.replicated import ReplicatedStore
from danube.model.limits.metadata import METADATA_WATCH_EVENTS_MAX
from danube.runtime.clock import Clock, SystemClock
from danube.runtime.disk import LocalDisk
from danube.runtime.rng import SystemRng
from danube.testing.patience import PATIENCE_S
from danube.testing.processes.free_ports import passing_ports

SECRET = b"members of one test know each other by this"
QUICK = RaftTiming(election_min_s=0.3, election_max_s=0.6, heartbeat_s=0.05, fallback_s=0.6, tick_s=0.01)


class GroupStore(ReplicatedStore):
    """The store of one member, that closes the others' with its own."""

    others: "Sequence[GroupStore]" = ()

    def __init__(
        self, sequencer: RaftSequencer, clock: Clock, *, watch_events_max: int = METADATA_WATCH_EVENTS_MAX
    ) -> None:
        super().__init__(sequencer, clock, SystemRng(), watch_events_max=watch_events_max)
        self.sequencer = sequencer

    async def close(self) -> None:
        """Close all of them."""
        for store in self.others:
            await store.close()
        await super().close()


async def open_group(
    folder: Path,
    clock: Clock,
    members: int,
    *,
    watch_events_max: int = METADATA_WATCH_EVENTS_MAX,
    timing: RaftTiming = QUICK,
) -> GroupStore:
    """The store of a member of a new group of so many. Each times leases by `clock`, and all else by the machine's."""
    folders = [folder / f"member-{number}" for number in range(members)]
    addresses = await asyncio.to_thread(_begin, folders)
    pairs = zip(folders, addresses, strict=True)
    sequencers = [await _open(each, address, timing) for each, address in pairs]
    stores = [GroupStore(each, clock, watch_events_max=watch_events_max) for each in sequencers]
    await asyncio.gather(*(store.start() for store in stores))
    await asyncio.gather(*(_shows_leader(each, timing) for each in sequencers))
    led_by = sequencers[0].status().leader_id
    followers = [store for store, each in zip(stores, sequencers, strict=True) if each.status().node_id != led_by]
    chosen = followers[0] if followers else stores[0]
    chosen.others = [store for store in stores if store is not chosen]
    return chosen


async def _open(folder: Path, address: str, timing: RaftTiming) -> RaftSequencer:
    settings = RaftSettings(bind=address, secret=SECRET, timing=timing, log=LogBounds(entries_max=50))
    return await RaftSequencer.open(settings, LocalDisk(folder), SystemClock(), SystemRng())


async def _shows_leader(sequencer: RaftSequencer, timing: RaftTiming) -> None:
    """Wait until its status, which is told of now and then, says who leads. Raises TimeoutError."""
    async with asyncio.timeout(PATIENCE_S):
        while not sequencer.status().leader_id:  # noqa: ASYNC110 - a status tells nobody that it has changed
            await asyncio.sleep(timing.tick_s)


def _begin(folders: Sequence[Path]) -> Sequence[str]:
    """Have the folders be those of members that know each other; answers where each is to listen."""
    addresses = [f"127.0.0.1:{port}" for port in passing_ports(len(folders))]
    opened = []
    for folder in folders:
        folder.mkdir()
        opened.append(RaftFolder.open(LocalDisk(folder)))
    names = [str(RaftNode.of(each.node_id, address).id) for each, address in zip(opened, addresses, strict=True)]
    for each in opened:
        begin(each, "local", names)
        each.close()
    return addresses
