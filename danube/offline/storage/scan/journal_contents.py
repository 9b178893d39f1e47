"""Contents of a journal by topic, whether it is whole or not: the events of a scan, put together. Pure."""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from danube.data_folder.findings import Finding, damage, note
from danube.model.limits.broker import PLACEHOLDER_OFFSETS_SKIPPED_MAX
from danube.model.subscription import Cursor
from danube.storage.batches.batch import LENGTH_BYTES
from danube.storage.batches.cursors import decode_cursor
from danube.storage.batches.envelope import Envelope, Kind
from danube.storage.batches.producer_state import StoredNumbers, StoredProducerStates, sequenced_batch
from danube.storage.journal.contents import FileIndex
from danube.storage.journal.index import Located
from danube.storage.journal.walker import Damage, Entry, Event, FileBegun, SoundRound, Torn


@dataclass(slots=True)
class JournalTopic:
    """One topic's sound records in a journal: 36 bytes a batch."""

    bases: "array[int]" = field(default_factory=lambda: array("Q"))
    ends: "array[int]" = field(default_factory=lambda: array("Q"))
    positions: "array[int]" = field(default_factory=lambda: array("Q"))
    times: "array[int]" = field(default_factory=lambda: array("Q"))
    lengths: "array[int]" = field(default_factory=lambda: array("I"))
    cursors: dict[int, tuple[int, Cursor]] = field(default_factory=dict)
    """By subscription id the last one, and the position of its record."""
    producer_states: StoredProducerStates = field(default_factory=StoredProducerStates)
    lost_end: int = 0
    """After the last offset that is known of a message that is lost; 0 when there is none."""
    doubts_before: int = 0
    """How many of the journal's doubts lie before its last known batch."""

    def __len__(self) -> int:
        """The number of batches."""
        return len(self.bases)

    def __getitem__(self, number: int) -> Located:
        return Located(
            self.bases[number], self.ends[number], self.positions[number], self.lengths[number], self.times[number]
        )

    def first_above(self, position: int) -> int:
        """The number of the first batch at a position or behind it; how many there are when none is."""
        return bisect_left(self.positions, position)

    def within(self, offsets: range) -> range:
        """The numbers of the batches of which all records have these offsets."""
        first = bisect_left(self.bases, offsets.start)
        return range(first, max(first, bisect_right(self.ends, offsets.stop)))

    def add(self, envelope: Envelope, position: int, body: bytes) -> str | None:
        """The next record; answers what is wrong with it when it cannot follow."""
        if envelope.kind is Kind.CURSOR:
            decoded = decode_cursor(body)
            if decoded is None:
                return "a cursor is not what was written"
            self.cursors[decoded[0]] = (position, decoded[1])
        return self._add_batch(envelope, position, body) if envelope.kind is Kind.DATA else None

    def _add_batch(self, envelope: Envelope, position: int, body: bytes) -> str | None:
        base, end = envelope.base_offset, envelope.base_offset + envelope.count
        wrong = None
        if self.ends and self.ends[-1] != base:
            wrong = f"offset {base} follows after offset {self.ends[-1]}"
            if base < self.ends[-1]:
                return wrong
        self.bases.append(base)
        self.ends.append(end)
        self.positions.append(position)
        self.times.append(envelope.append_time_ms)
        self.lengths.append(envelope.body_bytes)
        if (sequenced := sequenced_batch(body)) is not None:
            self.producer_states.add(sequenced, base)
        return wrong


_NOTHING = JournalTopic()


@dataclass(slots=True)
class FileSummary:
    """One journal file, as far as it was gone through."""

    sequence: int
    file: str
    base_position: int
    file_bytes: int
    rounds: int = 0
    records: int = 0
    synced_to: int = 0
    """The highest position that a header in it says was synced."""
    torn_bytes: int = 0
    damaged_bytes: int = 0
    oldest_append_ms: int | None = None
    newest_append_ms: int | None = None
    topics: set[int] = field(default_factory=set)

    def note(self, envelope: Envelope) -> None:
        """A record is in it."""
        self.records += 1
        self.topics.add(envelope.topic_id)
        time_ms = envelope.append_time_ms
        self.oldest_append_ms = min(time_ms, self.oldest_append_ms or time_ms)
        self.newest_append_ms = max(time_ms, self.newest_append_ms or time_ms)


@dataclass(slots=True)
class JournalContents:
    """The whole journal: `add` every event of a scan, in order."""

    counts: Callable[[int], bool] = lambda _: True
    """True if a topic is known: the records of others need not follow on each other."""
    topics: dict[int, JournalTopic] = field(default_factory=dict)
    files: list[FileSummary] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    doubts: list[tuple[int | None, int]] = field(default_factory=list)
    """Bytes in which nobody can say what was: the position behind them, None when that is not known, and how many."""
    is_end_missing: bool = False
    """True if there were more behind all that is known; how many is unknown."""

    def topic(self, topic_id: int) -> JournalTopic:
        """The records of a topic; an empty one when there are none."""
        return self.topics.get(topic_id, _NOTHING)

    @property
    def unknown_bytes(self) -> int:
        """Damaged bytes in which nobody can say what was."""
        return sum(size for _, size in self.doubts)

    def doubtful_offsets(self, topic_id: int, covered: int) -> int:
        """Offsets behind all that is known of a topic that may have been given out.

        What is below the position `covered` is in segments. A record takes LENGTH_BYTES at least; where the end of the
        journal is missing, and in a great many bytes, LOST_OFFSETS_SKIPPED_MAX is what is thought of.
        """
        if self.is_end_missing:
            return PLACEHOLDER_OFFSETS_SKIPPED_MAX
        first = self.topics[topic_id].doubts_before if topic_id in self.topics else 0
        unknown = sum(size for end, size in self.doubts[first:] if end is None or end > covered)
        return min(unknown // LENGTH_BYTES, PLACEHOLDER_OFFSETS_SKIPPED_MAX)

    @property
    def is_damaged(self) -> bool:
        """True when a broker would refuse to start on it."""
        return any(finding.is_damage for finding in self.findings)

    def add(self, event: Event) -> None:
        """The next event."""
        match event:
            case FileBegun():
                self.files.append(FileSummary(event.sequence, event.file, event.base_position, event.file_bytes))
                self.files[-1].synced_to = event.header.synced_to if event.header is not None else 0
            case SoundRound():
                summary = self.files[-1]
                summary.rounds += 1
                summary.synced_to = max(summary.synced_to, event.header.synced_to)
                self._add_records(event.file, summary.base_position, event.entries)
            case Damage():
                self._add_damage(event)
            case Torn():
                what = "the end was never synced: the next start cuts it"
                self.findings.append(note(event.file, what, range(event.at, event.end)))
                if self.files and self.files[-1].file == event.file:
                    self.files[-1].torn_bytes = event.end - event.at

    def _add_damage(self, found: Damage) -> None:
        file, at, end, what = found.file, found.at, found.end, found.what
        if found.unknown_bytes or not found.lost:
            self.findings.append(damage(file, what, range(at, end)))
        summary = self.files[-1] if self.files and self.files[-1].file == file else None
        if summary is not None:
            summary.damaged_bytes += end - at
            self._add_records(file, summary.base_position, found.kept)
        for envelope, at in found.lost:
            self._add_lost(file, at, envelope)
        if found.index is not None:
            self._add_gone(file, found.index)
        if found.unknown_bytes:
            self.doubts.append((found.unknown_end, found.unknown_bytes))
        self.is_end_missing = self.is_end_missing or found.is_open_ended

    def _add_gone(self, file: str, index: FileIndex) -> None:
        """A file is missing that had an index: its messages are lost, but not where subscriptions stood in it."""
        for topic_id, run in index.runs.items():
            topic = self.topics.setdefault(topic_id, JournalTopic())
            if run and self.counts(topic_id):
                self._add_lost_end(topic, run.end_offset)
                offsets = range(run.bases[0], run.end_offset)
                self.findings.append(damage(file, "these messages were in it", topic_id=topic_id, offsets=offsets))
        for (topic_id, subscription_id), placed in index.contents.cursors.items():
            self.topics.setdefault(topic_id, JournalTopic()).cursors[subscription_id] = placed

    def _add_lost_end(self, topic: JournalTopic, end_offset: int) -> None:
        topic.lost_end = max(topic.lost_end, end_offset)
        topic.doubts_before = len(self.doubts)

    def _add_lost(self, file: str, at: int, envelope: Envelope) -> None:
        topic = self.topics.setdefault(envelope.topic_id, JournalTopic())
        offsets = None
        if envelope.kind is Kind.DATA:
            offsets = range(envelope.base_offset, envelope.base_offset + envelope.count)
            self._add_lost_end(topic, offsets.stop)
        what = f"the body of a {envelope.kind.name.lower()} record is not what was written"
        where = range(at, at + envelope.total_bytes)
        self.findings.append(damage(file, what, where, topic_id=envelope.topic_id, offsets=offsets))

    def _add_records(self, file: str, base_position: int, entries: list[Entry] | tuple[Entry, ...]) -> None:
        summary = self.files[-1]
        for envelope, position, body in entries:
            summary.note(envelope)
            topic = self.topics.setdefault(envelope.topic_id, JournalTopic())
            wrong = topic.add(envelope, position, body)
            if envelope.kind is Kind.DATA:
                topic.doubts_before = len(self.doubts)
            # behind damage, what was in there is missing, of course
            if wrong and not self.is_damaged and self.counts(envelope.topic_id):
                at = position - base_position
                where = range(at, at + envelope.total_bytes)
                self.findings.append(damage(file, wrong, where, topic_id=envelope.topic_id))


def cursors_over(known: Mapping[int, Cursor], topic: JournalTopic | None, covered: int) -> dict[int, Cursor]:
    """The cursors of a manifest, replaced by those that the journal holds from `covered` on."""
    later = topic.cursors.items() if topic is not None else ()
    return {**known, **{key: cursor for key, (position, cursor) in later if position >= covered}}


def producer_states_over(
    known: tuple[tuple[StoredNumbers, ...], ...], topic: JournalTopic | None, end_offset: int
) -> tuple[tuple[StoredNumbers, ...], ...]:
    """The last numbered batches, of a manifest and then of the journal, as far as they are below `end_offset`."""
    merged = StoredProducerStates()
    merged.restore(known)
    later = sorted(
        (one.base_offset, one) for row in (topic.producer_states.rows() if topic is not None else ()) for one in row
    )
    for base_offset, one in later:
        merged.add(one.batch, base_offset)
    merged.drop_from(end_offset)
    return merged.rows()
