"""What `danube-broker storage` does: opens a data folder that no broker has, and shows what inspection finds."""

import asyncio
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from danube.broker import storage_views as views
from danube.broker.data_folder import IDENTITY, JOURNAL, LOCK, METADATA
from danube.metadata.sqlite import SqliteStore
from danube.metadata.storage_records import StorageRecords, TopicStorage
from danube.model.errors import DataFolderError, DataFolderInUseError, StorageUnavailableError, TopicNotFoundError
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

_PROGRAM = "danube-broker"


@dataclass(frozen=True, slots=True)
class _Folder:
    """A data folder that this process has locked."""

    path: Path
    disk: LocalDisk
    known: Known
    broker_id: str | None


def inspect(path: Path, *, topic: str | None, file: str | None, as_json: bool) -> ExitCode:
    """Show what there is."""
    with _opened(path) as folder:
        if file is not None:
            content = file_content(folder.disk, find_file(folder.disk, file), folder.known)
            write(views.json_of(content) if as_json else views.file_text(content))
            return ExitCode.OK
        found = survey(folder.disk, folder.known)
        if topic is not None:
            _require_topic(folder.known, topic)
            found.topics = [one for one in found.topics if one.topic == topic]
        if as_json:
            write(views.survey_json(found, str(folder.path), folder.broker_id))
        else:
            write(views.survey_text(found, str(folder.path), topic))
    return ExitCode.OK


def verify_folder(path: Path, *, as_json: bool) -> ExitCode:
    """Read everything and tell what is wrong."""
    with _opened(path) as folder:
        found = _verified(folder)
        write(views.verification_json(found) if as_json else views.verification_text(found))
    return ExitCode.OK if found.is_sound else ExitCode.DAMAGED_DATA


def repair(path: Path, *, accept_loss: bool, as_json: bool) -> ExitCode:
    """Plan a repair, and carry it out when that is accepted."""
    with _opened(path) as folder:
        found = _verified(folder)
        plan = plan_repair(folder.disk, found)
        if plan.is_empty:
            write(_json({"done": False, "topics": [], "damage": []}) if as_json else "Nothing to repair.\n")
            return ExitCode.OK if found.is_sound else ExitCode.DAMAGED_DATA
        if not accept_loss:
            write(_json(report_of(plan, None, is_done=False)) if as_json else "\n".join(plan_lines(plan)) + "\n")
            say("nothing was changed: repeat with --accept-loss to do this", _PROGRAM)
            return ExitCode.NEEDS_YES
        aside = Aside(path, SystemClock().now_ms())
        carry_out(folder.disk, found, plan, aside, _pointer(path / METADATA))
        if as_json:
            write(_json(report_of(plan, aside.name, is_done=True)))
        else:
            write("\n".join(plan_lines(plan)) + f"\n\nRepaired. The report: {aside.path / TEXT_REPORT}\n")
    return ExitCode.OK


@contextmanager
def _opened(path: Path) -> Iterator[_Folder]:
    """Lock a data folder and read its metadata. Raises DataFolderError, DataFolderInUseError."""
    if not any((path / name).exists() for name in (IDENTITY, JOURNAL, METADATA)):
        raise DataFolderError(f"{path} is not the data folder of a broker: name it with --data-dir")
    disk = LocalDisk(path)
    try:
        lock = disk.lock(LOCK)
    except BlockingIOError:
        raise DataFolderInUseError(
            f"the data folder {path} is in use by a broker that runs: stop it first, or look at a copy of the folder"
        ) from None
    except OSError as error:
        raise DataFolderError(f"cannot lock the data folder {path}: {error.strerror}; check its permissions") from None
    try:
        yield _Folder(path, disk, read_known(path), _broker_id(path))
    except BrokenPipeError:  # whoever read our output has left
        raise
    except OSError as error:
        raise DataFolderError(f"{error.filename or path}: {error.strerror or error}; check the disk") from error
    finally:
        lock.release()


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


def _broker_id(path: Path) -> str | None:
    try:
        return str(json.loads((path / IDENTITY).read_bytes())["broker_id"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _require_topic(known: Known, topic: str) -> None:
    if known.trouble is not None:
        raise StorageUnavailableError(f"{known.trouble}: topics have no names without it; leave out --topic")
    if known.find(topic) is None:
        raise TopicNotFoundError(f"there is no stored topic {topic}: leave out --topic to see all")


def _json(value: object) -> str:
    return json.dumps(value, indent=2) + "\n"
