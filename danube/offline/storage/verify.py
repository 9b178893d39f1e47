"""Reading every byte of a data folder and telling what is wrong. A block or a round at a time.

What is found is what repair goes by, so the two never disagree about what is sound.
"""

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from danube.data_folder.findings import Finding, Level
from danube.data_folder.history_scan import SEGMENTS, TopicHistory, scan_history, topic_ids, unlisted_segments
from danube.data_folder.journal_scan import JournalScan
from danube.data_folder.metadata_view import MetadataView
from danube.model.errors import DamagedDataError, StorageUnavailableError
from danube.offline.storage.scan.journal_contents import JournalContents, JournalTopic
from danube.offline.storage.scan.segment_scan import SegmentScan
from danube.runtime.disk import Disk
from danube.storage.flush.manifest_lookup import unnamed_history
from danube.storage.journal.file_index import decode_index
from danube.storage.journal.folder import FOLDER
from danube.storage.journal.format import index_sequence
from danube.storage.journal.walker import FileBegun, SoundRound
from danube.storage.segment.manifest import Manifest, Segment, manifest_name, segment_name
from danube.storage.segment.reader import SegmentReader
from danube.storage.tiers.directory import DirectoryTier

Progress = Callable[[int], None]
"""Called with how many bytes more were read."""


@dataclass(slots=True)
class Verification:
    """What was looked at, and what is wrong."""

    known: MetadataView
    walk: JournalScan
    ledger: JournalContents
    histories: dict[int, TopicHistory] = field(default_factory=dict)
    damaged_segments: dict[int, list[Segment]] = field(default_factory=dict)
    """By topic, as its manifest lists them."""
    unnamed: set[int] = field(default_factory=set)
    """Topics of which a manifest that metadata does not name has what is nowhere else."""
    findings: list[Finding] = field(default_factory=list)
    bytes_read: int = 0
    files: int = 0

    @property
    def is_sound(self) -> bool:
        """Whether nothing is damaged."""
        return not any(finding.is_damage for finding in self.findings)


def verify(
    disk: Disk, known: MetadataView, progress: Progress = lambda _: None, *, has_journal: bool = False
) -> Verification:
    """Look at everything. Raises OSError, StorageUnavailableError, DataFolderError for files of a later version.

    With `has_journal` one was begun in the folder once: then one that is not there is missing.
    """
    walk, ledger = JournalScan(disk, has_begun=has_journal), JournalContents(known.counts)
    found = Verification(known, walk, ledger)
    found.findings += known.findings()
    _verify_journal(found, progress)
    _verify_indexes(disk, found)
    tier = DirectoryTier(disk)
    for topic_id in topic_ids(disk, known):
        _verify_topic(disk, tier, found, topic_id, progress)
    tier.close()
    return found


def total_bytes(disk: Disk) -> int:
    """How much there is to read, roughly."""
    return sum(_size(disk, name) for folder in (FOLDER, SEGMENTS) for name in files_below(disk, folder))


def files_below(disk: Disk, folder: str) -> Iterator[str]:
    """All files in a folder and in the folders in it."""
    with contextlib.suppress(FileNotFoundError):
        for name in disk.list(folder):
            try:
                inner = disk.list(f"{folder}/{name}")
            except (NotADirectoryError, FileNotFoundError):
                yield f"{folder}/{name}"
            else:
                yield from (f"{folder}/{name}/{one}" for one in inner)


def journal_gap(topic: JournalTopic, history: TopicHistory, journal_id: int) -> tuple[int, int] | None:
    """Where the segments end and where the journal goes on, when that is not the same offset."""
    if history.manifest is None:
        return None
    first = topic.first_above(history.manifest.journals.get(journal_id, 0))
    end = history.manifest.end_offset
    return (end, topic.bases[first]) if first < len(topic) and topic.bases[first] != end else None


def _verify_journal(found: Verification, progress: Progress) -> None:
    for seen in found.walk.events():
        found.ledger.take(seen)
        if isinstance(seen, FileBegun):
            found.files += 1
            continue
        # damaged or torn, it was read all the same
        size = seen.size_bytes if isinstance(seen, SoundRound) else seen.end - seen.at
        found.bytes_read += size
        progress(size)
    found.findings += found.ledger.findings
    found.findings += found.walk.notes


def _verify_indexes(disk: Disk, found: Verification) -> None:
    with contextlib.suppress(FileNotFoundError):
        for name in disk.list(FOLDER):
            if index_sequence(name) is None:
                continue
            with contextlib.closing(disk.open_read(f"{FOLDER}/{name}")) as file:
                size = file.size()
                is_sound = decode_index(file.read(0, size)) is not None
            if not is_sound:
                what = "this index is not what was written: it is a cache, and is made again from its file"
                found.findings.append(Finding(level=Level.NOTE, file=f"{FOLDER}/{name}", at=0, end=size, what=what))


def _verify_topic(disk: Disk, tier: DirectoryTier, found: Verification, topic_id: int, progress: Progress) -> None:
    history = found.histories[topic_id] = scan_history(disk, tier, found.known, topic_id)
    found.findings += history.findings
    found.files += manifest_name(topic_id, history.record.manifest_version) in history.files
    reader = SegmentReader(tier)
    for segment in history.segments:
        damage = check_segment(tier, reader, topic_id, segment)
        if damage:
            found.damaged_segments.setdefault(topic_id, []).append(segment)
            found.findings += damage
        name = segment_name(topic_id, segment)
        if name in history.files:
            found.files += 1
            found.bytes_read += _size(disk, name)
        progress(segment.file_bytes)
    for name in unlisted_segments(history) if history.manifest is None else ():
        walk = SegmentScan(tier, name, topic_id)
        found.findings += check_unlisted(tier, reader, walk)
        found.files += 1
        found.bytes_read += walk.file_bytes
        progress(walk.file_bytes)
    reader.forget(topic_id)
    _verify_end(tier, found, history)
    topic = found.ledger.topics.get(topic_id)
    gap = journal_gap(topic, history, found.walk.journal_id) if topic is not None else None
    # of a deleted topic only the journal may have some
    is_said = history.record.manifest_version or not found.known.is_blind
    if gap is not None and is_said and found.known.counts(topic_id) and not found.ledger.is_damaged:
        found.findings.append(_gap_finding(topic_id, *gap))


def end_by(found: Verification, manifest: Manifest) -> int:
    """Where all ends that this manifest and the journal have of a topic."""
    topic = found.ledger.topic(manifest.topic_id)
    goes_on = topic.first_above(manifest.journals.get(found.walk.journal_id, 0)) < len(topic)
    return max(manifest.end_offset, topic.ends[-1] if goes_on else 0)


def _verify_end(tier: DirectoryTier, found: Verification, history: TopicHistory) -> None:
    """Whether what metadata names and the journal are all there is of a topic; a damaged journal may have had more."""
    topic_id, manifest = history.topic_id, history.manifest
    if manifest is None or topic_id not in found.known.topics or found.ledger.is_damaged:
        return
    end_offset = end_by(found, manifest)
    unnamed = unnamed_history(tier, history.record, end_offset)
    if unnamed is not None:
        found.unnamed.add(topic_id)
        found.findings.append(
            Finding(
                file=manifest_name(topic_id, unnamed.version),
                at=0,
                end=0,
                what="the metadata is older than this manifest, which has messages that are nowhere else",
                topic_id=topic_id,
                first_offset=end_offset,
                end_offset=unnamed.end_offset,
            )
        )


def check_segment(tier: DirectoryTier, reader: SegmentReader, topic_id: int, segment: Segment) -> list[Finding]:
    """What is wrong with a segment; nothing when every byte of it is what was written."""
    try:
        reader.verify(topic_id, segment)
    except DamagedDataError as error:
        return _look_closer(tier, topic_id, segment, str(error))
    except StorageUnavailableError as error:
        if not isinstance(error.__cause__, FileNotFoundError):
            raise
        return [_whole(topic_id, segment, "the file is missing")]
    return []


def check_unlisted(tier: DirectoryTier, reader: SegmentReader, walk: SegmentScan) -> list[Finding]:
    """The same of a segment that no manifest speaks of: what it says of itself counts."""
    footer = walk.footer
    if footer is not None and segment_name(walk.topic_id, footer.segment) == walk.name:
        return check_segment(tier, reader, walk.topic_id, footer.segment)
    for _ in walk.batches():
        pass
    if footer is None:
        return walk.findings
    what = "it is another segment than its name says"
    return [*walk.findings, Finding(file=walk.name, at=0, end=walk.file_bytes, what=what, topic_id=walk.topic_id)]


def _look_closer(tier: DirectoryTier, topic_id: int, segment: Segment, said: str) -> list[Finding]:
    name = segment_name(topic_id, segment)
    walk = SegmentScan(tier, name, topic_id)
    walk.check_header(segment.base_offset, segment.manifest_version)
    offset, gaps = segment.base_offset, []
    for batch in walk.batches():
        if batch.base_offset > offset:
            gaps.append(range(offset, batch.base_offset))
        offset = max(offset, batch.end_offset)
    if offset < segment.end_offset:
        gaps.append(range(offset, segment.end_offset))
    told = {(finding.first_offset, finding.end_offset) for finding in walk.findings}
    walk.findings += [
        Finding(
            file=name,
            at=0,
            end=walk.file_bytes,
            what="these messages are not in the file as they should be",
            topic_id=topic_id,
            first_offset=gap.start,
            end_offset=gap.stop,
        )
        for gap in gaps
        if not any(first is not None and first <= gap.start and gap.stop <= (end or 0) for first, end in told)
    ]
    what = said.removeprefix(f"{name} is damaged ").partition(". ")[0]
    return walk.findings or [_whole(topic_id, segment, what)]


def _whole(topic_id: int, segment: Segment, what: str) -> Finding:
    return Finding(
        file=segment_name(topic_id, segment),
        at=0,
        end=segment.file_bytes,
        what=what,
        topic_id=topic_id,
        first_offset=segment.base_offset,
        end_offset=segment.end_offset,
    )


def _gap_finding(topic_id: int, end_offset: int, goes_on: int) -> Finding:
    return Finding(
        file=FOLDER,
        at=0,
        end=0,
        what=f"the segments end at offset {end_offset} and the journal goes on at {goes_on}",
        topic_id=topic_id,
        first_offset=min(end_offset, goes_on),
        end_offset=max(end_offset, goes_on),
    )


def _size(disk: Disk, name: str) -> int:
    with contextlib.closing(disk.open_read(name)) as file:
        return file.size()
