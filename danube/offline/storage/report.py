"""Report of a repair, for people and for programs: what it takes out and keeps. Pure.

Names of topics and subscriptions were chosen by strangers: in the text what is no plain character is escaped.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict

from danube.data_folder.findings import Finding
from danube.model.text import count_text
from danube.offline.storage.repair.repair_plan import RepairPlan, TopicRepair
from danube.runtime.console import escaped

REPORT_VERSION = 1


def report_json(plan: RepairPlan, folder: str, *, is_done: bool) -> str:
    """The report as JSON."""
    return json.dumps(report_of(plan, folder, is_done=is_done), indent=2) + "\n"


def report_of(plan: RepairPlan, folder: str | None, *, is_done: bool) -> dict[str, object]:
    """The report as plain data: `done` is false of a plan, and of a repair that did not come to its end."""
    return {
        "version": REPORT_VERSION,
        "done": is_done,
        "folder": folder,
        "journal_set_aside": plan.journal,
        "unknown_bytes": plan.unknown_bytes,
        "end_missing": plan.is_end_missing,
        "set_aside_bytes": plan.set_aside_bytes,
        "topics": [_topic(topic) for topic in plan.topics],
        "set_aside": list(plan.set_aside),
        "damage": [asdict(finding) for finding in plan.findings],
    }


def report_text(plan: RepairPlan, folder: str, *, is_done: bool) -> str:
    """The report as text."""
    state = "A repair of this data folder; all that it took out is here." if is_done else "A repair that was begun."
    lines = [state, "", *plan_lines(plan), "", f"Set aside in {folder}:", *(f"  {name}" for name in plan.set_aside)]
    names = {topic.topic_id: topic.name for topic in plan.topics}
    lines += ["", "Damage that was found:", *(f"  {finding_line(finding, names)}" for finding in plan.findings)]
    return "\n".join(lines) + "\n"


def plan_lines(plan: RepairPlan) -> Iterator[str]:
    """Lines on what goes and what stays, a topic at a time."""
    lossy = [topic for topic in plan.topics if topic.loses]
    for topic in lossy:
        yield from _topic_lines(topic)
    whole = len(plan.topics) - len(lossy)
    if whole:
        what = "more topic" if lossy else "topic"
        yield f"{count_text(whole, what)} lose{'s' * (whole == 1)} nothing: what is sound is written anew."
    if plan.journal:
        yield "The journal is set aside as a whole; what is sound in it is kept in segments, and a new one begins."
    if plan.unknown_bytes:
        yield (
            f"In {count_text(plan.unknown_bytes, 'byte')} of the journal nobody can say what was: the newest messages "
            "of any topic may have been there, and positions of subscriptions, which then get messages again."
        )
    if plan.is_end_missing:
        yield (
            "The end of the journal is missing, and nobody can say how much was behind what is known: messages of any "
            "topic may be lost that are not counted here."
        )
    yield f"{count_text(plan.set_aside_bytes, 'byte')} of files are set aside; nothing is deleted."


def finding_line(finding: Finding, names: Mapping[int, str]) -> str:
    """A finding on one line; `names` are those of topics by id, as far as they are known."""
    where = f"{finding.file}, byte {finding.at}" if finding.end > finding.at else finding.file
    return escaped(f"{where}: {finding.what}{_topic_and_offsets(finding, names)}")


def _offsets(ranges: Iterable[range]) -> str:
    """Offsets as people read them."""
    found = list(ranges)
    shown = ", ".join(str(one.start) if len(one) == 1 else f"{one.start} to {one.stop - 1}" for one in found)
    return f"offset{'s' * (sum(map(len, found)) != 1)} {shown}"


def _topic_and_offsets(finding: Finding, names: Mapping[int, str]) -> str:
    parts = []
    if finding.topic_id is not None:
        parts.append(names.get(finding.topic_id, f"topic id {finding.topic_id}"))
    if finding.first_offset is not None and finding.end_offset is not None:
        parts.append(_offsets([range(finding.first_offset, finding.end_offset)]))
    return f" ({', '.join(parts)})" if parts else ""


def _topic(topic: TopicRepair) -> dict[str, object]:
    repaired = topic.repaired
    return {
        "topic": topic.name,
        "topic_id": topic.topic_id,
        "start_offset": repaired.start_offset,
        "end_offset": topic.end_offset,
        "kept_messages": topic.kept_count,
        "lost_messages": repaired.lost_count,
        "lost": _pairs(repaired.lost),
        "left_out": _pairs(repaired.left_out),
        "skipped": _pairs(filter(None, [repaired.skipped])),
        "unknown_before": topic.unknown_before,
        "unread_by": topic.unread,
        "from_start": list(topic.from_start),
        "manifest_version": topic.manifest_version,
        "set_aside": list(topic.set_aside),
    }


def _pairs(ranges: Iterable[range]) -> list[list[int]]:
    """First offset, and the one after the last."""
    return [[one.start, one.stop] for one in ranges]


def _topic_lines(topic: TopicRepair) -> Iterator[str]:
    repaired = topic.repaired
    yield f"{escaped(topic.name)}:"
    if repaired.lost:
        yield f"  lost: {count_text(repaired.lost_count, 'message')}, {_offsets(repaired.lost)}"
    if topic.unknown_before:
        yield f"  begins at offset {topic.unknown_before}; nobody can say whether messages before it are lost"
    if repaired.left_out:
        yield f"  set aside, though sound: {_offsets(repaired.left_out)} (too many behind them are lost)"
    if repaired.skipped:
        yield f"  passed over: {_offsets([repaired.skipped])}; nobody can say whether messages had them"
    yield f"  kept: {count_text(topic.kept_count, 'message')}; the topic goes on at offset {topic.end_offset}"
    for name, count in topic.unread.items():
        yield f"  subscription {escaped(name)} had not acknowledged {count:,} of them"
    for name in topic.from_start:
        yield f"  subscription {escaped(name)} begins with the oldest message: its position is lost"
