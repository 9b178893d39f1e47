"""Files and records of another version are refused by start, verify and repair, and nothing is overwritten."""

import json
from collections.abc import Callable
from fnmatch import fnmatch
from pathlib import Path

import pytest

from danube.broker.config.metadata_store import MetaStoreSettings
from danube.metadata.shared_log.backend import Snapshot
from danube.metadata.shared_log.entry_format import encode_entry, encode_snapshot, pack_requests
from danube.metadata.state import StateSnapshot
from danube.model.errors import DanubeError
from danube.model.exit_codes import ExitCode, exit_code_of
from danube.objects.bill import Bill, Cause
from danube.objects.retrying import RetryingStore
from danube.offline.cli_options import OutputFormat
from danube.offline.metadata.sources import Wanted
from danube.offline.storage import commands
from danube.offline.storage.bucket import verify_bucket
from danube.runtime.checksum import with_crc
from danube.runtime.disk import content_of
from danube.runtime.sealed import framed, unframed
from danube.storage.journal.folder import Fence
from danube.storage.object_store.object_tier import BlockCache, ObjectTier
from danube.storage.object_store.side_by_side import SideBySide
from danube.testing.simulated.disk import SimDisk
from lab.kernel.time import run_simulated
from lab.objects.world import ObjectsWorld
from lab.shared_log.backend import SimulatedLog
from tests.unit.metadata.shared_log.scripted import Member, put
from tests.unit.offline.folder_world import FolderWorld, Life, bytes_of, orders_world
from tests.unit.storage.store.storage_world import fill, flush_all


def _raised(content: bytes, start: int, end: int | None = None, by: int = 1) -> bytes:
    """The same content, with a higher version in the record between these bytes, and its checksum put right."""
    changed = bytearray(content)
    first, last = start % len(changed), len(changed) if end is None else end
    changed[first + 4] += by
    changed[first:last] = with_crc(bytes(changed[first : last - 4]))
    return bytes(changed)


def _next(start: int, end: int | None = None, by: int = 1) -> Callable[[Path], None]:
    """Raise the version of the record between these bytes of a file."""

    def change(path: Path) -> None:
        path.write_bytes(_raised(path.read_bytes(), start, end, by))

    return change


def _too_large(path: Path) -> None:
    """An index of another version that is larger than any that this one reads."""
    path.write_bytes(_raised(path.read_bytes() + bytes(1_000_000), 0))


def _identity(path: Path) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), "format": 2}), encoding="utf-8")


TOLD = r"was written by another version \(format {}; this one reads 1\): use that version"
ALL = ("start", "verify", "repair", "inspect")
KINDS: dict[str, tuple[str, Callable[[Path], None], tuple[str, ...]]] = {
    "identity": ("broker.json", _identity, ALL[:3]),
    "metadata": ("raft/log-*", _next(0, 52, by=4), ALL[:3]),
    "mark": ("journal/mark", _next(0), ALL),
    "index": ("journal/*.index", _next(0), ALL),
    "index that is too large": ("journal/*.index", _too_large, ALL),
    "journal file": ("journal/*.journal", _next(0, 52), ALL),
    "manifest": ("segments/*/*.manifest", _next(0, by=2), ALL[1:]),
    "segment header": ("segments/*/*.segment", _next(0, 36), ("verify", "repair")),
    "segment footer": ("segments/*/*.segment", _next(-88), ("verify", "repair")),
}
"""A topic whose own files are of another version is refused alone: the broker starts."""


def _carry_out(action: str, folder: FolderWorld, file: str) -> None:
    wanted = Wanted(folder.path, MetaStoreSettings.model_validate({}))
    if action == "verify":
        commands.verify_folder(wanted, output=OutputFormat.JSON)
    elif action == "repair":
        commands.repair(wanted, accept_loss=True, output=OutputFormat.JSON)
    elif action == "inspect":
        commands.inspect(wanted, topic=None, file=file, output=OutputFormat.JSON)
    else:

        async def nothing(_life: Life) -> None:
            return None

        folder.live(nothing)


@pytest.mark.parametrize(
    ("kind", "action"), [(kind, action) for kind, (_, _, actions) in KINDS.items() for action in actions]
)
def test_another_version_is_refused_by_name_with_exit_code_7_and_stays(tmp_path: Path, kind: str, action: str) -> None:
    folder = orders_world(tmp_path / "data")
    pattern, change, _ = KINDS[kind]
    file = folder.files(pattern)[0]
    change(file)
    before = bytes_of(folder.path)
    with pytest.raises(DanubeError) as refused:
        _carry_out(action, folder, file.name)
    assert exit_code_of(refused.value) is ExitCode.DATA_FOLDER
    assert "was written by another version" in str(refused.value)
    after = bytes_of(folder.path)
    changed = {name for name in before if after[name] != before[name]}
    assert {name for name in changed if kind == "metadata" or not name.startswith("raft/")} == set()


TOPIC = 1
BUCKET: dict[str, tuple[str, int | None, tuple[str, ...]]] = {
    "object of a journal": ("journals/*/log/*", 60, ("start", "takeover", "verify")),
    "manifest": ("segments/*.manifest", None, ("verify",)),
    "segment": ("segments/*.segment", 36, ("verify",)),
}


@pytest.mark.parametrize(
    ("kind", "action"), [(kind, action) for kind, (_, _, actions) in BUCKET.items() for action in actions]
)
async def test_an_object_of_another_version_is_refused_by_name_and_stays(kind: str, action: str) -> None:
    world, (pattern, end, _) = ObjectsWorld(), BUCKET[kind]
    await world.create(TOPIC)
    first, second = await world.start(1), await world.start(2)
    await first.acquire([TOPIC])
    await fill(first.topic(TOPIC), 100)
    await flush_all(first)
    await fill(first.topic(TOPIC), 10, first=100)
    world.kill(1)
    name = max(one.name for one in world.bucket.listing("") if fnmatch(one.name, pattern))
    changed = _raised(world.bucket.get(name), 0, end, by=2)
    world.bucket.put(name, [changed])
    store = RetryingStore(world.bucket, world.clock, world.rng, bill=Bill(0.0), cause=Cause.READ)
    with pytest.raises(DanubeError, match=rf"{name} {TOLD.format(3)}") as refused:
        if action == "start":
            await world.start(1)
        elif action == "takeover":
            await second.acquire([TOPIC])
        else:
            verify_bucket(store, ObjectTier(store, BlockCache(store, SideBySide(0))))
    assert exit_code_of(refused.value) is ExitCode.DATA_FOLDER
    assert world.bucket.get(name) == changed
    await world.end()


STATE = b"".join(encode_snapshot(3, 4, StateSnapshot(7), 1_000_000))
HEAD, STATE_AT = unframed(STATE)
STATE_HEAD, PARTS_AT = unframed(STATE, STATE_AT)


def of_version_2(sealed: bytes) -> bytes:
    return with_crc(sealed[:4] + b"\x02" + sealed[5:-4])


SHARED_LOG: dict[str, tuple[bytes, bool]] = {
    "an entry of the shared log": (of_version_2(encode_entry(3, 0, pack_requests([put(1)]))), False),
    "a snapshot in the shared log": (framed(of_version_2(HEAD)) + STATE[STATE_AT:], True),
    "a snapshot of the metadata": (STATE[:STATE_AT] + framed(of_version_2(STATE_HEAD)) + STATE[PARTS_AT:], True),
}


@pytest.mark.parametrize("kind", SHARED_LOG)
def test_a_shared_log_of_another_version_is_refused_by_name(kind: str) -> None:
    log, (content, is_snapshot) = SimulatedLog(), SHARED_LOG[kind]
    if is_snapshot:
        log.head, log.saved = 1, Snapshot(1, [content])
    else:
        log.add(1, content)

    async def start() -> None:
        async with Member(log):
            pass

    with pytest.raises(DanubeError, match=f"{kind} {TOLD.format(2)}") as refused:
        run_simulated(start())
    assert exit_code_of(refused.value) is ExitCode.DATA_FOLDER


def test_new_owners_in_a_fence_of_another_version_are_not_passed_over_and_the_fence_holds() -> None:
    disk = SimDisk()
    fence = Fence(disk, "journals/1")
    fence.prepare()
    fence.put_up(2)
    disk.replace_file("journals/1/fence", _raised(content_of(disk, "journals/1/fence"), 0))
    assert fence.is_up()
    with pytest.raises(DanubeError, match=f"journals/1/fence {TOLD.format(2)}"):
        fence.new_owners()
