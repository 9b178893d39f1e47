"""Content of one file of storage: rounds, blocks, or what a manifest or an index says. It reads only."""

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass

from danube.data_folder.journal_scan import JournalScan
from danube.data_folder.metadata_view import MetadataView
from danube.model.errors import NotFoundError
from danube.offline.storage.scan.scan import files_below
from danube.offline.storage.scan.segment_scan import SegmentScan
from danube.runtime.disk import Disk, content_of
from danube.storage.journal.contents import decode_index, refuse_other_index
from danube.storage.journal.format import (
    FIRST_NAME,
    MARK_NAME,
    FirstFile,
    Mark,
    decode_first,
    decode_mark,
    file_sequence,
    index_sequence,
)
from danube.storage.journal.walker import Damage, FileBegun, SoundRound, Torn
from danube.storage.segment.manifest_format import decode_manifest, refuse_other_manifest
from danube.storage.tiers.directory import DirectoryTier

Row = dict[str, object]


@dataclass(frozen=True, slots=True)
class FileContent:
    """A file, as plain data."""

    file: str
    kind: str
    facts: Row
    rows: list[Row]


def find_file(disk: Disk, name: str) -> str:
    """The file with this name, with or without its folders. Raises NotFoundError when there is none, or several."""
    folders = ["journal", "segments", *(one for one in disk.list("") if one.startswith("lost-"))]
    names = [one for folder in folders for one in _below(disk, folder)]
    found = [one for one in names if one == name] or [one for one in names if one.rpartition("/")[2] == name]
    if len(found) == 1:
        return found[0]
    if found:
        raise NotFoundError(f"{name} is there {len(found)} times: name one with its folder, such as {found[0]}")
    raise NotFoundError(
        f"no file of messages in the data folder is called {name}: `danube-broker storage inspect --data-dir ...` lists"
        " those of the journal, and with --topic those of a topic"
    )


def file_content(disk: Disk, name: str, view: MetadataView) -> FileContent:
    """The content of a file. Raises OSError, NotFoundError for none of storage's, NewerDataFolderError."""
    stem = name.rpartition("/")[2]
    if stem == FIRST_NAME:
        return _fields("first", decode_first(content_of(disk, name), name), name)
    if stem == MARK_NAME:
        return _fields("mark", decode_mark(content_of(disk, name), name), name)
    readers: list[tuple[bool, Callable[[Disk, str, MetadataView], FileContent]]] = [
        (file_sequence(stem) is not None, _journal_file),
        (index_sequence(stem) is not None, _index),
        (stem.endswith(".segment"), _segment),
        (stem.endswith(".manifest"), _manifest),
    ]
    for is_it, read in readers:
        if is_it:
            return read(disk, name, view)
    raise NotFoundError(f"{name} is no file of messages: those end with .journal, .index, .segment or .manifest")


def _below(disk: Disk, folder: str) -> Iterator[str]:
    if folder.startswith("lost-"):
        for inner in ("journal", "segments"):
            yield from files_below(disk, f"{folder}/{inner}")
    else:
        yield from files_below(disk, folder)


def _journal_file(disk: Disk, name: str, view: MetadataView) -> FileContent:
    scanned = JournalScan(disk, name.rpartition("/")[0])
    facts: Row = {}
    rows: list[Row] = []
    for seen in scanned.events():
        if seen.file != name:
            continue
        match seen:
            case FileBegun():
                facts = {"sequence": seen.sequence, "base_position": seen.base_position, "bytes": seen.file_bytes}
                facts |= _header(seen.header._asdict()) if seen.header is not None else {"header": "damaged"}
            case SoundRound():
                rows.append(_round(seen, view))
            case Damage():
                rows.append({"state": "damaged", "at": seen.at, "bytes": seen.end - seen.at, "what": seen.what})
            case Torn():
                rows.append({"state": "torn", "at": seen.at, "bytes": seen.end - seen.at, "what": "was never synced"})
    return FileContent(name, "journal", facts, rows)


def _header(fields: Row) -> Row:
    """The journal's id as it is shown everywhere."""
    return {**fields, "journal_id": f"{fields['journal_id']:016x}"}


def _round(seen: SoundRound, view: MetadataView) -> Row:
    header = seen.header
    records = [
        {
            "topic": view.name(envelope.topic_id),
            "kind": envelope.kind.name.lower(),
            "base_offset": envelope.base_offset,
            "count": envelope.count,
            "bytes": envelope.total_bytes,
            "append_time_ms": envelope.append_time_ms,
        }
        for envelope, _, _ in seen.entries
    ]
    return {
        "state": "sound",
        "at": seen.at,
        "bytes": seen.size_bytes,
        "round": header.number,
        "synced_to": header.synced_to,
        "records": records,
    }


def _segment(disk: Disk, name: str, view: MetadataView) -> FileContent:
    folder = name.rpartition("/")[0].rpartition("/")[2]
    topic_id = int(folder) if folder.isdigit() else 0
    tier = DirectoryTier(disk)
    scanned = SegmentScan(tier, name, topic_id)
    for _ in scanned.batches():
        pass
    tier.close()
    facts: Row = {"topic": view.name(topic_id), "bytes": scanned.file_bytes}
    facts |= asdict(scanned.footer.segment) if scanned.footer is not None else {"footer": "damaged"}
    rows: list[Row] = [
        {
            "state": "damaged" if any(one.at == block.at for one in scanned.findings) else "sound",
            "at": block.at,
            "bytes": block.end - block.at,
            "base_offset": block.base_offset,
            "end_offset": block.end_offset,
        }
        for block in scanned.blocks
    ]
    return FileContent(name, "segment", facts, rows)


def _manifest(disk: Disk, name: str, view: MetadataView) -> FileContent:
    manifest = decode_manifest(content := content_of(disk, name))
    if manifest is None:
        refuse_other_manifest(name, content)
        return FileContent(name, "manifest", {"state": "damaged"}, [])
    facts: Row = {
        "topic": view.name(manifest.topic_id),
        "manifest_version": manifest.version,
        "start_offset": manifest.start_offset,
        "end_offset": manifest.end_offset,
        "last_append_time_ms": manifest.last_append_time_ms,
        "journals": {f"{journal_id:016x}": position for journal_id, position in manifest.journals.items()},
        "cursors": {
            view.subscription(manifest.topic_id, one): cursor.position for one, cursor in manifest.cursors.items()
        },
        "producer_states": len(manifest.producer_states),
    }
    return FileContent(name, "manifest", facts, [asdict(segment) for segment in manifest.segments])


def _index(disk: Disk, name: str, view: MetadataView) -> FileContent:
    index = decode_index(content := content_of(disk, name))
    if index is None:
        refuse_other_index(name, content)
        return FileContent(name, "index", {"state": "damaged"}, [])
    facts: Row = {"end_position": index.end_position, "last_round": index.last_round, **asdict(index.contents.start)}
    rows: list[Row] = [
        {
            "topic": view.name(topic_id),
            "batches": len(run) if run is not None else None,
            "end_offset": run.end_offset if run is not None else None,
        }
        for topic_id, run in index.runs.items()
    ]
    return FileContent(name, "index", facts, rows)


def _fields(kind: str, found: FirstFile | Mark | None, name: str) -> FileContent:
    return FileContent(name, kind, _header(found._asdict()) if found is not None else {"state": "damaged"}, [])
