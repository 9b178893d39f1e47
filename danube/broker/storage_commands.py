"""What `danube-broker storage` does: opens a data folder that no broker has, and shows what inspection finds."""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from danube.broker import storage_views as views
from danube.broker.answers import shown
from danube.broker.cli_options import PROGRAM, OutputFormat
from danube.broker.data_folder import METADATA
from danube.broker.offline_folder import identity_in, locked
from danube.metadata.sqlite import SqliteStore
from danube.metadata.storage_records import StorageRecords, TopicStorage
from danube.model.errors import StorageUnavailableError, TopicNotFoundError
from danube.model.exit_codes import ExitCode
from danube.runtime.clock import SystemClock
from danube.runtime.console import say, write
from danube.runtime.disk import LocalDisk
from danube.runtime.rng import SystemRng
from danube.storage.inspection.aside import Aside
from danube.storage.inspection.known import Known, read_known
from danube.storage.inspection.one_file import file_content, find_file
from danube.storage.inspection.repair import TEXT_REPORT, carry_out
from danube.storage.inspection.repair_plan import plan_repair
from danube.storage.inspection.report import plan_lines, report_of
from danube.storage.inspection.survey import survey
from danube.storage.inspection.verifying import Verification, total_bytes, verify


@dataclass(frozen=True, slots=True)
class _Folder:
    """A data folder that this process has locked."""

    disk: LocalDisk
    known: Known
    broker_id: str | None


def inspect(path: Path, *, topic: str | None, file: str | None, output: OutputFormat) -> ExitCode:
    """Show what there is."""
    with _opened(path) as folder:
        if file is not None:
            content = file_content(folder.disk, find_file(folder.disk, file), folder.known)
            write(shown(asdict(content), output, lambda _: views.file_text(content)))
            return ExitCode.OK
        found = survey(folder.disk, folder.known)
        if topic is not None:
            _require_topic(folder.known, topic)
            found.topics = [one for one in found.topics if one.topic == topic]
        facts = views.survey_facts(found, str(path), folder.broker_id)
        write(shown(facts, output, lambda _: views.survey_text(found, str(path), topic)))
    return ExitCode.OK


def verify_folder(path: Path, *, output: OutputFormat) -> ExitCode:
    """Read everything and tell what is wrong."""
    with _opened(path) as folder:
        found = _verified(folder)
        write(shown(views.verification_facts(found), output, lambda _: views.verification_text(found)))
    return ExitCode.OK if found.is_sound else ExitCode.DAMAGED_DATA


def repair(path: Path, *, accept_loss: bool, output: OutputFormat) -> ExitCode:
    """Plan a repair, and carry it out when that is accepted."""
    with _opened(path) as folder:
        found = _verified(folder)
        plan = plan_repair(folder.disk, found)
        if plan.is_empty:
            write(shown({"done": False, "topics": [], "damage": []}, output, lambda _: "Nothing to repair.\n"))
            return ExitCode.OK if found.is_sound else ExitCode.DAMAGED_DATA
        planned = "\n".join(plan_lines(plan))
        if not accept_loss:
            write(shown(report_of(plan, None, is_done=False), output, lambda _: f"{planned}\n"))
            say("nothing was changed: repeat with --accept-loss to do this", PROGRAM)
            return ExitCode.NEEDS_YES
        aside = Aside(path, SystemClock().now_ms())
        carry_out(folder.disk, found, plan, aside, _pointer(path / METADATA))
        done = f"{planned}\n\nRepaired. The report: {aside.path / TEXT_REPORT}\n"
        write(shown(report_of(plan, aside.name, is_done=True), output, lambda _: done))
    return ExitCode.OK


@contextmanager
def _opened(path: Path) -> Iterator[_Folder]:
    """Lock a data folder and read its metadata. Raises DataFolderError, DataFolderInUseError."""
    with locked(path) as disk:
        identity = identity_in(path)
        yield _Folder(disk, read_known(path), str(identity.broker_id) if identity is not None else None)


def _verified(folder: _Folder) -> Verification:
    with views.progress(total_bytes(folder.disk)) as read:
        return verify(folder.disk, folder.known, read)


def _pointer(metadata: Path) -> Callable[[Sequence[tuple[TopicStorage, int]]], None]:
    async def point(changes: Sequence[tuple[TopicStorage, int]]) -> None:
        store = await SqliteStore.open(metadata, SystemClock())
        try:
            await StorageRecords(store, SystemRng()).point(changes)
        finally:
            await store.close()

    return lambda changes: asyncio.run(point(changes))


def _require_topic(known: Known, topic: str) -> None:
    if known.trouble is not None:
        raise StorageUnavailableError(f"{known.trouble}: topics have no names without it; leave out --topic")
    if known.find(topic) is None:
        raise TopicNotFoundError(f"there is no stored topic {topic}: leave out --topic to see all")
