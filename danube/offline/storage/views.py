"""Pages of `danube-broker storage`: tables and lines for people, plain data for programs.

Names of topics and subscriptions were chosen by strangers: what is no plain character in them is escaped.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from itertools import groupby

from danube.data_folder.data_folder import IDENTITY
from danube.data_folder.findings import Finding
from danube.model.limits.faces import CLI_DRAWN_ROWS_MAX
from danube.model.text import count_text
from danube.offline.output import NONE, Facts, table, table_of, time_text
from danube.offline.storage.bucket import BucketJournal, BucketScan, BucketTopic
from danube.offline.storage.one_file import FileContent, Row
from danube.offline.storage.report import finding_line
from danube.offline.storage.scan.journal_contents import FileSummary
from danube.offline.storage.scan.scan import ScanResult, SubscriptionSummary, TopicSummary
from danube.runtime.console import escaped
from danube.storage.segment.manifest import Segment, segment_name

_ALIKE_MAX = 5
_LOOK_FURTHER = "Next: `danube-broker storage verify --data-dir ...` reads every byte and tells all damage."
_REPAIR = "Next: `danube-broker storage repair --data-dir ...` says what can be kept, and changes nothing yet."
_RESTORE = "Next: restore what is named above from a backup; without it nothing can be repaired."

_FILES: Mapping[str, Callable[[FileSummary], str]] = {
    "file": lambda one: one.file.rpartition("/")[2],
    "from position": lambda one: f"{one.base_position:,}",
    "bytes": lambda one: f"{one.file_bytes:,}",
    "rounds": lambda one: f"{one.rounds:,}",
    "records": lambda one: f"{one.records:,}",
    "synced to": lambda one: f"{one.synced_to:,}",
    "torn": lambda one: f"{one.torn_bytes:,}",
    "damaged": lambda one: f"{one.damaged_bytes:,}",
    "oldest": lambda one: time_text(one.oldest_append_ms),
    "newest": lambda one: time_text(one.newest_append_ms),
}
_TOPICS: Mapping[str, Callable[[TopicSummary], str]] = {
    "topic": lambda one: escaped(one.topic),
    "id": lambda one: str(one.topic_id),
    "offsets": lambda one: " .. ".join("?" if at is None else str(at) for at in (one.start_offset, one.end_offset)),
    "oldest": lambda one: time_text(one.oldest_append_ms),
    "newest": lambda one: time_text(one.newest_append_ms),
    "manifest version": lambda one: str(one.manifest_version or NONE),
    "segments": lambda one: f"{one.segments:,}",
    "segment bytes": lambda one: f"{one.segment_bytes:,}",
    "in journal": lambda one: f"{one.journal_batches:,} {'batch' if one.journal_batches == 1 else 'batches'}",
    "journal bytes": lambda one: f"{one.journal_bytes:,}",
}
_SUBSCRIPTIONS: Mapping[str, Callable[[tuple[TopicSummary, SubscriptionSummary]], str]] = {
    "topic": lambda one: escaped(one[0].topic),
    "subscription": lambda one: escaped(one[1].subscription),
    "position": lambda one: str(one[1].position),
    "ranges": lambda one: str(one[1].ranges),
    "unread": lambda one: f"{one[1].unread:,}",
}
_SEGMENTS: Mapping[str, Callable[[tuple[int, Segment]], str]] = {
    "file": lambda one: segment_name(*one),
    "offsets": lambda one: f"{one[1].base_offset} .. {one[1].end_offset}",
    "batches": lambda one: f"{one[1].batches:,}",
    "bytes": lambda one: f"{one[1].file_bytes:,}",
    "oldest": lambda one: time_text(one[1].first_append_time_ms),
    "newest": lambda one: time_text(one[1].last_append_time_ms),
}
_IDS = {"broker_id", "base_offset", "end_offset", "start_offset", "cursors"}
"""Numbers that are names of something, and are typed again: they have no commas."""


def scan_text(found: ScanResult, topics: Sequence[TopicSummary], folder: str, topic: str | None) -> str:
    """The whole folder; of one topic its segments, too."""
    journal, files = found.journal, found.contents.files
    parts = [f"Data folder: {folder}"]
    if topic is None:
        position = f"begins with file {journal.first_sequence}, ends at position {journal.end_position:,}"
        marked = f"to {journal.mark.synced_to:,} as its mark says" if journal.mark is not None else "and without a mark"
        synced = f"synced to {journal.synced_to:,} as its headers say, {marked}"
        parts[0] += f"\nJournal: id {journal.journal_id:016x}, {position}, {synced}" if files else "\nJournal: none"
        parts.append(table_of("Journal files", _FILES, files))
    parts.append(table_of("Topics", _TOPICS, topics))
    subscriptions = [(one, each) for one in topics for each in one.subscriptions]
    parts.append(table_of("Subscriptions", _SUBSCRIPTIONS, subscriptions))
    for one in topics if topic is not None else ():
        segments = found.histories[one.topic_id].segments
        parts.append(table_of("Segments", _SEGMENTS, [(one.topic_id, each) for each in segments]))
    names = {one.topic_id: one.topic for one in topics if one.is_known}
    parts.append(_findings_text(found.findings, names, set(names) if topic else None))
    parts.append("" if found.is_sound else _LOOK_FURTHER)
    return "\n\n".join(filter(None, parts)) + "\n"


def scan_facts(found: ScanResult, topics: Sequence[TopicSummary], folder: str, broker_id: str | None) -> Facts:
    """The same as plain data, with what tables leave out."""
    journal = found.journal
    segments = {one.topic_id: found.histories[one.topic_id].segments for one in topics}
    return {
        "data_folder": folder,
        "broker_id": broker_id,
        "sound": found.is_sound,
        "journal": {
            "journal_id": f"{journal.journal_id:016x}",
            "first_sequence": journal.first_sequence,
            "end_position": journal.end_position,
            "synced_to": journal.synced_to,
            "marked_to": journal.mark.synced_to if journal.mark is not None else None,
            "files": [{**asdict(file), "topics": sorted(file.topics)} for file in found.contents.files],
        },
        "topics": [
            {**asdict(one), "segment_list": [asdict(segment) for segment in segments[one.topic_id]]} for one in topics
        ],
        "findings": [asdict(finding) for finding in found.findings],
    }


def verification_text(found: ScanResult) -> str:
    """The verdict, and each fault."""
    damage = sum(finding.is_damage for finding in found.findings)
    read = f"{count_text(found.files, 'file')}, {count_text(found.bytes_read, 'byte')} were read"
    if not damage:
        verdict = f"Sound: {read}."
    else:
        next_step = _REPAIR if can_be_repaired(found) else _RESTORE
        verdict = f"Damaged: {count_text(damage, 'fault')}; {read}.\n{next_step}"
    return "\n\n".join(filter(None, [findings_text(found), verdict])) + "\n"


def findings_text(found: ScanResult) -> str:
    """Each fault and each note, a line each; damage first."""
    return _findings_text(found.findings, found.metadata.topics, None)


def can_be_repaired(found: ScanResult) -> bool:
    """True when a repair may help: the damage is in what it makes anew, and it knows which topics there are."""
    damaged = {one.file for one in found.findings if one.is_damage}
    return found.metadata.trouble is None and bool(damaged) and IDENTITY not in damaged


def verification_facts(found: ScanResult) -> Facts:
    """The same as plain data."""
    return {
        "sound": found.is_sound,
        "files": found.files,
        "bytes_read": found.bytes_read,
        "findings": [
            {**asdict(one), "topic": found.metadata.topics.get(one.topic_id) if one.topic_id is not None else None}
            for one in found.findings
        ],
    }


def file_text(content: FileContent) -> str:
    """One file: what it says of itself, and what is in it."""
    facts = [f"{_words(label)}: {_fact(label, value)}" for label, value in content.facts.items()]
    head = "\n".join([f"{content.file} ({content.kind})", *facts])
    if not content.rows:
        return f"{head}\n"
    shown = content.rows[:CLI_DRAWN_ROWS_MAX]
    columns = tuple(dict.fromkeys(label for row in shown for label in row))
    titles = [_words(label) for label in columns]
    drawn = table("", titles, [tuple(_cell(row, label) for label in columns) for row in shown])
    more = len(content.rows) - len(shown)
    return f"{head}\n\n{drawn}\n" + (f"... and {more} more; -o json shows all\n" if more else "")


def _findings_text(findings: Sequence[Finding], names: Mapping[int, str], topic_ids: set[int] | None) -> str:
    """Damage first, then as they stand in the files; with `topic_ids` only what concerns these topics."""
    wanted = [one for one in findings if topic_ids is None or one.topic_id is None or one.topic_id in topic_ids]
    wanted.sort(key=lambda one: (one.level, one.file, one.at, one.topic_id or 0, one.first_offset or 0))
    return "\n".join(line for _, alike in groupby(wanted, _kind) for line in _lines(list(alike), names))


def _kind(finding: Finding) -> object:
    """The same of findings that say the same of whole files."""
    return (finding.level, finding.what, finding.topic_id) if finding.end == finding.at else finding


def _lines(alike: Sequence[Finding], names: Mapping[int, str]) -> Iterator[str]:
    """A line each; many that say the same of whole files are told by the first and the last."""
    shown = alike if len(alike) <= _ALIKE_MAX else alike[:1]
    yield from (f"{one.level}: {finding_line(one, names)}" for one in shown)
    if len(shown) < len(alike):
        yield f"{alike[0].level}: the same of {len(alike) - 1:,} more files up to {alike[-1].file}; -o json shows all"


def _words(label: str) -> str:
    """A name of a field as people read it: that of a time without its unit, which the time does not need."""
    return label.removesuffix("_ms").replace("_", " ")


def _fact(label: str, value: object) -> str:
    """A fact of a file: what it says of several things stands in one line."""
    if isinstance(value, Mapping):
        return ", ".join(f"{escaped(str(name))} at {_plain(label, one)}" for name, one in value.items()) or NONE
    return _plain(label, value)


def _cell(row: Row, label: str) -> str:
    value = row.get(label)
    return _records(value) if isinstance(value, list) else _plain(label, value)


def _plain(label: str, value: object) -> str:
    if value is None:
        return NONE
    if isinstance(value, int) and label.endswith("_ms"):
        return time_text(value)
    return f"{value:,}" if isinstance(value, int) and label not in _IDS else escaped(str(value))


def _records(records: Sequence[Row]) -> str:
    """A round's records: how many, and of which topics."""
    topics = list(dict.fromkeys(escaped(str(one["topic"])) for one in records))
    more = f" and {len(topics) - 3} more topics" if len(topics) > 3 else ""
    return f"{len(records)}: {', '.join(topics[:3])}{more}" if records else "0"


_BUCKET_TOPICS: Mapping[str, Callable[[BucketTopic], str]] = {
    "id": lambda one: str(one.topic_id),
    "manifest version": lambda one: str(one.manifest_version),
    "offsets in segments": lambda one: f"{one.start_offset} .. {one.end_offset}",
    "segments": lambda one: f"{one.segments:,}",
    "segment bytes": lambda one: f"{one.segment_bytes:,}",
}
_BUCKET_JOURNALS: Mapping[str, Callable[[BucketJournal], str]] = {
    "journal": lambda one: one.journal,
    "objects": lambda one: f"{one.objects:,}",
    "bytes": lambda one: f"{one.object_bytes:,}",
    "fenced": lambda one: "yes" if one.is_fenced else "no",
}


def bucket_text(found: BucketScan, url: str) -> str:
    """A bucket, and what is wrong with it."""
    parts = [f"Bucket: {url}" + (f", of cluster {found.cluster}" if found.cluster else "")]
    parts.append(table_of("Topics", _BUCKET_TOPICS, found.topics))
    parts.append(table_of("Journals", _BUCKET_JOURNALS, found.journals))
    parts += [f"{'DAMAGED' if one.is_damage else 'note'}: {one.name}: {one.what}" for one in found.findings]
    parts.append("Sound: every byte is what was written" if found.is_sound else "Damaged: see above")
    return "\n\n".join(parts) + "\n"


def bucket_facts(found: BucketScan) -> Facts:
    """The same for programs."""
    return {"is_sound": found.is_sound, **asdict(found)}
