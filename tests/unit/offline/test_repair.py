"""After a repair a broker opens the folder; what was sound is there, at its own offset; the report is exact."""

import json
import random
import shutil
from functools import partial
from pathlib import Path

import pytest

from danube.data_folder.after_repair import record_repair
from danube.data_folder.data_folder import forget_journal
from danube.model.errors import DamagedDataError
from danube.offline.storage.repair.quarantine_folder import QuarantineFolder
from danube.offline.storage.repair.repair import carry_out
from danube.offline.storage.repair.repair_plan import RepairPlan, plan_repair
from danube.offline.storage.scan.journal_contents import JournalTopic
from danube.storage.batches.batch import encode_messages
from danube.storage.batches.envelope import Envelope, decode, encode_data
from danube.storage.flush.segment_flusher import SegmentFlusher
from tests.unit.offline.conftest import CLICKS, IDLE, ORDERS
from tests.unit.offline.folder_world import FolderWorld, Life, bytes_of, flip
from tests.unit.storage.journal_world import Told

TOPICS = (ORDERS, CLICKS, IDLE)
Content = dict[str, dict[int, bytes | None]]


def contents(folder: FolderWorld) -> Content:
    """All that can be read of all topics."""

    async def live(life: Life) -> Content:
        return {name: await life.content(name) for name in TOPICS}

    return folder.live(live)


def record(folder: FolderWorld, plan: RepairPlan) -> None:
    """As the command does before it makes anything: the broker reads it when it starts."""
    made = {one.topic_id: one.manifest_version for one in plan.topics}
    record_repair(folder.disk, {**folder.metadata().newer, **made})


def repair(folder: FolderWorld) -> RepairPlan:
    found = folder.verify()
    plan = plan_repair(folder.disk, found)
    if not plan.is_empty:
        record(folder, plan)
        forget = partial(forget_journal, folder.disk, folder.path)
        carry_out(folder.disk, found, plan, QuarantineFolder(folder.path, 1_000), forget_journal=forget)
    return plan


def lost_of(plan: RepairPlan, name: str) -> set[int]:
    gone = [topic.repaired for topic in plan.topics if topic.name == name]
    return {offset for repaired in gone for part in (*repaired.lost, *repaired.left_out) for offset in part}


def passed_over(plan: RepairPlan, name: str) -> set[int]:
    return {offset for topic in plan.topics if topic.name == name for offset in topic.repaired.skipped}


def check(folder: FolderWorld, before: Content, plan: RepairPlan) -> None:
    """The folder is sound, and all is there but what the plan calls lost."""
    assert folder.verify().is_sound
    after = contents(folder)
    for name in TOPICS:
        lost = lost_of(plan, name)
        readable = {offset: record for offset, record in after[name].items() if record is not None}
        assert readable == {offset: record for offset, record in before[name].items() if offset not in lost}


def test_nothing_is_done_to_a_sound_folder(folder: FolderWorld) -> None:
    before = bytes_of(folder.path)
    assert repair(folder).is_empty
    assert bytes_of(folder.path) == before


def test_a_lost_message_in_the_journal_is_marked_and_all_others_are_kept(folder: FolderWorld) -> None:
    before = contents(folder)
    journal = next(path for path in folder.files("journal/*.journal") if b"DnBt" in path.read_bytes())
    flip(journal, journal.read_bytes().index(b"DnBt") + 20)
    plan = repair(folder)
    assert plan.journal
    assert lost_of(plan, ORDERS) == {30}
    check(folder, before, plan)
    assert contents(folder)[ORDERS][30] is None


def test_a_lost_message_in_a_segment_is_marked_and_the_journal_stays(folder: FolderWorld) -> None:
    before = contents(folder)
    segment = folder.files(f"segments/{folder.known().find(ORDERS)}/*.segment")[0]
    flip(segment, segment.read_bytes().index(b"DnBt", 600) + 20)
    plan = repair(folder)
    assert (plan.journal, len(lost_of(plan, ORDERS))) == (False, 1)
    check(folder, before, plan)


def test_a_sound_copy_that_the_journal_still_has_takes_the_place_of_a_damaged_one(
    empty: FolderWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The broker died after a cut, before it removed what was cut from the journal."""
    with monkeypatch.context() as killed:
        killed.setattr(SegmentFlusher, "_remove_files", died)
        empty.live(flush_orders)
    before = empty.live(partial(Life.content, name=ORDERS))
    segment = empty.files("segments/*/*.segment")[0]
    flip(segment, segment.read_bytes().index(b"DnBt", 600) + 20)
    plan = repair(empty)
    assert [(topic.name, topic.loses) for topic in plan.topics] == [(ORDERS, False)]
    assert not plan.journal
    assert empty.verify().is_sound
    assert empty.live(partial(Life.content, name=ORDERS)) == before


async def died(*_: object) -> None:
    """It does nothing any more."""


async def flush_orders(life: Life) -> None:
    await life.fill(ORDERS, 30)
    await life.storage.journal.rotate()
    for _ in life.storage.journal.closed_files():
        assert not (await life.storage.flush()).failed


def test_of_a_batch_in_the_journal_that_is_not_all_in_the_hole_nothing_is_taken() -> None:
    topic = JournalTopic()
    for base in (0, 4, 8):
        topic.add(*one_batch(base, 4, position=100 + base))
    assert [topic.within(hole) for hole in (range(12), range(1, 8), range(4, 11), range(5, 7), range(9))] == [
        range(3),
        range(1, 2),
        range(1, 2),
        range(2, 2),
        range(2),
    ]


def one_batch(base: int, count: int, position: int) -> tuple[Envelope, int, bytes]:
    body = encode_messages([b"x"] * count)
    envelope = decode(encode_data(1, 1, range(base, base + count), 1_000, body))
    assert envelope is not None
    return envelope, position, body


def test_without_a_manifest_the_log_begins_where_the_segments_names_say_and_what_is_not_sound_there_is_told(
    folder: FolderWorld,
) -> None:
    before = contents(folder)
    topic_id = folder.known().find(ORDERS)
    folder.files(f"segments/{topic_id}/*.manifest")[0].unlink()
    segment = folder.files(f"segments/{topic_id}/*.segment")[0]
    flip(segment, segment.read_bytes().index(b"DnBt") + 20)
    plan = repair(folder)
    assert lost_of(plan, ORDERS) == {0}
    check(folder, before, plan)


def test_messages_that_are_lost_before_all_sound_ones_move_the_start(folder: FolderWorld) -> None:
    segment = folder.files(f"segments/{folder.known().find(ORDERS)}/*.segment")[0]
    before = contents(folder)
    segment.unlink()
    plan = repair(folder)
    (topic,) = plan.topics
    assert topic.repaired.start_offset == topic.repaired.lost[0].stop
    check(folder, before, plan)


def test_a_missing_manifest_is_made_of_its_segments_and_the_journal_goes_on_behind_it(folder: FolderWorld) -> None:
    before = contents(folder)
    folder.files(f"segments/{folder.known().find(ORDERS)}/*.manifest")[0].unlink()
    plan = repair(folder)
    assert [topic.name for topic in plan.topics] == [ORDERS]
    assert lost_of(plan, ORDERS) == set()
    assert plan.topics[0].from_start == ("billing",)
    check(folder, before, plan)


def test_offsets_are_not_given_out_again_that_a_subscription_has_passed(empty: FolderWorld) -> None:
    async def live(life: Life) -> None:
        await life.fill(ORDERS, 3)
        await life.subscribe(ORDERS, "billing", 11, 3)
        await life.fill(CLICKS, 1)

    empty.live(live)
    journal = empty.files("journal/*.journal")[0]
    flip(journal, journal.read_bytes().rindex(b"DnEv", 0, journal.read_bytes().index(b"DnCu") - 60) + 30)
    plan = repair(empty)
    repaired = {topic.name: topic.repaired for topic in plan.topics}[ORDERS]
    assert (repaired.lost[-1].stop, repaired.skipped.start) == (3, 3)


def test_a_payload_that_poses_as_a_record_is_never_taken_for_one(empty: FolderWorld) -> None:
    """A message holds a sound envelope and body of another topic; the envelope before it is damaged."""
    forged = encode_messages([b"forged"])
    record = encode_data(2, 1, range(1), 2_000_000_000_000, forged) + forged

    async def live(life: Life) -> None:
        told = Told()
        (await life.topic(ORDERS)).append_batch(encode_messages([record * 3]), told)
        await told.offset()
        await life.topic(CLICKS)
        await life.fill(IDLE, 1)

    empty.live(live)
    journal = empty.files("journal/*.journal")[0]
    flip(journal, journal.read_bytes().index(b"DnEv") + 30)
    plan = repair(empty)
    assert plan.unknown_bytes > len(record) * 3
    after = contents(empty)
    assert (after[ORDERS], after[CLICKS], len(after[IDLE])) == ({}, {}, 1)


def test_what_a_subscription_had_not_read_is_told(folder: FolderWorld) -> None:
    journal = next(path for path in folder.files("journal/*.journal") if b"DnBt" in path.read_bytes())
    flip(journal, journal.read_bytes().index(b"DnBt") + 20)
    (orders,) = [topic for topic in repair(folder).topics if topic.name == ORDERS]
    assert orders.unread == {"billing": 1}


def test_all_that_is_taken_out_is_set_aside_with_a_report(folder: FolderWorld) -> None:
    segment = folder.files("segments/*/*.segment")[0]
    flip(segment, 100)
    content = segment.read_bytes()
    plan = repair(folder)
    (aside,) = folder.path.glob("lost-*")
    assert (aside / segment.relative_to(folder.path)).read_bytes() == content
    assert not segment.exists()
    report = json.loads((aside / "report.json").read_text())
    assert (report["done"], report["set_aside"]) == (True, list(plan.set_aside))
    assert "lost" in (aside / "report.txt").read_text()


def test_cursors_outlive_a_repair_of_the_journal(folder: FolderWorld) -> None:
    journal = folder.files("journal/*.journal")[-1]
    flip(journal, journal.read_bytes().index(b"DnBt") + 20)
    repair(folder)

    async def live(life: Life) -> tuple[object, object]:
        orders, clicks = await life.topic(ORDERS), await life.topic(CLICKS)
        return orders.cursor(11), clicks.cursor(12)

    billing, audit = folder.live(live)
    assert (getattr(billing, "position", None), getattr(audit, "position", None)) == (5, 4)


def test_a_topic_takes_messages_after_a_repair_where_it_ended(folder: FolderWorld) -> None:
    journal = folder.files("journal/*.journal")[-1]
    flip(journal, journal.read_bytes().index(b"DnBt") + 20)
    repair(folder)

    async def live(life: Life) -> dict[int, bytes | None]:
        await life.fill(ORDERS, 5)
        await life.flush()
        return await life.content(ORDERS)

    assert len(folder.live(live)) == 55


def test_without_metadata_nothing_is_repaired(folder: FolderWorld) -> None:
    flip(folder.files("**/*.segment")[0], 100)
    shutil.rmtree(folder.path / "raft")
    with pytest.raises(DamagedDataError, match="Restore it from a backup"):
        plan_repair(folder.disk, folder.verify())


@pytest.mark.parametrize("step", range(1, 12))
def test_a_repair_that_was_interrupted_is_done_again(folder: FolderWorld, step: int) -> None:
    before = contents(folder)
    segment, journal = folder.files("segments/*/*.segment")[0], folder.files("journal/*.journal")[-1]
    flip(segment, segment.read_bytes().index(b"DnBt") + 20)
    flip(journal, journal.read_bytes().index(b"DnBt") + 20)
    expected = plan_repair(folder.disk, folder.verify())
    with pytest.raises(InterruptedError):
        interrupted(folder, step)
    repair(folder)
    check(folder, before, expected)


def interrupted(folder: FolderWorld, step: int) -> None:
    """A repair whose process dies at one of the steps that change something."""
    found, left = folder.verify(), [step]

    def count() -> None:
        left[0] -= 1
        if not left[0]:
            raise InterruptedError("killed")

    class Counting(QuarantineFolder):
        def keep(self, name: str) -> None:
            count()
            super().keep(name)

        def drop(self, name: str) -> None:
            count()
            super().drop(name)

        def move(self, name: str) -> None:
            count()
            super().move(name)

    plan = plan_repair(folder.disk, found)
    record(folder, plan)
    carry_out(folder.disk, found, plan, Counting(folder.path, 1_000), progress=lambda _: count())
    raise InterruptedError("at the end")


def damage(path: Path, chance: random.Random) -> None:
    content = path.read_bytes()
    match chance.randrange(4):
        case 0:
            flip(path, chance.randrange(len(content)))
        case 1:
            path.write_bytes(content[: chance.randrange(len(content))])
        case 2:
            at, size = chance.randrange(len(content)), chance.randrange(1, 1_000)
            path.write_bytes(content[:at] + bytes(len(content[at : at + size])) + content[at + size :])
        case _:
            path.unlink()


def check_seed(folder: FolderWorld, before: Content, seed: int) -> None:
    """Damage one or two files; what is then sound, and nothing else, is there after a repair."""
    chance = random.Random(seed)
    files = [*folder.files("journal/*.journal"), *folder.files("segments/*/*"), *folder.files("journal/first")]
    for path in chance.sample(files, chance.randrange(1, 3)):
        damage(path, chance)
    was_sound = folder.verify().is_sound
    plan = repair(folder)
    assert plan.is_empty == was_sound
    assert folder.verify().is_sound
    after = contents(folder)
    for name in TOPICS:
        lost, skipped = lost_of(plan, name), passed_over(plan, name)
        for offset, record in after[name].items():
            assert (record is None and offset in lost | skipped) or record == before[name][offset]
        unsaid = set(before[name]) - lost - {offset for offset, record in after[name].items() if record is not None}
        assert unsaid <= skipped  # in bytes of which nobody can say what they were


@pytest.mark.parametrize("seed", range(8))
def test_any_damage_can_be_repaired(folder: FolderWorld, tmp_path: Path, seed: int) -> None:
    check_seed(folder, contents(folder), seed)


@pytest.mark.nightly
@pytest.mark.timeout(180)
@pytest.mark.parametrize("first", range(100, 220, 20))
def test_any_damage_can_be_repaired_many_times(folder: FolderWorld, tmp_path: Path, first: int) -> None:
    before = contents(folder)
    for seed in range(first, first + 20):
        copy = FolderWorld(tmp_path / f"copy{seed}")
        shutil.copytree(folder.path, copy.path)
        try:
            check_seed(copy, before, seed)
        except Exception as error:
            raise AssertionError(f"seed {seed}") from error
        shutil.rmtree(copy.path)


def test_a_topic_without_a_segment_left_goes_on_with_the_journal(tmp_path: Path) -> None:
    """Its manifest says a time, and the first of the journal's records may not be from before that."""
    folder = FolderWorld(tmp_path)

    async def live(life: Life) -> None:
        await life.fill(ORDERS, 10)
        await life.flush()
        for _ in range(3):
            await folder.clock.run_for(10.0)
            await life.fill(ORDERS, 2)

    folder.live(live)
    for path in folder.files("segments/*/*"):
        path.unlink()
    repair(folder)
    assert folder.verify().is_sound

    async def content(life: Life) -> dict[int, bytes | None]:
        return await life.content(ORDERS)

    assert [offset for offset, record in folder.live(content).items() if record is not None] == [*range(10, 16)]


def test_nobody_calls_a_topic_whole_whose_beginning_is_unknown(tmp_path: Path) -> None:
    folder = FolderWorld(tmp_path)

    async def live(life: Life) -> None:
        await life.fill(ORDERS, 10)
        await life.flush()
        await life.fill(ORDERS, 2)

    folder.live(live)
    for path in folder.files("segments/*/*"):
        path.unlink()
    (topic,) = repair(folder).topics
    assert (topic.unknown_before, topic.loses) == (10, True)
