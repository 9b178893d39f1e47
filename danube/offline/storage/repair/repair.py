"""Carrying out a repair, so that a crash at any moment leaves a folder that can be repaired by the same command.

The order: say what will be done; keep the files that will go; write what is sound anew; have metadata name it, a group
of topics at a time; take the old files out; move the journal. Until metadata names a topic's new manifest its old one
counts, and a journal that is damaged keeps any broker from starting until it is moved, which is the last step but one.
"""

from collections.abc import Callable, Iterator, Sequence

from danube.metadata.records.record_format import TopicStorage
from danube.model.limits.broker import FLUSH_TOPICS_MAX
from danube.offline.storage.repair.quarantine_folder import COVERED, QuarantineFolder
from danube.offline.storage.repair.repair_plan import RepairPlan, TopicRepair
from danube.offline.storage.repair.repaired_log import RepairedLogWriter, rewritten_bytes
from danube.offline.storage.report import report_json, report_text
from danube.offline.storage.scan.scan import Progress, ScanResult
from danube.runtime.disk import Disk
from danube.storage.journal.folder import FOLDER

Point = Callable[[Sequence[tuple[TopicStorage, int]]], None]
"""Has metadata name these topics' new manifest versions, all or none."""

JSON_REPORT = "report.json"
TEXT_REPORT = "report.txt"


def carry_out(
    disk: Disk,
    scanned: ScanResult,
    plan: RepairPlan,
    quarantine: QuarantineFolder,
    point: Point,
    *,
    progress: Progress = lambda _: None,
    forget_journal: Callable[[], None] = lambda: None,
) -> None:
    """Do what the plan says. Raises OSError, and what `point` raises; then it can be done again.

    `progress` is called with how many bytes more of `bytes_to_write` were written.
    `forget_journal` has nobody expect a journal in the folder any more, before it is moved.
    """
    _report(plan, quarantine, is_done=False)
    if plan.covered is not None:
        quarantine.write(COVERED, plan.covered.encode())
    for name in (name for topic in plan.topics for name in topic.set_aside):
        quarantine.keep(name)
    writer = RepairedLogWriter(disk, scanned.journal.files, progress)
    for group in _groups(plan.topics):
        for repair in group:
            writer.write(repair, scanned.contents.topic(repair.topic_id))
        point([(repair.record, repair.manifest_version) for repair in group])
    writer.close()
    for name in (name for topic in plan.topics for name in topic.set_aside):
        quarantine.drop(name)
    if plan.journal:
        forget_journal()
        if disk.exists(FOLDER):
            quarantine.move(FOLDER)
    _report(plan, quarantine, is_done=True)


def bytes_to_write(disk: Disk, plan: RepairPlan, scanned: ScanResult) -> int:
    """Bytes of messages that are written anew, roughly: in segments that do not stay, and in the journal."""
    return sum(rewritten_bytes(disk, topic, scanned.contents.topic(topic.topic_id)) for topic in plan.topics)


def _report(plan: RepairPlan, quarantine: QuarantineFolder, *, is_done: bool) -> None:
    quarantine.write(TEXT_REPORT, report_text(plan, quarantine.name, is_done=is_done))
    quarantine.write(JSON_REPORT, report_json(plan, quarantine.name, is_done=is_done))


def _groups(topics: Sequence[TopicRepair]) -> Iterator[Sequence[TopicRepair]]:
    for first in range(0, len(topics), FLUSH_TOPICS_MAX):
        yield topics[first : first + FLUSH_TOPICS_MAX]
