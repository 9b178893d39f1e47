"""A group of one without a port: it rests while nothing is to be done, and others can join it once it has a port."""

import asyncio
import threading
from pathlib import Path

import pytest

from danube.metadata.raft.core.overrides import core
from danube.metadata.raft.core.poller import Poller
from danube.metadata.raft.folder.folder import RaftFolder
from danube.metadata.raft.sequencer import RaftSequencer
from danube.metadata.raft.settings import RaftSettings
from danube.metadata.raft.values.entries import MEMBERSHIP
from danube.metadata.raft.values.node import ALONE, RaftNode
from danube.metadata.replication.replicated import ReplicatedStore
from danube.metadata.store import Removed
from danube.model.errors import UnavailableError
from danube.runtime.clock import Clock, SystemClock
from danube.runtime.disk import LocalDisk
from danube.runtime.rng import SystemRng
from danube.testing.patience import PATIENCE_S
from danube.testing.simulated.clock import SimClock
from tests.unit.metadata.raft.local import QUICK, SECRET, GroupStore


async def _open(folder: Path, clock: Clock | None = None, **settings: object) -> GroupStore:
    told = RaftSettings(**{"timing": QUICK, "start_timeout_s": PATIENCE_S} | settings)  # type: ignore[arg-type]  # as named
    sequencer = await RaftSequencer.open(told, LocalDisk(folder), SystemClock(), SystemRng())
    return GroupStore(sequencer, clock or SimClock())


async def _alone(folder: Path, clock: Clock | None = None) -> GroupStore:
    store = await _open(folder, clock, is_alone=True)
    await store.start()
    return store


async def _value(store: ReplicatedStore) -> bytes:
    entry = await store.get("/a", linearizable=True)
    assert entry is not None
    return entry.value


async def test_a_group_of_one_rests_until_a_lease_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    resting, waits, poll = threading.Event(), [], Poller.poll

    def counted(poller: Poller, timeout: float | None) -> None:
        waits.append(timeout)
        if timeout is None:
            resting.set()
        poll(poller, timeout)

    monkeypatch.setattr(Poller, "poll", counted)
    clock = SimClock()
    store = await _alone(tmp_path, clock)
    lease_id = await store.grant_lease(5.0)
    await store.put("/a", b"1", lease_id=lease_id)
    resting.clear()
    assert await asyncio.to_thread(resting.wait, PATIENCE_S)
    assert store.sequencer.status().position == store.position  # though no tick will tell of it
    ticks = len(waits)
    watch = store.watch("/")
    await asyncio.sleep(5 * QUICK.tick_s)
    assert len(waits) == ticks
    clock.advance(5.0)
    async with asyncio.timeout(PATIENCE_S):
        async for event in watch:
            if isinstance(event, Removed):
                break
    await watch.close()
    await store.close()


async def test_a_group_of_one_can_be_joined_once_it_has_a_port(tmp_path: Path) -> None:
    store = await _alone(tmp_path / "first")
    await store.put("/a", b"before")
    assert store.sequencer.address == ALONE
    with pytest.raises(UnavailableError, match=r"stands alone.*--mode cluster"):
        await store.sequencer.add("127.0.0.1:7650")
    await store.close()
    first = await _open(tmp_path / "first")
    await first.start()
    address = first.sequencer.address
    assert await _value(first) == b"before"
    second = await _open(tmp_path / "second", join=True)
    starting = asyncio.ensure_future(second.start())
    added = await first.sequencer.add(second.sequencer.address)
    await starting
    await first.sequencer.promote(added.node_id)
    assert {each.address for each in first.sequencer.status().members} == {address, second.sequencer.address}
    assert await _value(second) == b"before"
    await second.put("/a", b"by the second")
    assert await _value(first) == b"by the second"
    for each in (first, second):
        await each.close()


def _enter_half(path: Path) -> None:
    folder = RaftFolder.open(LocalDisk(path))
    own = RaftNode.of(folder.node_id, "127.0.0.1:7650")
    entry = MEMBERSHIP + core.pickle.dumps(["add", own.id, own])
    folder.log.add(entry, folder.log.last_index + 1, folder.log.getCurrentTerm())
    folder.close()


async def test_a_first_address_that_was_half_entered_is_entered_whole(tmp_path: Path) -> None:
    store = await _alone(tmp_path)
    await store.put("/a", b"before")
    await store.close()
    await asyncio.to_thread(_enter_half, tmp_path)
    store = await _open(tmp_path, advertised="127.0.0.1:7650", secret=SECRET)
    await store.start()
    assert await _value(store) == b"before"
    assert [each.address for each in store.sequencer.status().members] == ["127.0.0.1:7650"]
    await store.close()
