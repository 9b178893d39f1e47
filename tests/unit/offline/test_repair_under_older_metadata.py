"""A repair under metadata that is older than the folder: what is whole on the disk is kept, and named again."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from danube.data_folder.after_repair import record_repair
from danube.offline.storage.repair.repair_plan import plan_repair
from danube.storage.segment.manifest import manifest_name
from danube.storage.segment.manifest_format import decode_manifest, encode_manifest
from tests.unit.offline.conftest import CLICKS, IDLE, ORDERS
from tests.unit.offline.folder_world import FolderWorld, Life, flip
from tests.unit.offline.test_repair import check, contents, lost_of, repair


async def begin(life: Life) -> None:
    await life.fill(ORDERS, 10)
    await life.fill(CLICKS, 1)
    await life.fill(IDLE, 1)
    await life.flush()


async def go_on(life: Life) -> None:
    for name in (CLICKS, IDLE):
        await life.topic(name)
    await life.fill(ORDERS, 10)
    await life.subscribe(ORDERS, "billing", 11, 12)
    await life.flush()
    await life.fill(ORDERS, 3)


@pytest.fixture
def older(empty: FolderWorld, tmp_path: Path) -> FolderWorld:
    """Its topic was cut once more since the metadata was copied; the manifest that this names is gone."""
    empty.live(begin)
    shutil.copytree(empty.path / "raft", tmp_path / "older")
    shutil.copytree(empty.path / "segments", tmp_path / "segments")
    empty.live(go_on)
    return empty


def bring_back(folder: FolderWorld) -> None:
    shutil.rmtree(folder.path / "raft")
    shutil.copytree(folder.path.parent / "older", folder.path / "raft")


def learn(folder: FolderWorld) -> dict[int, int]:
    """Have the next start name the manifests that the metadata does not; answers them, with nothing to repair."""
    newer = folder.metadata().newer
    assert folder.verify().is_sound
    assert plan_repair(folder.disk, folder.verify()).is_empty
    record_repair(folder.disk, newer)
    return newer


@pytest.mark.parametrize("is_kept", [True, False])
def test_the_newest_manifest_of_which_all_is_there_counts_whatever_the_metadata_names(
    older: FolderWorld, *, is_kept: bool
) -> None:
    before = contents(older)
    bring_back(older)
    if is_kept:
        shutil.copytree(older.path.parent / "segments", older.path / "segments", dirs_exist_ok=True)
    assert learn(older) == {1: 2}
    assert contents(older) == before


def test_damage_in_a_segment_that_only_the_newer_manifest_names_is_told(older: FolderWorld) -> None:
    before = contents(older)
    bring_back(older)
    newer = older.files("segments/*/00000000000000000010-0000000002.segment")[0]
    flip(newer, newer.read_bytes().index(b"DnBt", 600) + 20)
    assert [one for one in older.damaged(ORDERS) if one[0] is not None] == [(12, 13)]
    plan = repair(older)
    assert lost_of(plan, ORDERS) == {12}
    check(older, before, plan)


def test_where_the_newer_manifest_is_damaged_too_its_segments_count_all_the_same(older: FolderWorld) -> None:
    before = contents(older)
    bring_back(older)
    flip(older.files("segments/*/0000000002.manifest")[0], 40)
    plan = repair(older)
    assert lost_of(plan, ORDERS) == set()
    check(older, before, plan)


def test_what_a_newer_manifest_has_let_go_of_is_not_told_as_lost(empty: FolderWorld) -> None:
    """The broker died while it removed the files of the older one, which the metadata names again."""

    async def live(life: Life) -> None:
        await life.fill(ORDERS, 30)
        await life.flush()

    empty.live(live)
    older = decode_manifest((empty.path / manifest_name(1, 1)).read_bytes())
    assert older is not None
    newer = replace(older, version=2, start_offset=15, segments=older.segments[1:])
    (empty.path / manifest_name(1, 2)).write_bytes(encode_manifest(newer))
    empty.files("segments/1/00000000000000000000-*.segment")[0].unlink()
    assert learn(empty) == {1: 2}
    assert sorted(contents(empty)[ORDERS]) == list(range(15, 30))


@pytest.mark.parametrize("is_kept", [True, False])
def test_what_only_a_newer_manifest_has_counts_also_where_nothing_of_its_topic_is_in_the_journal(
    empty: FolderWorld, tmp_path: Path, *, is_kept: bool
) -> None:
    """The older metadata names no manifest yet, or one that is there: by what it says, the topic ends there."""

    async def end_in_segments(life: Life) -> None:
        await life.topic(CLICKS)
        await life.fill(IDLE, 1)
        await life.fill(ORDERS, 10)
        await life.subscribe(ORDERS, "billing", 11, 12)
        await life.flush()

    async def begin_in_segments(life: Life) -> None:
        for name in (ORDERS, CLICKS, IDLE):
            await life.fill(name, 3)
        if is_kept:
            await life.flush()

    async def start(life: Life) -> None:
        await life.fill("/default/another", 1)
        await life.topic(ORDERS)
        await life.flush()

    empty.live(begin_in_segments)
    shutil.copytree(empty.path / "raft", tmp_path / "older")
    if is_kept:
        shutil.copytree(empty.path / "segments", tmp_path / "segments")
    empty.live(end_in_segments)
    before = contents(empty)
    bring_back(empty)
    if is_kept:
        shutil.copytree(tmp_path / "segments", empty.path / "segments", dirs_exist_ok=True)
    empty.live(start)
    learn(empty)
    assert contents(empty) == before


def test_a_manifest_that_a_cut_left_unnamed_is_no_damage_as_the_journal_has_all_that_it_has(
    empty: FolderWorld, tmp_path: Path
) -> None:
    """The power went when everything was written, and before the metadata was told."""

    async def live(life: Life) -> None:
        for name in (ORDERS, CLICKS, IDLE):
            await life.fill(name, 5)

    empty.live(live)
    whole = tmp_path / "whole"
    shutil.copytree(empty.path, whole)

    async def flush(life: Life) -> None:
        for name in (ORDERS, CLICKS, IDLE):
            await life.topic(name)
        await life.flush()

    empty.live(flush)
    shutil.copytree(empty.path / "segments", whole / "segments")
    died = FolderWorld(whole)
    assert died.verify().is_sound
    assert repair(died).is_empty
