"""Members with threads, ports and folders of their own, as a broker has one."""

import asyncio
import errno
import threading
import time
from pathlib import Path

import pytest

from danube.metadata.raft import local_node
from danube.metadata.raft.sequencer import RaftSequencer
from danube.metadata.raft.settings import RaftSettings, RaftTiming
from danube.metadata.replication.replicated import ReplicatedStore
from danube.metadata.replication.sequencer import NotOrderedError
from danube.model.errors import (
    InvalidRequestError,
    MetadataError,
    NotFoundError,
    PreconditionFailedError,
    SettingsError,
    UnavailableError,
)
from danube.runtime.clock import SystemClock
from danube.runtime.disk import LocalDisk
from danube.runtime.rng import SystemRng
from danube.runtime.tasks import TaskScope
from danube.testing.patience import PATIENCE_S
from danube.testing.processes.free_ports import passing_ports
from danube.testing.simulated.clock import SimClock
from danube.testing.simulated.disk import Operation, SimDisk
from tests.unit.metadata.raft.local import QUICK, GroupStore, open_group

TRIES = 3
"""A machine that stands still for long enough elects, whatever the event loop does."""


async def _open(disk: LocalDisk | SimDisk, **settings: object) -> RaftSequencer:
    told = RaftSettings(**{"timing": QUICK, "start_timeout_s": PATIENCE_S} | settings)  # type: ignore[arg-type]  # as named
    return await RaftSequencer.open(told, disk, SystemClock(), SystemRng())


async def test_a_broker_without_seeds_founds_its_cluster_and_is_back_after_a_restart(tmp_path: Path) -> None:
    addresses = []
    for value in (b"1", b"2"):
        sequencer = await _open(LocalDisk(tmp_path))
        store = ReplicatedStore(sequencer, SystemClock(), SystemRng())
        await store.start()
        entry = await store.get("/a")
        assert (entry.value if entry else b"1") == b"1"
        await store.put("/a", value)
        addresses.append(sequencer.address)
        await store.close()
    assert addresses[0] == addresses[1]  # port 0 takes the same one again: the others know it


async def test_brokers_with_different_seeds_found_no_cluster_and_each_warns_with_both_lists(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local_node, "RAFT_WAITING_LINE_S", 0.0)
    a, b, c = (f"127.0.0.1:{port}" for port in passing_ports(3))
    tasks = TaskScope("starting")
    sequencers = [
        await _open(LocalDisk(tmp_path / name), bind=bind, seeds=seeds)
        for name, bind, seeds in (("a", a, (a, b)), ("b", b, (a, b, c)))
    ]
    for sequencer in sequencers:
        tasks.spawn(ReplicatedStore(sequencer, SystemClock(), SystemRng()).start(), "start")
    wanted = {f"this one has {', '.join(sorted(own))}, and {other} has" for own, other in (((a, b), b), ((a, b, c), a))}
    async with asyncio.timeout(PATIENCE_S):
        while not all(each in caplog.text for each in wanted):  # noqa: ASYNC110 - what it waits for has no event
            await asyncio.sleep(0.01)
    assert {record.levelname for record in caplog.records if "the same seeds" in record.message} == {"WARNING"}
    assert [sequencer.status().has_quorum for sequencer in sequencers] == [False, False]
    await tasks.close()
    for sequencer in sequencers:
        await sequencer.close()


async def test_what_is_submitted_together_goes_as_one_batch(alone: GroupStore) -> None:
    before = alone.position
    await asyncio.gather(*(alone.put(f"/{number}", b"x") for number in range(200)))
    assert alone.position - before < 100


async def test_readers_share_a_round_of_agreement(alone: GroupStore) -> None:
    before = alone.position
    await asyncio.gather(*(alone.get("/a", linearizable=True) for _ in range(100)))
    assert alone.position - before <= 2  # one for the first, one for all that came meanwhile


async def test_a_reader_that_is_cancelled_disturbs_no_other(alone: GroupStore) -> None:
    readers = [asyncio.ensure_future(alone.get("/a", linearizable=True)) for _ in range(3)]
    await asyncio.sleep(0)
    readers[0].cancel()
    await asyncio.gather(*readers[1:])


async def test_who_waits_is_told_when_the_store_closes(three: GroupStore) -> None:
    for other in three.others:
        await other.close()
    reader = asyncio.ensure_future(three.sequencer.barrier())
    await asyncio.sleep(0)
    await three.close()
    with pytest.raises(MetadataError, match="closed"):
        await reader
    with pytest.raises(MetadataError, match="closed"):
        await three.sequencer.submit(b"late")


@pytest.mark.slow
async def test_a_busy_event_loop_elects_nobody(tmp_path: Path) -> None:
    """With the times of production: all three members share this interpreter, and its lock."""
    timing = RaftTiming()
    store = await open_group(tmp_path, SimClock(), 3, timing=timing)
    for _ in range(TRIES):
        await store.sequencer.barrier()
        before = store.sequencer.status()
        end_s = time.monotonic() + 1.5 * timing.election_max_s
        while time.monotonic() < end_s:
            pass
        await store.sequencer.barrier()
        await asyncio.sleep(3 * timing.heartbeat_s)
        after = store.sequencer.status()
        if after.term == before.term:
            break
    assert (after.term, after.leader_id) == (before.term, before.leader_id)
    await store.close()


async def test_without_a_majority_nothing_is_ordered(three: GroupStore) -> None:
    for other in three.others:
        await other.close()
    async with asyncio.timeout(PATIENCE_S):
        with pytest.raises(NotOrderedError, match="majority"):
            while True:  # until it notices
                await three.sequencer.submit(b"x")
                await asyncio.sleep(QUICK.heartbeat_s)


async def test_a_member_asks_the_leader_and_tells_what_it_said(three: GroupStore) -> None:
    status = three.sequencer.status()
    assert status.leader_id != status.node_id
    with pytest.raises(NotFoundError, match="cluster status"):
        await three.sequencer.promote(12345)
    with pytest.raises(PreconditionFailedError, match="transfer-leader"):
        await three.sequencer.remove(status.leader_id)
    with pytest.raises(InvalidRequestError, match="no address"):
        await three.sequencer.add("nowhere")
    async with asyncio.timeout(PATIENCE_S):
        while await led_by(three, status.node_id) != status.node_id:  # noqa: ASYNC110 - nobody may lead just now
            await asyncio.sleep(QUICK.tick_s)


async def led_by(store: GroupStore, node_id: int) -> int:
    """Have this member lead; answers who does, 0 for nobody."""
    try:
        return await store.sequencer.transfer(node_id)
    except UnavailableError:
        return 0


async def test_a_failed_disk_is_told_to_every_caller_and_to_nobody_twice(caplog: pytest.LogCaptureFixture) -> None:
    disk = SimDisk(1)
    sequencer = await _open(disk)
    store = ReplicatedStore(sequencer, SimClock(), SystemRng())
    await store.start()
    disk.fail(Operation.SYNC, times=1_000)
    with pytest.raises(MetadataError):
        await store.put("/a", b"x")
    with pytest.raises(MetadataError, match="metadata stopped"):
        await store.get("/a")
    with pytest.raises(MetadataError, match="Check the disk"):
        await sequencer.barrier()
    assert not sequencer.status().has_quorum
    await store.close()
    assert sum("takes part in the metadata cluster no more" in line for line in caplog.messages) == 1


async def test_a_member_takes_no_part_while_its_disk_is_full_and_goes_on_by_itself_with_all_it_had() -> None:
    disk, has_room = SimDisk(1), threading.Event()
    sequencer = await _open(disk)
    sequencer.make_room_by(has_room.is_set)
    store = ReplicatedStore(sequencer, SystemClock(), SystemRng())
    await store.start()
    await store.put("/a", b"before")
    disk.fail(Operation.APPEND, error=errno.ENOSPC, times=1_000)
    async with asyncio.timeout(PATIENCE_S):
        with pytest.raises(NotOrderedError, match="disk of its data folder is full"):
            while True:  # until it notices
                await sequencer.submit(b"")
                await asyncio.sleep(QUICK.tick_s)
        while sequencer.status().has_quorum:  # noqa: ASYNC110 - told by another thread
            await asyncio.sleep(QUICK.tick_s)
        disk.clear_faults()
        has_room.set()
        await sequencer.barrier()
        found = await store.get("/a")
        assert found is not None
        assert found.value == b"before"
        await store.put("/a", b"after")
    await store.close()
    again = ReplicatedStore(await _open(disk), SystemClock(), SystemRng())
    await again.start()
    kept = await again.get("/a")
    assert kept is not None
    assert kept.value == b"after"
    await again.close()


async def test_who_asks_about_members_is_told_when_the_member_ends(alone: GroupStore) -> None:
    def never(_answer: object) -> None:
        """Nobody answers."""

    thread = alone.sequencer._thread
    asking = asyncio.ensure_future(thread.ask(never))
    await asyncio.sleep(0)
    await alone.close()
    with pytest.raises(UnavailableError, match="no more"):
        await asking
    with pytest.raises(UnavailableError, match="no more"):
        await thread.ask(never)


async def test_a_broker_that_waits_in_vain_says_for_what(tmp_path: Path) -> None:
    sequencer = await _open(LocalDisk(tmp_path), join=True, start_timeout_s=0.3)
    store = ReplicatedStore(sequencer, SystemClock(), SystemRng())
    with pytest.raises(
        MetadataError, match="it waited to be added: run `danube-admin --endpoint http://HOST:50051 cluster add-node"
    ):
        await store.start()
    await store.close()


async def test_a_port_for_strangers_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingsError):
        await _open(LocalDisk(tmp_path), bind="0.0.0.0:0")


async def test_a_sequencer_that_was_never_started_closes(tmp_path: Path) -> None:
    sequencer = await _open(LocalDisk(tmp_path))
    await sequencer.close()
    await sequencer.close()


async def test_a_broker_that_moved_to_another_address_is_told_to_go_back(tmp_path: Path) -> None:
    store = ReplicatedStore(await _open(LocalDisk(tmp_path)), SystemClock(), SystemRng())
    await store.start()
    await store.close()
    moved = ReplicatedStore(await _open(LocalDisk(tmp_path), advertised="127.0.0.1:1"), SystemClock(), SystemRng())
    with pytest.raises(MetadataError, match="start it with the Raft address"):
        await moved.start()
    await moved.close()


def test_a_secret_is_not_shown() -> None:
    assert "hush" not in repr(RaftSettings(secret=b"hush hush hush hush"))
