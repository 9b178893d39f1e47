"""Journal files that are not there: verify says so, repair tells all that is lost, and no offset is given out twice."""

import shutil
from collections.abc import Callable
from itertools import chain
from pathlib import Path
from typing import Any

import pytest

from danube.data_folder.data_folder import forget_journal
from danube.model.errors import DamagedDataError
from danube.offline.storage.repair.quarantine_folder import COVERED, CoveredJournal, QuarantineFolder, covered_to
from danube.offline.storage.repair.repair import carry_out
from danube.offline.storage.repair.repair_plan import RepairPlan, TopicRepair, plan_repair
from danube.offline.storage.repair.repaired_log import RepairedLogWriter
from danube.offline.storage.report import finding_line, plan_lines, report_of
from danube.runtime.disk import LocalDisk
from danube.storage.journal.format import FIRST_NAME, MARK_NAME
from tests.unit.offline.conftest import CLICKS, IDLE, ORDERS, PASSED_OVER
from tests.unit.offline.folder_world import FolderWorld, Life
from tests.unit.offline.test_repair import Content, contents, lost_of, passed_over, record, repair

Harm = Callable[[list[Path]], None]
"""Given the journal's files, the last one last."""


def remove_last(files: list[Path]) -> None:
    files[-1].unlink()


def empty_last(files: list[Path]) -> None:
    files[-1].write_bytes(b"")


def flush_last(files: list[Path]) -> None:
    files[-1].write_bytes(files[-1].read_bytes()[:-100])


def remove_all_files(files: list[Path]) -> None:
    for file in files:
        file.unlink()


def empty_the_folder(files: list[Path]) -> None:
    for file in [*files[0].parent.iterdir()]:
        file.unlink()


def remove_the_folder(files: list[Path]) -> None:
    shutil.rmtree(files[0].parent)


ENDS = [remove_last, empty_last, flush_last, remove_all_files, empty_the_folder, remove_the_folder]


def journal_of(folder: FolderWorld) -> list[Path]:
    return folder.files("journal/*.journal")


def repaired(plan: RepairPlan) -> dict[str, TopicRepair]:
    return {topic.name: topic for topic in plan.topics}


async def store_one_each(life: Life) -> dict[str, int]:
    """The offsets that the next messages get."""
    ends = {}
    for name in (ORDERS, CLICKS, IDLE):
        ends[name] = (await life.topic(name)).durable_end
        await life.fill(name, 1)
    return ends


def told(plan: RepairPlan, before: Content) -> None:
    """Whatever is not there any more is lost by the plan, or among what it says that nobody can say."""
    for name in before:
        assert set(before[name]) <= kept_of(plan, name, before) | lost_of(plan, name) | passed_over(plan, name)


def kept_of(plan: RepairPlan, name: str, before: Content) -> set[int]:
    topic = repaired(plan).get(name)
    if topic is None:
        return set(before[name])
    return set(range(topic.repaired.start_offset, topic.end_offset)) - lost_of(plan, name) - passed_over(plan, name)


@pytest.mark.parametrize("harm", ENDS)
def test_a_missing_end_is_refused_found_and_repaired_without_giving_an_offset_out_twice(
    folder: FolderWorld, harm: Harm
) -> None:
    before = contents(folder)
    harm(journal_of(folder))
    with pytest.raises(DamagedDataError, match="journal/"):
        contents(folder)
    assert not folder.verify().is_sound
    assert not any("never synced" in one.what for one in folder.verify().findings)
    plan = repair(folder)
    assert plan.is_end_missing
    told(plan, before)
    assert folder.verify().is_sound
    after = contents(folder)
    assert all(
        record in {None, before[name][offset]}
        for name in after
        for offset, record in after[name].items()
        if offset in before[name]
    )
    for name, end in folder.live(store_one_each).items():
        assert end >= max(before[name]) + 1, name


def test_the_report_says_what_nobody_can_say(folder: FolderWorld) -> None:
    remove_last(journal_of(folder))
    plan = plan_repair(folder.disk, folder.verify())
    text = "\n".join(plan_lines(plan))
    assert "The end of the journal is missing, and nobody can say how much was behind" in text
    end = repaired(plan)[IDLE].repaired.skipped.start
    assert f"passed over: offsets {end} to {end + PASSED_OVER - 1}; nobody can say whether messages had them" in text
    facts = report_of(plan, None, is_done=False)
    assert (facts["end_missing"], repaired(plan)[IDLE].loses) == (True, True)


def test_a_missing_file_in_the_middle_is_told_by_its_own_index(folder: FolderWorld) -> None:
    before, journal = contents(folder), journal_of(folder)
    journal[1].unlink()
    plan = repair(folder)
    assert (plan.unknown_bytes, plan.is_end_missing) == (0, False)
    assert not any(topic.repaired.skipped for topic in plan.topics)
    lost = {name: lost_of(plan, name) for name in before}
    assert any(lost.values())
    after = contents(folder)
    for name in before:
        assert {offset: record for offset, record in after[name].items() if record is not None} == {
            offset: record for offset, record in before[name].items() if offset not in lost[name]
        }
    cursors = {name: topic.cursors for name, topic in repaired(plan).items()}
    assert all(cursor.position for cursor in chain.from_iterable(one.values() for one in cursors.values()))


def test_positions_that_stood_in_a_missing_file_are_kept_by_its_index(empty: FolderWorld) -> None:
    async def live(life: Life) -> None:
        await life.fill(CLICKS, 4)
        await life.subscribe(CLICKS, "audit", 12, 4)
        await life.fill(ORDERS, 40)

    empty.live(live)
    journal_of(empty)[0].unlink()
    plan = repair(empty)
    assert repaired(plan)[CLICKS].from_start == ()
    assert repaired(plan)[CLICKS].cursors[12].position == 4


@pytest.mark.parametrize(
    ("harm", "named"),
    [
        (remove_the_folder, "journal/: the folder is missing"),
        (empty_the_folder, "journal/: none of the journal's files is in this folder"),
        (lambda files: (files[0].parent / FIRST_NAME).unlink(), "journal/first: the file is missing"),
        (lambda files: files[0].unlink(), "journal/0000000004.journal: the file is missing"),
    ],
)
def test_what_is_named_is_never_a_file_that_was_flushed_and_removed_long_ago(
    folder: FolderWorld, harm: Harm, named: str
) -> None:
    assert journal_of(folder)[0].name == "0000000004.journal"
    harm(journal_of(folder))
    file, _, what = named.partition(": ")
    with pytest.raises(DamagedDataError, match=f"^{file} is damaged.*{what}"):
        contents(folder)
    found = [one for one in folder.verify().findings if one.is_damage]
    assert finding_line(found[0], {}).startswith(named)
    assert {one.file for one in found} == {file}


def test_the_bytes_of_a_missing_file_without_an_index_are_counted(folder: FolderWorld) -> None:
    before, journal = contents(folder), journal_of(folder)
    size = journal[1].stat().st_size
    journal[1].with_suffix(".index").unlink()
    journal[1].unlink()
    plan = repair(folder)
    assert (plan.unknown_bytes, plan.is_end_missing) == (size, False)
    told(plan, before)
    for name, end in folder.live(store_one_each).items():
        assert end >= max(before[name]) + 1, name


def test_a_topic_with_later_messages_passes_nothing_over(folder: FolderWorld) -> None:
    journal = journal_of(folder)
    journal[0].with_suffix(".index").unlink()
    journal[0].unlink()
    plan = repair(folder)
    assert not passed_over(plan, CLICKS)
    assert passed_over(plan, IDLE)


def test_a_lost_mark_alone_is_nothing_to_repair(folder: FolderWorld) -> None:
    mark = folder.path / "journal" / MARK_NAME
    whole = mark.read_bytes()
    for data in (whole[:-1], b"", bytes([whole[0] ^ 1]) + whole[1:], None):
        mark.unlink() if data is None else mark.write_bytes(data)
        found = folder.verify()
        assert found.is_sound
        assert {one.file for one in found.findings} == ({f"journal/{MARK_NAME}"} if data is not None else set())
        assert repair(folder).is_empty


def test_a_repair_that_dies_after_the_journal_is_forgotten_still_keeps_a_broker_from_it(folder: FolderWorld) -> None:
    before = contents(folder)
    flush_last(journal_of(folder))
    plan = plan_repair(folder.disk, folder.verify())
    assert plan.journal
    forget_journal(folder.disk, folder.path)
    with pytest.raises(DamagedDataError):
        contents(folder)
    told(repair(folder), before)


def die_before_the_journal_moves(folder: FolderWorld) -> RepairPlan:
    """A repair that has come as far as it can without moving the journal."""

    def killed() -> None:
        raise InterruptedError

    found = folder.verify()
    plan = plan_repair(folder.disk, found)
    with pytest.raises(InterruptedError):
        record(folder, plan)
        carry_out(folder.disk, found, plan, QuarantineFolder(folder.path, 1_000), forget_journal=killed)
    return plan


def flush_all_and_keep_the_files(folder: FolderWorld) -> None:
    """Segments hold more of the journal than is left of it when its last file is missing."""

    async def live(life: Life) -> None:
        await life.flush()

    journal, kept = folder.path / "journal", folder.path.parent / "kept"
    shutil.copytree(journal, kept)
    folder.live(live)
    shutil.rmtree(journal)
    kept.rename(journal)


@pytest.mark.parametrize("harm", [remove_last, empty_last, flush_last, remove_all_files])
@pytest.mark.parametrize("prepare", [lambda _: None, flush_all_and_keep_the_files])
def test_a_repair_that_is_done_again_passes_nothing_over_twice(
    folder: FolderWorld, harm: Harm, prepare: Callable[[FolderWorld], None]
) -> None:
    prepare(folder)
    before = contents(folder)
    harm(journal_of(folder))
    first = die_before_the_journal_moves(folder)
    again = die_before_the_journal_moves(folder)
    last = repair(folder)
    assert all(len(passed_over(first, name)) == PASSED_OVER for name in (ORDERS, CLICKS, IDLE))
    assert [(plan.topics, plan.journal) for plan in (again, last)] == [((), True), ((), True)]
    told(first, before)
    ends = folder.live(store_one_each)
    assert ends == {topic.name: topic.end_offset for topic in first.topics}


def test_topics_that_an_interrupted_repair_did_not_come_to_are_still_passed_over(
    folder: FolderWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    remove_last(journal_of(folder))
    found, left, write = folder.verify(), [1], RepairedLogWriter.write

    def one_only(writer: RepairedLogWriter, *what: Any) -> None:
        if not left:
            raise InterruptedError
        left.pop()
        write(writer, *what)

    plan = plan_repair(folder.disk, found)
    record(folder, plan)
    with monkeypatch.context() as dying, pytest.raises(InterruptedError):
        dying.setattr(RepairedLogWriter, "write", one_only)
        carry_out(folder.disk, found, plan, QuarantineFolder(folder.path, 1_000))
    rest = repair(folder)
    assert [one.name for one in rest.topics] == [one.name for one in plan.topics[1:]]
    assert [one.repaired.skipped for one in rest.topics] == [one.repaired.skipped for one in plan.topics[1:]]
    assert folder.live(store_one_each) == {topic.name: topic.end_offset for topic in plan.topics}


@pytest.mark.parametrize("content", [None, "", "[]", "{}", '{"journal_id": "x"}'])
def test_without_a_word_of_the_repair_before_offsets_are_passed_over_once_more(
    folder: FolderWorld, content: str | None
) -> None:
    remove_last(journal_of(folder))
    first = die_before_the_journal_moves(folder)
    (written,) = folder.path.glob(f"lost-*/{COVERED}")
    written.unlink() if content is None else written.write_text(content)
    again = repair(folder)
    for one in first.topics:
        assert repaired(again)[one.name].repaired.skipped.start == one.end_offset


def test_what_a_repair_wrote_down_is_of_one_journal_that_ends_where_it_ended(tmp_path: Path) -> None:
    disk, aside = LocalDisk(tmp_path), QuarantineFolder(tmp_path, 1_000)
    aside.write(COVERED, CoveredJournal(journal_id=7, end_position=100, covered=131).encode())
    assert covered_to(disk, 7, 100) == 131
    assert [covered_to(disk, 8, 100), covered_to(disk, 7, 101)] == [None, None]


@pytest.mark.parametrize("is_relative", [True, False])
def test_a_journal_that_is_elsewhere_is_set_aside_by_its_link(folder: FolderWorld, *, is_relative: bool) -> None:
    journal, elsewhere = folder.path / "journal", folder.path.parent / "elsewhere"
    journal.rename(elsewhere)
    journal.symlink_to(Path("../elsewhere") if is_relative else elsewhere)
    remove_last(journal_of(folder))
    assert not repair(folder).is_empty
    (aside,) = folder.path.glob("lost-*")
    assert (aside / "journal").resolve() == elsewhere
    assert not journal.exists()
    assert folder.live(store_one_each)
