"""What `danube-broker storage` does: opens a data folder that no broker has, and shows what inspection finds."""

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

from danube.data_folder.after_repair import note_repair
from danube.data_folder.data_folder import IDENTITY, JOURNAL, METADATA, Identity, forget_journal
from danube.data_folder.findings import Finding
from danube.data_folder.metadata_view import MetadataView
from danube.data_folder.older_metadata import OlderMetadata, accept
from danube.metadata.records.storage import StorageRecords, TopicStorage
from danube.metadata.sqlite.store import SqliteStore
from danube.model.errors import DamagedDataError, NotFoundError, StorageUnavailableError, TopicNotFoundError
from danube.model.exit_codes import ExitCode
from danube.model.text import count_text
from danube.offline.answers import shown
from danube.offline.cli_options import PROGRAM, OutputFormat
from danube.offline.folder import identity_in, locked
from danube.offline.folder_metadata import FolderMetadata, metadata_of
from danube.offline.metadata.sources import Wanted
from danube.offline.storage import views
from danube.offline.storage.one_file import FileContent, file_content, find_file
from danube.offline.storage.repair.quarantine_folder import QuarantineFolder
from danube.offline.storage.repair.repair import TEXT_REPORT, Point, bytes_to_write, carry_out
from danube.offline.storage.repair.repair_plan import RepairPlan, plan_repair
from danube.offline.storage.report import plan_lines, report_of
from danube.offline.storage.scan.scan import scan
from danube.offline.storage.verify import Verification, end_by, total_bytes, verify
from danube.runtime.clock import SystemClock
from danube.runtime.console import say, write
from danube.runtime.disk import LocalDisk
from danube.runtime.rng import SystemRng
from danube.storage.damage import with_data_folder
from danube.storage.flush.manifest_lookup import load_manifest
from danube.storage.tiers.directory import DirectoryTier

_TOLD_LATER = "This broker's cluster learns of it when the broker starts next; nothing has to be done for that."


@dataclass(frozen=True, slots=True)
class _Folder:
    """A data folder that this process has locked."""

    path: Path
    disk: LocalDisk
    metadata: FolderMetadata
    identity: Identity | None
    """None where it cannot be read."""
    trouble: tuple[Finding, ...]
    """What is wrong with the file that says whose folder it is, or with the age of the metadata."""

    @property
    def known(self) -> MetadataView:
        """What metadata says."""
        return self.metadata.known

    @property
    def broker_id(self) -> str | None:
        """Whose folder it is."""
        return None if self.identity is None else str(self.identity.broker_id)

    @property
    def has_journal(self) -> bool:
        """Whether there was one once."""
        return self.identity is not None and self.identity.has_journal


def inspect(wanted: Wanted, *, topic: str | None, file: str | None, output: OutputFormat) -> ExitCode:
    """Show what there is."""
    path = str(wanted.data_dir)
    with _opened(wanted) as folder:
        if file is not None:
            content = _content_of(folder, file)
            write(shown(asdict(content), output, lambda _: views.file_text(content)))
            return ExitCode.OK
        found = scan(folder.disk, folder.known, has_journal=folder.has_journal)
        found.findings += folder.trouble
        if topic is not None:
            _require_topic(folder.known, topic)
            found.topics = [one for one in found.topics if one.topic == topic]
        facts = views.scan_facts(found, path, folder.broker_id)
        text = with_data_folder(views.scan_text(found, path, topic), path)
        write(shown(facts, output, lambda _: text))
    return ExitCode.OK


def _content_of(folder: _Folder, file: str) -> FileContent:
    try:
        return file_content(folder.disk, find_file(folder.disk, file), folder.known)
    except NotFoundError as error:
        raise NotFoundError(with_data_folder(str(error), str(folder.path))) from None


def verify_folder(wanted: Wanted, *, output: OutputFormat) -> ExitCode:
    """Read everything and tell what is wrong."""
    with _opened(wanted) as folder:
        found = _verified(folder)
        text = with_data_folder(views.verification_text(found), str(wanted.data_dir))
        write(shown(views.verification_facts(found), output, lambda _: text))
    return ExitCode.OK if found.is_sound else ExitCode.DAMAGED_DATA


def repair(wanted: Wanted, *, accept_loss: bool, output: OutputFormat) -> ExitCode:
    """Plan a repair, and carry it out when that is accepted."""
    with _opened(wanted) as folder:
        found = _verified(folder)
        if found.is_sound and folder.known.unread is not None:  # nobody needs to know more
            return _nothing_to_repair(found, output)
        if any(one.is_damage and one.file == IDENTITY for one in folder.trouble):  # no broker would start all the same
            return _nothing_to_repair(found, output)
        plan, rolled_back = plan_repair(folder.disk, found), _to_accept(folder)
        if plan.is_empty and rolled_back is None and (untold := _untold(folder, found)):
            return _tell(folder, untold, output, is_accepted=accept_loss)
        if plan.is_empty and rolled_back is None:
            return _nothing_to_repair(found, output)
        planned = "\n".join([*(plan_lines(plan) if not plan.is_empty else ()), *_given_up(rolled_back)])
        facts = report_of(plan, None, is_done=False)
        if rolled_back is not None:
            facts["lost_topics"] = [asdict(one) for one in rolled_back.lost]
        if not accept_loss:
            write(shown(facts, output, lambda _: f"{planned}\n"))
            say("nothing was changed: repeat with --accept-loss to do this", PROGRAM)
            return ExitCode.NEEDS_YES
        aside = QuarantineFolder(folder.path, SystemClock().now_ms())
        if rolled_back is not None and folder.identity is not None:  # first: a person has said so, whatever comes now
            accept(folder.path, folder.identity, rolled_back.mark)
        done = f"{planned}\n\nRepaired."
        if not plan.is_empty:
            _carry_out(folder, found, plan, aside)
            done += f" The report: {aside.path / TEXT_REPORT}"
            facts |= report_of(plan, aside.name, is_done=True)
        if folder.metadata.is_shared:
            done += f"\n{_TOLD_LATER}"
        write(shown(facts | {"done": True}, output, lambda _: f"{done}\n"))
    return ExitCode.OK


def _carry_out(folder: _Folder, found: Verification, plan: RepairPlan, aside: QuarantineFolder) -> None:
    if plan.journal:
        aside.check_movable(JOURNAL)
    point, forget = _pointer(folder, plan), partial(_forget_journal, folder)
    with views.progress("writing", bytes_to_write(folder.disk, plan, found)) as wrote:
        carry_out(folder.disk, found, plan, aside, point, progress=wrote, forget_journal=forget)


def _to_accept(folder: _Folder) -> OlderMetadata | None:
    """Metadata that has lost its newest changes, where nobody has accepted that yet.

    Raises DamagedDataError where it has lost all of them: nothing tells that it is of this folder.
    """
    rolled_back, identity = folder.metadata.rolled_back, folder.identity
    if rolled_back is None or rolled_back.is_accepted or identity is None:
        return None
    if folder.known.cluster_id != identity.cluster_id:
        raise DamagedDataError(
            f"{METADATA} is not of this folder, or has lost all that it held: {rolled_back.rollback}. Without it"
            " nothing can be repaired: restore it from a backup"
        )
    return rolled_back


def _given_up(rolled_back: OlderMetadata | None) -> Sequence[str]:
    return () if rolled_back is None else (rolled_back.text(),)


def _untold(folder: _Folder, found: Verification) -> dict[int, int]:
    """The manifests, by topic, without which a broker of a cluster serves none of its messages, or not all of them."""
    return {
        topic_id: folder.metadata.newer[topic_id]
        for topic_id, record in folder.metadata.named.items()
        if _is_outdated(folder, found, record, folder.metadata.newer[topic_id])
    }


def _is_outdated(folder: _Folder, found: Verification, named: TopicStorage, manifest_version: int) -> bool:
    tier = DirectoryTier(folder.disk)
    try:
        newest = load_manifest(tier, named.topic_id, manifest_version)
        return newest.end_offset > end_by(found, load_manifest(tier, named.topic_id, named.manifest_version))
    except DamagedDataError:  # what the metadata names is gone
        return True
    finally:
        tier.close()


def _tell(folder: _Folder, untold: dict[int, int], output: OutputFormat, *, is_accepted: bool) -> ExitCode:
    """Nothing is damaged, and the metadata of the cluster is older than the folder: it has to be told what counts."""
    if is_accepted:
        note_repair(folder.disk, untold)
    planned = f"The metadata is older than the files of {count_text(len(untold), 'topic')}. Nothing is lost.\n"
    facts = {"done": is_accepted, "topics": [], "damage": [], "newer": {str(one): untold[one] for one in untold}}
    write(shown(facts, output, lambda _: planned + (f"{_TOLD_LATER}\n" if is_accepted else "")))
    if is_accepted:
        return ExitCode.OK
    say("nothing was changed: repeat with --accept-loss to have the cluster told", PROGRAM)
    return ExitCode.NEEDS_YES


def _nothing_to_repair(found: Verification, output: OutputFormat) -> ExitCode:
    damage = [asdict(finding) for finding in found.findings if finding.is_damage]
    told = f"{views.findings_text(found)}\n\nNone of this can be repaired: restore it from a backup.\n"
    text = told if damage else "Nothing to repair.\n"
    write(shown({"done": False, "topics": [], "damage": damage}, output, lambda _: text))
    return ExitCode.DAMAGED_DATA if damage else ExitCode.OK


@contextmanager
def _opened(wanted: Wanted) -> Iterator[_Folder]:
    """Lock a data folder and read its metadata. Raises DataFolderError, DataFolderInUseError."""
    with locked(wanted.data_dir) as disk:
        identity = identity_in(wanted.data_dir)
        metadata = metadata_of(wanted, identity, disk)
        trouble = _identity_trouble(disk) if identity is None and metadata.known.place != IDENTITY else ()
        if metadata.rolled_back is not None:
            trouble = (*trouble, *metadata.rolled_back.findings())
        yield _Folder(wanted.data_dir, disk, metadata, identity, trouble)


def _identity_trouble(disk: LocalDisk) -> tuple[Finding, ...]:
    """What is wrong where the folder does not say whose it is: no broker starts on what is in it then."""
    if disk.exists(IDENTITY):
        return (Finding(file=IDENTITY, at=0, end=0, what="it cannot be read, and no broker starts without it"),)
    if disk.exists(JOURNAL):  # without one a broker makes the file
        return (Finding(file=IDENTITY, at=0, end=0, what="the file is missing, and no broker starts without it"),)
    return ()


def _forget_journal(folder: _Folder) -> None:
    if folder.has_journal:
        forget_journal(folder.disk, folder.path)


def _verified(folder: _Folder) -> Verification:
    with views.progress("reading", total_bytes(folder.disk)) as read:
        found = verify(folder.disk, folder.known, read, has_journal=folder.has_journal)
    found.findings += folder.trouble
    return found


def _pointer(folder: _Folder, plan: RepairPlan) -> Point:
    """How metadata learns which manifests count: at once, or from the broker when it starts next."""
    if folder.metadata.is_shared:
        note_repair(
            folder.disk, {**folder.metadata.newer, **{one.topic_id: one.manifest_version for one in plan.topics}}
        )
        return lambda _: None
    metadata = folder.path / METADATA

    async def point(changes: Sequence[tuple[TopicStorage, int]]) -> None:
        store = await SqliteStore.open(metadata, SystemClock())
        try:
            await StorageRecords(store, SystemRng()).point(changes)
        finally:
            await store.close()

    return lambda changes: asyncio.run(point(changes))


def _require_topic(known: MetadataView, topic: str) -> None:
    if known.is_blind:
        why = known.trouble or f"{known.place}: {known.unread}"
        raise StorageUnavailableError(f"{why}. Topics have no names without it; leave out --topic")
    if known.find(topic) is None:
        raise TopicNotFoundError(f"there is no stored topic {topic}: leave out --topic to see all")
