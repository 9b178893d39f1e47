"""Stores under real faults, judged; and broken stores, which the judges must refuse."""

import asyncio
import json
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, ClassVar

import pytest

from danube.metadata.store import Entry, MetadataStore
from danube.model.errors import UnavailableError
from danube.rpc.address import join_address, split_address
from danube.testing.patience import PATIENCE_S
from danube.testing.processes.etcd import find_etcd
from danube.testing.processes.zookeeper import find_zookeeper
from lab.metadata.clusters import CLUSTERS
from lab.metadata.links import Links, dialer_among
from lab.metadata.round import Environment, Measure, Round, StoreResult
from tests.unit.lab.memory_cluster import MemoryCluster, Wrap

BRIEF = Measure(faults=1, clients=4, calm_s=0.2)
ROUNDS = 3
LEAST = 10
"""Of what a round does; on a slow machine it is little."""
ROUNDS_MAX = 8
"""Until a planted bug is found."""
ROUNDS_ASKED = 99
"""Of one that is interrupted in the first."""
WAIT_S = PATIENCE_S


class Broken:
    """A store with one promise taken out; the rest is the store's own."""

    def __init__(self, store: MetadataStore) -> None:
        self._store = store

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


class StaleReads(Broken):
    """Serves what it read some time ago as a linearizable read, at times."""

    def __init__(self, store: MetadataStore) -> None:
        super().__init__(store)
        self._rng = random.Random(1)
        self._old: dict[str, Entry | None] = {}

    async def get(self, key: str, *, linearizable: bool = False) -> Entry | None:
        if linearizable and key in self._old and self._rng.random() < 0.1:
            return self._old.pop(key)
        found = await self._store.get(key, linearizable=linearizable)
        if linearizable:
            self._old.setdefault(key, found)
        return found


class EarlyAnswers(Broken):
    """Acknowledges when it has submitted, with the revision that the change will likely have."""

    late: ClassVar[set[asyncio.Task[int]]] = set()

    async def put(self, key: str, value: bytes, *, lease_id: int = 0) -> int:
        latest = await self._store.put("/elsewhere", b"")
        self._later(self._store.put(key, value, lease_id=lease_id))
        return latest + 1

    def _later(self, change: Any) -> None:
        async def apply() -> int:
            for _ in range(20):
                await asyncio.sleep(0)
            return int(await change)

        self.late.add(asyncio.get_running_loop().create_task(apply()))


class TwiceApplied(Broken):
    """Submits a change again without an id, as if its answer had been lost."""

    async def put(self, key: str, value: bytes, *, lease_id: int = 0) -> int:
        await self._store.put(key, value, lease_id=lease_id)
        return await self._store.put(key, value, lease_id=lease_id)


class LostComparisons(Broken):
    """Does not look at the revision."""

    async def compare_and_set(self, key: str, value: bytes, *, revision: int, lease_id: int = 0) -> int:
        return await self._store.put(key, value, lease_id=lease_id)


class EndedLeases(Broken):
    """Ends leases early."""

    async def renew_lease(self, lease_id: int) -> None:
        await self._store.revoke_lease(lease_id)


class SkippedEvents(Broken):
    """Leaves out one event of a watch in ten."""

    def watch(self, prefix: str) -> Any:
        return _Skipping(self._store.watch(prefix))


class _Skipping:
    def __init__(self, watch: Any) -> None:
        self._watch = watch

    async def __aiter__(self) -> Any:
        number = 0
        async for event in self._watch:
            number += 1
            if number % 10:
                yield event

    async def close(self) -> None:
        await self._watch.close()


class DeafWatches(Broken):
    """A watch says nothing any more after a while."""

    def watch(self, prefix: str) -> Any:
        return _Deaf(self._store.watch(prefix))


class _Deaf:
    def __init__(self, watch: Any) -> None:
        self._watch = watch

    async def __aiter__(self) -> Any:
        events = aiter(self._watch)
        for _ in range(20):
            yield await anext(events)
        await asyncio.Event().wait()

    async def close(self) -> None:
        await self._watch.close()


async def rounds_on_memory(
    wrap: Wrap | None, *, most: int, until: Callable[[Sequence[StoreResult]], bool] = lambda _: False
) -> list[StoreResult]:
    """Rounds until this holds of them, or so many."""
    cluster = MemoryCluster(wrap=wrap)
    environment = Environment(store="memory", cluster=cluster, measure=BRIEF)
    await cluster.start()
    try:
        for seed in range(most):
            await Round(environment, seed).run()
            if until(environment.rounds):
                break
    finally:
        await cluster.close()
    return environment.rounds


# What judges


@pytest.mark.slow
@pytest.mark.timeout(180)
async def test_a_store_that_keeps_its_promises_is_not_refused() -> None:
    results = await rounds_on_memory(None, most=2)
    assert [result.what for result in results] == [(), ()]
    assert all(not result.undecided and min(result.changes, result.watch_events) > LEAST for result in results)


@pytest.mark.nightly
@pytest.mark.timeout(240)
@pytest.mark.parametrize(
    ("wrap", "promises"),
    [
        (StaleReads, ["linearizable"]),
        (EarlyAnswers, ["linearizable"]),
        (TwiceApplied, ["agreement"]),
        (LostComparisons, ["linearizable", "counter"]),
        (EndedLeases, ["leases"]),
        (SkippedEvents, ["watches"]),
        (DeafWatches, ["watches"]),
    ],
    ids=lambda value: value.__name__ if isinstance(value, type) else "-".join(value),
)
async def test_a_planted_bug_is_found_within_some_rounds(wrap: Wrap, promises: list[str]) -> None:
    """In the first one, unless the machine has time for few calls only."""

    def all_are_found(rounds: Sequence[StoreResult]) -> bool:
        return all(any(one.violations[promise] > 0 for one in rounds) for promise in promises)

    results = await rounds_on_memory(wrap, most=ROUNDS_MAX, until=all_are_found)
    await asyncio.gather(*EarlyAnswers.late, return_exceptions=True)
    EarlyAnswers.late.clear()
    assert all_are_found(results), [one.what for one in results]


# Real processes


def command(folder: Path, store: str, rounds: int) -> list[str]:
    named = ["--store", store, "--rounds", str(rounds), "--folder", str(folder)]
    return [sys.executable, "-m", "lab.metadata.soak", *named]


def ledger(folder: Path, store: str) -> list[dict[str, Any]]:
    lines = (folder / store / "ledger.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


def run(folder: Path, store: str, rounds: int) -> list[dict[str, Any]]:
    ended = subprocess.run(
        command(folder, store, rounds), capture_output=True, text=True, check=False, timeout=rounds * 90
    )
    too_tangled = "undecided:" in ended.stdout  # where a busy machine left many outcomes unknown
    assert ended.returncode == int(too_tangled), f"{ended.stdout}\n{ended.stderr[-4_000:]}"
    assert "Every promise was kept" in ended.stdout
    return ledger(folder, store)


@pytest.mark.cluster
@pytest.mark.slow
@pytest.mark.timeout(ROUNDS * 90)
@pytest.mark.parametrize(
    "store", [pytest.param(each, marks=[] if each == "raft" else pytest.mark.nightly) for each in sorted(CLUSTERS)]
)
def test_rounds_of_faults_leave_histories_that_one_order_explains(store: str, tmp_path: Path) -> None:
    skip_without(store)
    found = run(tmp_path, store, ROUNDS)
    assert [line["seed"] for line in found] == list(range(1, ROUNDS + 1))
    assert all(min(line["changes"], line["watch_events"]) > LEAST and line["left"] for line in found)


@pytest.mark.nightly
@pytest.mark.cluster
@pytest.mark.timeout(ROUNDS_MAX * 90)
@pytest.mark.parametrize("bug", ["stale", "early"])
def test_a_bug_planted_in_a_member_of_a_raft_group_is_found_within_some_rounds(bug: str, tmp_path: Path) -> None:
    """Linearizable reads from the member's own copy; changes acknowledged before a majority has them."""
    for rounds in range(1, ROUNDS_MAX + 1):  # it goes on where it stopped
        ended = run_planted(tmp_path, bug, rounds)
        assert ended.returncode in {0, 1}, ended.stderr[-4_000:]
        if any(line["violations"]["linearizable"] for line in ledger(tmp_path, "raft")):
            break
    else:
        pytest.fail(f"not found: {ended.stdout}")
    assert ended.returncode == 1
    assert "A PROMISE WAS BROKEN" in ended.stdout


def run_planted(folder: Path, bug: str, rounds: int) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [*command(folder, "raft", rounds), "--program", "tests.cluster.planted_member"],
        env={**os.environ, "DANUBE_PLANTED": bug},
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=False,
        timeout=90 * rounds,
    )


def skip_without(store: str) -> None:
    """Skip where the service cannot be had; in CI that is a failure."""
    finders: dict[str, Callable[[], object]] = {"etcd": find_etcd, "zookeeper": find_zookeeper}
    try:
        finders.get(store, lambda: None)()
    except UnavailableError as error:
        if os.environ.get("CI"):
            raise
        pytest.skip(str(error))


@pytest.mark.nightly
@pytest.mark.cluster
@pytest.mark.timeout(300)
def test_a_soak_that_was_killed_goes_on_on_what_its_last_round_left(tmp_path: Path) -> None:
    first = run(tmp_path, "alone", 1)
    process = subprocess.Popen(command(tmp_path, "alone", 2), stderr=subprocess.PIPE, text=True)
    wait_for_keys(tmp_path / "alone" / "member-0.log", process)
    process.kill()
    process.communicate()
    found = run(tmp_path, "alone", 2)
    assert found[:1] == first
    assert found[1]["violations"]["durable"] == 0
    assert len(found) == 2


def wait_for_keys(log: Path, process: "subprocess.Popen[str]") -> None:
    deadline_s = time.monotonic() + WAIT_S
    journal = log.with_name("member-0") / "raft" / "log-0000000001"
    while not journal.exists() or journal.stat().st_size < 100_000:
        assert process.poll() is None
        assert time.monotonic() < deadline_s, "nothing was written"
        threading.Event().wait(0.05)


@pytest.mark.nightly
@pytest.mark.cluster
@pytest.mark.timeout(180)
def test_an_interrupt_ends_the_round_early_and_judges_it(tmp_path: Path) -> None:
    process = subprocess.Popen(
        command(tmp_path, "alone", ROUNDS_ASKED), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    wait_for_keys(tmp_path / "alone" / "member-0.log", process)
    process.send_signal(signal.SIGINT)
    out, errors = process.communicate(timeout=WAIT_S)
    assert process.returncode == 130, errors
    assert "Every promise was kept" in out
    assert 0 < len(ledger(tmp_path, "alone")) < ROUNDS_ASKED


@pytest.mark.nightly
@pytest.mark.cluster
@pytest.mark.timeout(180)
async def test_links_hold_back_what_is_cut_and_let_it_pass_when_they_are_well_again() -> None:
    got = asyncio.Queue[bytes]()

    class Sink(asyncio.Protocol):
        def data_received(self, data: bytes) -> None:
            got.put_nowait(data)

    server = await asyncio.get_running_loop().create_server(Sink, "127.0.0.1", 0)
    links = Links()
    address = await links.to(9, lambda: join_address(*server.sockets[0].getsockname()[:2]), lambda _: 1)
    _, writer = await asyncio.open_connection(*split_address(address))
    try:
        writer.write(b"before")
        async with asyncio.timeout(WAIT_S):
            assert await got.get() == b"before"
        links.cut(9, 1)
        writer.write(b"held")
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.2):
                await got.get()
        links.heal()
        async with asyncio.timeout(WAIT_S):
            assert await got.get() == b"held"
    finally:
        writer.close()
        await links.close()
        server.close()


@pytest.mark.cluster
def test_the_kernel_tells_which_process_dials() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as dialing:
        dialer = dialer_among(lambda: {3: 1, 7: os.getpid()})
        assert dialer(dialing.getsockname()[1]) == 7
        assert dialer(1) is None
