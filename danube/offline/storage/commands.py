"""Commands of `danube-broker storage`: they open a data folder that no broker uses, and show what is found."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

from danube.broker.config.settings import BrokerSettings
from danube.data_folder.after_repair import record_repair, recorded_repair
from danube.data_folder.data_folder import IDENTITY, JOURNAL, Identity, forget_journal
from danube.data_folder.findings import Finding
from danube.data_folder.metadata_view import MetadataView
from danube.metadata.raft.folder.format import FOLDER as RAFT
from danube.metadata.records.storage import TopicStorage
from danube.model.errors import (
    DamagedDataError,
    DataFolderError,
    NotFoundError,
    StorageUnavailableError,
    TopicNotFoundError,
)
from danube.model.exit_codes import ExitCode
from danube.model.limits.objects import OBJECT_READS_AHEAD
from danube.model.ownership import StorageMode
from danube.model.text import count_text
from danube.objects.bill import Bill, Cause
from danube.objects.opening import open_objects, unusable
from danube.objects.retrying import RetryingStore
from danube.offline.cli_options import PROGRAM, OutputFormat
from danube.offline.folder import identity_in, locked
from danube.offline.folder_metadata import FolderMetadata, metadata_of
from danube.offline.metadata.sources import Wanted
from danube.offline.output import progress, show
from danube.offline.storage import views
from danube.offline.storage.bucket import verify_bucket
from danube.offline.storage.one_file import FileContent, file_content, find_file
from danube.offline.storage.repair.quarantine_folder import QuarantineFolder
from danube.offline.storage.repair.repair import TEXT_REPORT, bytes_to_write, carry_out
from danube.offline.storage.repair.repair_plan import RepairPlan, plan_repair
from danube.offline.storage.report import plan_lines, report_of
from danube.offline.storage.scan.scan import ScanResult, scan, summaries_of, total_bytes, verify
from danube.offline.storage.tiered_bucket import verify_tiered
from danube.runtime.clock import SystemClock
from danube.runtime.console import say
from danube.runtime.disk import LocalDisk
from danube.runtime.rng import SystemRng
from danube.storage.damage import with_data_folder
from danube.storage.flush.manifest_lookup import load_manifest
from danube.storage.object_store.object_tier import BlockCache, ObjectTier
from danube.storage.object_store.side_by_side import SideBySide
from danube.storage.object_store.tiered_tier import MARKER
from danube.storage.tiers.directory import DirectoryTier

_TOLD_LATER = "The metadata learns of it when the broker starts next; nothing has to be done for that."


@dataclass(frozen=True, slots=True)
class _Folder:
    """A data folder that this process has locked."""

    path: Path
    disk: LocalDisk
    metadata: FolderMetadata
    identity: Identity | None
    """None where it cannot be read."""
    faults: tuple[Finding, ...]
    """What is wrong with the file that says whose folder it is."""

    @property
    def view(self) -> MetadataView:
        """The view that metadata gives."""
        return self.metadata.view

    @property
    def has_journal(self) -> bool:
        """True when the folder had a journal once."""
        return self.identity is not None and self.identity.has_journal


def inspect(wanted: Wanted, *, topic: str | None, file: str | None, output: OutputFormat) -> ExitCode:
    """Show what there is."""
    path = str(wanted.data_dir)
    with _opened(wanted) as folder:
        if file is not None:
            content = _content_of(folder, file)
            show(asdict(content), output, views.file_text(content))
            return ExitCode.OK
        found = scan(folder.disk, folder.view, has_journal=folder.has_journal)
        found.findings += folder.faults
        topics = summaries_of(found)
        if topic is not None:
            _require_topic(folder.view, topic)
            topics = [one for one in topics if one.topic == topic]
        broker_id = None if folder.identity is None else str(folder.identity.broker_id)
        text = with_data_folder(views.scan_text(found, topics, path, topic), path)
        show(views.scan_facts(found, topics, path, broker_id), output, text)
    return ExitCode.OK


def _content_of(folder: _Folder, file: str) -> FileContent:
    try:
        return file_content(folder.disk, find_file(folder.disk, file), folder.view)
    except NotFoundError as error:
        raise NotFoundError(with_data_folder(str(error), str(folder.path))) from None


def verify_folder(wanted: Wanted, *, output: OutputFormat) -> ExitCode:
    """Read everything and tell what is wrong."""
    with _opened(wanted) as folder:
        found = _verified(folder)
        text = with_data_folder(views.verification_text(found), str(wanted.data_dir))
        show(views.verification_facts(found), output, text)
    return ExitCode.OK if found.is_sound else ExitCode.DAMAGED_DATA


def verify_objects(settings: BrokerSettings, data_dir: Path | None = None, *, output: OutputFormat) -> ExitCode:
    """Read the bucket of the settings and tell what is wrong. Raises SettingsError, DanubeError.

    Where it holds older segments of a disk, that is the one of `data_dir`, or the shared folder.
    """
    place, clock = settings.object_store.place(), SystemClock()
    bill = Bill(clock.monotonic_s(), settings.object_store.prices)
    store = RetryingStore(open_objects(place), clock, SystemRng(), bill=bill, cause=Cause.READ)
    ahead = SideBySide(OBJECT_READS_AHEAD)
    try:
        cache = BlockCache(store, ahead)
        if settings.storage.mode is StorageMode.OBJECT_STORE:
            found = verify_bucket(store, ObjectTier(store, cache))
        else:
            path, below = _tiered_place(settings, data_dir)
            found = verify_tiered(store, LocalDisk(path), ObjectTier(store, cache, below=below), below)
    except OSError as error:
        raise unusable(error, place.url) from error
    finally:
        ahead.close()
        store.close()
    show(views.bucket_facts(found), output, views.bucket_text(found, place.url))
    return ExitCode.OK if found.is_sound else ExitCode.DAMAGED_DATA


def _tiered_place(settings: BrokerSettings, data_dir: Path | None) -> tuple[Path, str]:
    """The folder whose older segments are in the bucket, and their prefix there. Raises DataFolderError."""
    if settings.storage.folder is not None:
        return settings.storage.folder, "shared/"
    path = data_dir or settings.data_dir
    identity = identity_in(path)
    if identity is None:
        raise DataFolderError(f"{path} does not say whose folder it is: name that of a broker with --data-dir")
    return path, f"brokers/{identity.broker_id}/"


def repair(wanted: Wanted, *, accept_loss: bool, output: OutputFormat) -> ExitCode:
    """Plan a repair, and carry it out when that is accepted."""
    with _opened(wanted) as folder:
        found = _verified(folder)
        if found.is_sound and folder.view.unread is not None:  # nobody needs to know more
            return _nothing_to_repair(found, output)
        if any(one.is_damage and one.file == IDENTITY for one in folder.faults):  # no broker would start all the same
            return _nothing_to_repair(found, output)
        plan = plan_repair(folder.disk, found)
        if plan.is_empty and (untold := _untold(folder, found)):
            return _report_untold(folder, untold, output, is_accepted=accept_loss)
        if plan.is_empty:
            return _nothing_to_repair(found, output)
        planned, facts = "\n".join(plan_lines(plan)), report_of(plan, None, is_done=False)
        if not accept_loss:
            show(facts, output, f"{planned}\n")
            say("nothing was changed: repeat with --accept-loss to do this", PROGRAM)
            return ExitCode.NEEDS_YES
        quarantine = QuarantineFolder(folder.path, SystemClock().now_ms())
        _carry_out(folder, found, plan, quarantine)
        facts |= report_of(plan, quarantine.name, is_done=True) | {"done": True}
        report = f"Repaired. The report: {quarantine.path / TEXT_REPORT}"
        show(facts, output, f"{planned}\n\n{report}\n{_TOLD_LATER}\n")
    return ExitCode.OK


def _carry_out(folder: _Folder, found: ScanResult, plan: RepairPlan, quarantine: QuarantineFolder) -> None:
    if plan.journal:
        quarantine.check_movable(JOURNAL)
    forget = partial(forget_journal, folder.disk, folder.path) if folder.has_journal else lambda: None
    _record(folder, plan)
    with progress("writing", bytes_to_write(folder.disk, plan, found)) as wrote:
        carry_out(folder.disk, found, plan, quarantine, progress=wrote, forget_journal=forget)


def _untold(folder: _Folder, found: ScanResult) -> dict[int, int]:
    """The manifests, by topic, without which a broker serves none of its messages, or not all of them."""
    recorded = recorded_repair(folder.disk)
    return {
        topic_id: version
        for topic_id, version in folder.metadata.newer.items()
        if recorded.get(topic_id) != version and _is_outdated(folder, found, folder.metadata.named[topic_id], version)
    }


def _is_outdated(folder: _Folder, found: ScanResult, named: TopicStorage, manifest_version: int) -> bool:
    with closing(DirectoryTier(folder.disk)) as tier:
        newest = load_manifest(tier, named.topic_id, manifest_version)
        try:
            return newest.end_offset > found.end_by(load_manifest(tier, named.topic_id, named.manifest_version))
        except DamagedDataError:  # what the metadata names is gone
            return True


def _report_untold(folder: _Folder, untold: dict[int, int], output: OutputFormat, *, is_accepted: bool) -> ExitCode:
    """Nothing is damaged, and the metadata is older than the folder: it has to be told what counts."""
    if is_accepted:
        record_repair(folder.disk, untold)
    planned = f"The metadata is older than the files of {count_text(len(untold), 'topic')}. Nothing is lost.\n"
    facts = {"done": is_accepted, "topics": [], "damage": [], "newer": {str(one): untold[one] for one in untold}}
    show(facts, output, planned + (f"{_TOLD_LATER}\n" if is_accepted else ""))
    if is_accepted:
        return ExitCode.OK
    say("nothing was changed: repeat with --accept-loss to have it told", PROGRAM)
    return ExitCode.NEEDS_YES


def _nothing_to_repair(found: ScanResult, output: OutputFormat) -> ExitCode:
    damage = [asdict(finding) for finding in found.findings if finding.is_damage]
    told = f"{views.findings_text(found)}\n\nNone of this can be repaired: restore it from a backup.\n"
    text = told if damage else "Nothing to repair.\n"
    show({"done": False, "topics": [], "damage": damage}, output, text)
    return ExitCode.DAMAGED_DATA if damage else ExitCode.OK


@contextmanager
def _opened(wanted: Wanted) -> Iterator[_Folder]:
    """Lock a data folder and read its metadata. Raises DataFolderError, DataFolderInUseError."""
    with locked(wanted.data_dir) as disk:
        if disk.exists(MARKER):
            raise DataFolderError(
                f"segments of {wanted.data_dir} are in a bucket, which the file {MARKER} names: this version verifies"
                " and repairs only what is all on the disk"
            )
        identity = identity_in(wanted.data_dir)
        metadata = metadata_of(wanted, identity, disk)
        faults = _identity_faults(disk) if identity is None else ()
        yield _Folder(wanted.data_dir, disk, metadata, identity, faults)


def _identity_faults(disk: LocalDisk) -> tuple[Finding, ...]:
    """Damage of a folder that does not say whose it is: no broker starts on it then."""
    if disk.exists(IDENTITY):
        return (Finding(file=IDENTITY, at=0, end=0, what="it cannot be read, and no broker starts without it"),)
    if disk.exists(JOURNAL) or disk.exists(RAFT):  # without them a broker makes the file
        return (Finding(file=IDENTITY, at=0, end=0, what="the file is missing, and no broker starts without it"),)
    return ()


def _verified(folder: _Folder) -> ScanResult:
    with progress("reading", total_bytes(folder.disk)) as read:
        found = verify(folder.disk, folder.view, read, has_journal=folder.has_journal)
    found.findings += folder.faults
    return found


def _record(folder: _Folder, plan: RepairPlan) -> None:
    """Have the broker tell the metadata which manifests count, when it starts next."""
    repaired = {one.topic_id: one.manifest_version for one in plan.topics}
    record_repair(folder.disk, {**folder.metadata.newer, **repaired})


def _require_topic(view: MetadataView, topic: str) -> None:
    if view.is_blind:
        why = view.trouble or f"{view.place}: {view.unread}"
        raise StorageUnavailableError(f"{why}. Topics have no names without it; leave out --topic")
    if view.find(topic) is None:
        raise TopicNotFoundError(f"there is no stored topic {topic}: leave out --topic to see all")
