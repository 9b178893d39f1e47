"""How `danube-broker storage` shows what it found: tables on a terminal, aligned text in a pipe, plain data
for programs.

Names of topics and subscriptions were chosen by strangers: what is no plain character in them is escaped.
"""

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from itertools import groupby

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

from danube.data_folder.data_folder import IDENTITY
from danube.data_folder.findings import Finding
from danube.model.limits.faces import CLI_DRAWN_ROWS_MAX
from danube.model.text import count_text, time_of
from danube.offline.answers import Facts
from danube.offline.storage.one_file import FileContent, Row
from danube.offline.storage.report import finding_line
from danube.offline.storage.scan.journal_contents import FileSummary
from danube.offline.storage.scan.scan import ScanResult, TopicSummary
from danube.offline.storage.verify import Verification
from danube.offline.text_tables import table as _table
from danube.runtime.console import escaped, is_terminal
from danube.storage.segment.manifest import segment_name

_NONE = "-"
_ALIKE_MAX = 5
_LOOK_FURTHER = "Next: `danube-broker storage verify --data-dir ...` reads every byte and tells all damage."
_REPAIR = "Next: `danube-broker storage repair --data-dir ...` says what can be kept, and changes nothing yet."
_RESTORE = "Next: restore what is named above from a backup; without it nothing can be repaired."


def scan_text(found: ScanResult, folder: str, topic: str | None) -> str:
    """The whole folder; of one topic its segments, too."""
    parts = [f"Data folder: {folder}"]
    if topic is None:
        position = f"begins with file {found.first_sequence}, ends at position {found.end_position:,}"
        synced = f"synced to {found.synced_to:,} as its headers say, {_marked(found)}"
        parts[0] += f"\nJournal: id {found.journal_id:016x}, {position}, {synced}" if found.files else "\nJournal: none"
        parts.append(_table("Journal files", _FILE_COLUMNS, [_file_row(file) for file in found.files]))
    parts.append(_table("Topics", _TOPIC_COLUMNS, [_topic_row(one) for one in found.topics]))
    parts.append(_table("Subscriptions", _SUBSCRIPTION_COLUMNS, _subscription_rows(found.topics)))
    if topic is not None:
        parts += [_segments(found, one) for one in found.topics]
    names = {one.topic_id: one.topic for one in found.topics if one.is_known}
    parts.append(_findings_text(found.findings, names, set(names) if topic else None))
    parts.append("" if found.is_sound else _LOOK_FURTHER)
    return "\n\n".join(filter(None, parts)) + "\n"


def _marked(found: ScanResult) -> str:
    return f"to {found.marked_to:,} as its mark says" if found.marked_to is not None else "and without a mark"


def scan_facts(found: ScanResult, folder: str, broker_id: str | None) -> Facts:
    """The same as plain data, with what tables leave out."""
    journal = {
        "journal_id": f"{found.journal_id:016x}",
        "first_sequence": found.first_sequence,
        "end_position": found.end_position,
        "synced_to": found.synced_to,
        "marked_to": found.marked_to,
        "files": [{**asdict(file), "topics": sorted(file.topics)} for file in found.files],
    }
    topics = [
        {**asdict(one), "segment_list": [asdict(segment) for segment in found.histories[one.topic_id].segments]}
        for one in found.topics
    ]
    return {
        "data_folder": folder,
        "broker_id": broker_id,
        "sound": found.is_sound,
        "journal": journal,
        "topics": topics,
        "findings": [asdict(finding) for finding in found.findings],
    }


def verification_text(found: Verification) -> str:
    """The verdict, and each fault."""
    damage = sum(finding.is_damage for finding in found.findings)
    read = f"{count_text(found.files, 'file')}, {count_text(found.bytes_read, 'byte')} were read"
    if not damage:
        verdict = f"Sound: {read}."
    else:
        next_step = _REPAIR if can_be_repaired(found) else _RESTORE
        verdict = f"Damaged: {count_text(damage, 'fault')}; {read}.\n{next_step}"
    return "\n\n".join(filter(None, [findings_text(found), verdict])) + "\n"


def findings_text(found: Verification) -> str:
    """Each fault and each note, a line each; damage first."""
    return _findings_text(found.findings, found.known.topics, None)


def can_be_repaired(found: Verification) -> bool:
    """Whether a repair may help: the damage is in what it makes anew, and it knows which topics there are."""
    damaged = {one.file for one in found.findings if one.is_damage}
    return found.known.trouble is None and bool(damaged) and IDENTITY not in damaged


def verification_facts(found: Verification) -> Facts:
    """The same as plain data."""
    return {
        "sound": found.is_sound,
        "files": found.files,
        "bytes_read": found.bytes_read,
        "findings": [
            {**asdict(one), "topic": found.known.topics.get(one.topic_id) if one.topic_id is not None else None}
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
    table = _table("", titles, [tuple(_cell(row, label) for label in columns) for row in shown])
    more = len(content.rows) - len(shown)
    return f"{head}\n\n{table}\n" + (f"... and {more} more; -o json shows all\n" if more else "")


@contextmanager
def progress(what: str, total_bytes: int) -> Iterator[Callable[[int], None]]:
    """A bar for whoever watches a terminal; answers what to call with each number of bytes that were dealt with."""
    if not is_terminal(sys.stderr):
        yield lambda _: None
        return
    columns = (TextColumn(what), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=max(total_bytes, 1))
        yield lambda count: bar.advance(task, count)


_FILE_COLUMNS = (
    "file",
    "from position",
    "bytes",
    "rounds",
    "records",
    "synced to",
    "torn",
    "damaged",
    "oldest",
    "newest",
)
_TOPIC_COLUMNS = (
    "topic",
    "id",
    "offsets",
    "oldest",
    "newest",
    "manifest_version",
    "segments",
    "segment bytes",
    "in journal",
    "journal bytes",
)
_SUBSCRIPTION_COLUMNS = ("topic", "subscription", "position", "ranges", "unread")


def _file_row(file: FileSummary) -> tuple[str, ...]:
    return (
        file.file.rpartition("/")[2],
        f"{file.base_position:,}",
        f"{file.file_bytes:,}",
        f"{file.rounds:,}",
        f"{file.records:,}",
        f"{file.synced_to:,}",
        f"{file.torn_bytes:,}",
        f"{file.damaged_bytes:,}",
        _time(file.oldest_append_ms),
        _time(file.newest_append_ms),
    )


def _topic_row(topic: TopicSummary) -> tuple[str, ...]:
    start, end = topic.start_offset, topic.end_offset
    return (
        escaped(topic.topic),
        str(topic.topic_id),
        f"{'?' if start is None else start} .. {'?' if end is None else end}",
        _time(topic.oldest_append_ms),
        _time(topic.newest_append_ms),
        str(topic.manifest_version or _NONE),
        f"{topic.segments:,}",
        f"{topic.segment_bytes:,}",
        f"{topic.journal_batches:,} {'batch' if topic.journal_batches == 1 else 'batches'}",
        f"{topic.journal_bytes:,}",
    )


def _subscription_rows(topics: Sequence[TopicSummary]) -> list[tuple[str, ...]]:
    return [
        (escaped(topic.topic), escaped(one.subscription), str(one.position), str(one.ranges), f"{one.unread:,}")
        for topic in topics
        for one in topic.subscriptions
    ]


def _segments(found: ScanResult, topic: TopicSummary) -> str:
    rows = [
        (
            segment_name(topic.topic_id, one),
            f"{one.base_offset} .. {one.end_offset}",
            f"{one.batches:,}",
            f"{one.file_bytes:,}",
            _time(one.first_append_time_ms),
            _time(one.last_append_time_ms),
        )
        for one in found.histories[topic.topic_id].segments
    ]
    return _table("Segments", ("file", "offsets", "batches", "bytes", "oldest", "newest"), rows)


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
        return ", ".join(f"{escaped(str(name))} at {_plain(label, one)}" for name, one in value.items()) or _NONE
    return _plain(label, value)


def _cell(row: Row, label: str) -> str:
    value = row.get(label)
    return _records(value) if isinstance(value, list) else _plain(label, value)


def _plain(label: str, value: object) -> str:
    if value is None:
        return _NONE
    if isinstance(value, int) and label.endswith("_ms"):
        return _time(value)
    return f"{value:,}" if isinstance(value, int) and label not in _IDS else escaped(str(value))


def _records(records: Sequence[Row]) -> str:
    """A round's records: how many, and of which topics."""
    topics = list(dict.fromkeys(escaped(str(one["topic"])) for one in records))
    more = f" and {len(topics) - 3} more topics" if len(topics) > 3 else ""
    return f"{len(records)}: {', '.join(topics[:3])}{more}" if records else "0"


_IDS = {"broker_id", "base_offset", "end_offset", "start_offset", "cursors"}
"""Numbers that are names of something, and are typed again: they have no commas."""


def _time(time_ms: int | None) -> str:
    return _NONE if time_ms is None else time_of(time_ms)
