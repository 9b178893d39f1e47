"""Carrying out a repair, so that a crash at any moment leaves a folder that can be repaired by the same command.

The order: say what will be done; keep the files that will go; write what is sound anew; take the old files out; move
the journal. The metadata learns of it when the broker starts (`after_repair`), of what was made until then. A journal
that is damaged keeps any broker from starting until it is moved, which is the last step but one.
"""

from collections.abc import Callable

from danube.offline.storage.repair.quarantine_folder import COVERED, QuarantineFolder
from danube.offline.storage.repair.repair_plan import RepairPlan
from danube.offline.storage.repair.repaired_log import RepairedLogWriter, rewritten_bytes
from danube.offline.storage.report import report_json, report_text
from danube.offline.storage.scan.scan import Progress, ScanResult
from danube.runtime.disk import Disk
from danube.storage.journal.folder import FOLDER

JSON_REPORT = "report.json"
TEXT_REPORT = "report.txt"


def carry_out(
    disk: Disk,
    scanned: ScanResult,
    plan: RepairPlan,
    quarantine: QuarantineFolder,
    *,
    progress: Progress = lambda _: None,
    forget_journal: Callable[[], None] = lambda: None,
) -> None:
    """Do what the plan says. Raises OSError; then it can be done again.

    `progress` is called with how many bytes more of `bytes_to_write` were written.
    `forget_journal` has nobody expect a journal in the folder any more, before it is moved.
    """
    _report(plan, quarantine, is_done=False)
    if plan.covered is not None:
        quarantine.write(COVERED, plan.covered.encode())
    for name in (name for topic in plan.topics for name in topic.set_aside):
        quarantine.keep(name)
    writer = RepairedLogWriter(disk, scanned.journal.files, progress)
    for repair in plan.topics:
        writer.write(repair, scanned.contents.topic(repair.topic_id))
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
