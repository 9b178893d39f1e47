"""Commands of `danube-broker metadata`: they back up metadata, restore it, and show what there is."""

import shlex
import sys
from collections.abc import Callable, Sequence
from contextlib import nullcontext, suppress
from dataclasses import asdict
from pathlib import Path

from danube.broker.config.metadata_store import MetaStoreType
from danube.data_folder.data_folder import Identity, read_identity
from danube.data_folder.older_metadata import (
    ASIDE,
    LostTopic,
    accept,
    find_older_metadata,
    named,
    served_by,
)
from danube.metadata.backup.backup import Restored, cluster_id_of, restored
from danube.metadata.backup.format import Backup, Origin, check_size, decode_backup, encode_backup
from danube.metadata.raft.folder.inspection import RaftReport, inspect_folder
from danube.metadata.records.families import families, fault_of, value_of
from danube.metadata.records.restore_mark import NEVER_RESTORED, RestoreMark, mark_of
from danube.metadata.state import StateSnapshot
from danube.metadata.store import Entry
from danube.model.errors import (
    DanubeError,
    DataFolderError,
    InvalidRequestError,
    MetadataError,
    NotFoundError,
    PreconditionFailedError,
)
from danube.model.exit_codes import ExitCode
from danube.model.limits.faces import CLI_ANSWER_CHARS_MAX
from danube.model.limits.metadata import METADATA_KEYS_SHOWN_MAX
from danube.model.text import count_text
from danube.offline.cli_options import PROGRAM, OutputFormat
from danube.offline.folder import identity_in, locked, stamped
from danube.offline.metadata import views
from danube.offline.metadata.sources import Place, Wanted, opened
from danube.offline.output import Facts, progress, show, waiting
from danube.runtime.clock import SystemClock
from danube.runtime.console import is_terminal, say
from danube.runtime.disk import LocalDisk
from danube.runtime.rng import SystemRng


def backup(wanted: Wanted, file: Path, *, overwrite: bool, output: OutputFormat) -> ExitCode:
    """Write all metadata to a file, whole and synced, or nothing."""
    _check_target(file, overwrite=overwrite)
    with opened(wanted) as place, waiting("reading"):
        taken = place.read()
    with progress("writing", len(taken.snapshot.entries), unit="keys") as told:
        pieces = encode_backup(taken, told)
        _write_file(file, pieces, overwrite=overwrite)
    facts = {
        "file": str(file),
        "bytes": sum(map(len, pieces)),
        "origin": _origin_facts(taken.origin),
        "revision": taken.snapshot.revision,
        "keys": len(taken.snapshot.entries),
    }
    show(facts, output, views.backup_text)
    return ExitCode.OK


def restore(wanted: Wanted, file: Path, *, force: bool, yes: bool, output: OutputFormat) -> ExitCode:
    """Have an empty store hold what a backup does; with `force` also one that is not empty, which is set aside."""
    source = _read_file(file)
    changed = restored(source, to_cluster=wanted.is_of_cluster, restore_id=f"{SystemRng().new_id():016x}")
    with opened(wanted, to_fill=True) as place:
        place.check(source)
        is_empty = place.is_empty()
        lost = _lost(place, changed)
        if not is_empty:
            _require_force(place, force=force)
            if not yes and not _agreed(place, len(lost)):
                return ExitCode.NEEDS_YES
        quarantine = stamped(wanted.data_dir, ASIDE, SystemClock().now_ms())
        with waiting("restoring"):
            planted = place.plant(changed.snapshot, quarantine)
            _compare(place, changed.snapshot)
        lost = named(wanted.data_dir, lost)
    facts = {
        "file": str(file),
        "origin": _origin_facts(source.origin),
        "into": planted.what,
        **_restored_facts(changed),
        "set_aside": None if is_empty else str(wanted.data_dir / quarantine),
        "lost": [asdict(one) for one in lost],
        "next": _next_step(wanted, lost) or planted.next_step,
    }
    show(facts, output, views.restore_text)
    return ExitCode.OK


def inspect(
    wanted: Wanted, *, file: Path | None, prefix: str | None, key: str | None, output: OutputFormat
) -> ExitCode:
    """Show what a store or a backup holds; ends with DAMAGED_DATA when something in it is damaged."""
    report = None
    if file is not None:
        found = _read_file(file)
    else:
        with opened(wanted) as place:
            report = _report(place)
            if report is not None and report.findings:
                return _show_damaged(place, report, output)
            with waiting("reading"):
                found = place.read()
    if prefix is None and key is None:
        return _show(found, report, file, output)
    return _show_keys(found.snapshot.entries, prefix, key, output)


def adopt(wanted: Wanted, *, accept_loss: bool, output: OutputFormat) -> ExitCode:
    """Show what a data folder would lose under its metadata; with `accept_loss` have its broker start all the same."""
    with opened(wanted) as place, nullcontext() if place.path else locked(wanted.data_dir):
        identity = _identity(wanted.data_dir)
        with waiting("reading"):
            entries = place.read().snapshot.entries
            _check_cluster(identity, entries, wanted.data_dir)
            mark = mark_of(entries)
            older = find_older_metadata(wanted.data_dir, identity, served_by(identity, entries), mark)
        lost, newer = (older.lost, len(older.beyond.newer)) if older is not None else ((), 0)
        if lost and accept_loss:
            accept(wanted.data_dir, identity, mark)
        is_accepted = accept_loss or identity.accepted_restore_id == mark.restore_id
        facts = _adopt_facts(wanted.data_dir, place, mark, lost) | {"newer": newer, "accepted": is_accepted}
    show(facts, output, views.adopt_text)
    if not lost or is_accepted:
        return ExitCode.OK
    say("nothing was changed: restore a later backup, or repeat with --accept-loss to give these up", PROGRAM)
    return ExitCode.NEEDS_YES


def refusing(work: Callable[[], ExitCode]) -> ExitCode:
    """As `work` ends; what the state does not allow is said, and ends with REFUSED."""
    try:
        return work()
    except PreconditionFailedError as error:
        say(str(error), PROGRAM)
        return ExitCode.REFUSED


def _show(found: Backup, report: RaftReport | None, file: Path | None, output: OutputFormat) -> ExitCode:
    troubles = [trouble for entry in found.snapshot.entries if (trouble := fault_of(entry))]
    show(_summary(found, report, file, troubles), output, views.inspect_text)
    return ExitCode.DAMAGED_DATA if troubles else ExitCode.OK


def _show_keys(entries: Sequence[Entry], prefix: str | None, key: str | None, output: OutputFormat) -> ExitCode:
    chosen = _below(entries, prefix) if key is None else [entry for entry in entries if entry.key == key]
    if key is not None and not chosen:
        raise NotFoundError(f"there is no key {key}: --prefix / shows all of them")
    shown_max = METADATA_KEYS_SHOWN_MAX if output is OutputFormat.TABLE else len(chosen)
    rows = [_entry_facts(entry) for entry in chosen[:shown_max]]
    show({"key": key, "prefix": prefix, "total": len(chosen), "entries": rows}, output, views.keys_text)
    return ExitCode.DAMAGED_DATA if any(one["trouble"] for one in rows) else ExitCode.OK


def _show_damaged(place: Place, report: RaftReport, output: OutputFormat) -> ExitCode:
    """Show the files of a folder that a broker would not start on, and why."""
    origin = Origin(kind=place.kind, place=place.name, taken_ms=0, danube="")
    facts = _summary(Backup(origin, StateSnapshot()), report, None, report.findings) | {"readable": False}
    show(facts, output, views.inspect_text)
    return ExitCode.DAMAGED_DATA


def _summary(found: Backup, report: RaftReport | None, file: Path | None, troubles: Sequence[str]) -> Facts:
    snapshot = found.snapshot
    leased: dict[int, int] = {}
    for entry in snapshot.entries:
        leased[entry.lease_id] = leased.get(entry.lease_id, 0) + 1
    return {
        "file": str(file) if file is not None else None,
        "origin": _origin_facts(found.origin),
        "readable": True,
        "revision": snapshot.revision,
        "keys": len(snapshot.entries),
        "families": dict(families(snapshot.entries)),
        "leases": [asdict(lease) | {"keys": leased.get(lease.lease_id, 0)} for lease in snapshot.leases],
        "outcomes": len(snapshot.outcomes),
        "raft": _raft_facts(report) if report is not None else None,
        "troubles": list(troubles),
    }


def _restored_facts(changed: Restored) -> Facts:
    return {
        "revision": changed.snapshot.revision,
        "keys": len(changed.snapshot.entries),
        "left_out": {"leases": changed.leases, "leased_keys": changed.leased_keys, "outcomes": changed.outcomes},
        "next_topic_id": changed.next_topic_id,
    }


def _raft_facts(report: RaftReport) -> Facts:
    facts = asdict(report)
    del facts["findings"]
    return facts | {"node_id": str(report.node_id), "members": list(report.members)}


def _origin_facts(origin: Origin) -> Facts:
    plain = {"kind": str(origin.kind), "broker_id": str(origin.broker_id), "members": list(origin.members)}
    return asdict(origin) | plain


def _entry_facts(entry: Entry) -> Facts:
    facts = asdict(entry)
    del facts["value"]
    return facts | {"value": value_of(entry), "trouble": fault_of(entry)}


def _below(entries: Sequence[Entry], prefix: str | None) -> Sequence[Entry]:
    root = (prefix or "").rstrip("/")
    return [entry for entry in entries if entry.key == root or entry.key.startswith(f"{root}/")]


def _report(place: Place) -> RaftReport | None:
    """On a folder of Raft's; None of anything else."""
    if place.path is not None and place.kind is MetaStoreType.RAFT:
        return inspect_folder(LocalDisk(place.path))
    return None


def _require_force(place: Place, *, force: bool) -> None:
    if place.path is None:
        raise PreconditionFailedError(
            f"{place.kind}, {place.name} is not empty, and nothing in it is replaced: restore below another root"
            " (meta_store.root), or remove the old one with the service's own tools once no broker uses it"
        )
    if not force:
        raise PreconditionFailedError(
            f"{place.name} holds metadata already ({place.kind}): --force sets that aside and restores the backup"
        )


def _lost(place: Place, changed: Restored) -> Sequence[LostTopic]:
    """The topics of a data folder that a backup does not know, as far as that can be said; its broker looks again."""
    identity = identity_in(place.path) if place.path is not None else None
    if place.path is not None and identity is not None:
        entries = changed.snapshot.entries
        with suppress(DanubeError, OSError), waiting("looking for what is not in the backup"):
            older = find_older_metadata(place.path, identity, served_by(identity, entries), mark_of(entries))
            return older.lost if older is not None else ()
    return ()


def _next_step(wanted: Wanted, lost: Sequence[LostTopic]) -> str:
    if not lost:
        return ""
    return (
        "restore a later backup, or give these up: `danube-broker metadata adopt --data-dir"
        f" {shlex.quote(str(wanted.data_dir))}` shows them. The broker does not start before"
    )


def _agreed(place: Place, lost_count: int) -> bool:
    """Ask the person at the terminal; without a terminal the answer is no."""
    told = f"this replaces {_what_is_there(place)}, which is set aside"
    if lost_count:
        told += f". {count_text(lost_count, 'topic')} with messages in this folder cannot be found in the backup"
    if not is_terminal(sys.stdin, sys.stderr):
        say(f"{told}: say --yes where nobody can be asked", PROGRAM)
        return False
    sys.stderr.write(f"{told[0].upper()}{told[1:]}. Go on? [y/N] ")
    sys.stderr.flush()
    answer = sys.stdin.readline(CLI_ANSWER_CHARS_MAX).strip().lower()
    if answer not in {"y", "yes"}:
        say("nothing was changed", PROGRAM)
        return False
    return True


def _what_is_there(place: Place) -> str:
    with suppress(DanubeError):
        found = place.read().snapshot
        return f"the metadata in {place.name} ({place.kind}, revision {found.revision:,}, {len(found.entries):,} keys)"
    return f"the metadata in {place.name} ({place.kind}, which cannot be read)"


def _compare(place: Place, snapshot: StateSnapshot) -> None:
    """Read back what was restored. Raises MetadataError when it is not the same."""
    if place.read().snapshot != snapshot:
        raise MetadataError(
            f"what was restored into {place.name} is not what was read back: did somebody write to it meanwhile? See to"
            " it that nobody does, and restore again"
        )


def _check_target(file: Path, *, overwrite: bool) -> None:
    """Before anything is read: a backup that took minutes must not fail at its end."""
    if not file.parent.is_dir():
        raise InvalidRequestError(f"there is no folder {file.parent}: make it, or name a file elsewhere")
    if file.is_dir():
        raise InvalidRequestError(f"{file} is a folder: name a file in it")
    if file.exists() and not overwrite:
        raise PreconditionFailedError(f"{file} is there already: name another file, or say --overwrite")


def _write_file(file: Path, pieces: Sequence[bytes], *, overwrite: bool) -> None:
    disk = LocalDisk(file.parent)
    try:
        if overwrite:
            disk.replace_file(file.name, b"".join(pieces))
        else:
            disk.create_whole(file.name, pieces)
    except FileExistsError:
        raise PreconditionFailedError(f"{file} was made by another program meanwhile: name another file") from None
    except OSError as error:
        raise DataFolderError(f"cannot write {file}: {error.strerror}; there is no backup") from error


def _read_file(file: Path) -> Backup:
    try:
        with file.open("rb") as source:
            check_size(file.stat().st_size, str(file))
            return decode_backup(source.read(), str(file))
    except FileNotFoundError:
        raise NotFoundError(f"there is no backup {file}: `danube-broker metadata backup` makes one") from None
    except OSError as error:
        raise DataFolderError(f"cannot read {file}: {error.strerror}") from error


def _adopt_facts(path: Path, place: Place, mark: RestoreMark, lost: Sequence[LostTopic]) -> Facts:
    return {
        "data_folder": str(path.absolute()),
        "metadata": f"{place.kind}, {place.name}",
        "restored": None if mark == NEVER_RESTORED else asdict(mark),
        "lost": [asdict(one) for one in lost],
    }


def _identity(path: Path) -> Identity:
    try:
        return read_identity(path)
    except FileNotFoundError:
        raise DataFolderError(f"no broker ever had {path}: there is nothing in it that could be lost") from None


def _check_cluster(identity: Identity, entries: Sequence[Entry], path: Path) -> None:
    own, other = identity.cluster_id, cluster_id_of(entries)
    if own and own != other:
        raise PreconditionFailedError(
            f"{path} holds messages of another cluster ({own}), and the metadata is of {other or 'none yet'}: say which"
            " metadata is meant as for the broker, before the word `metadata`"
        )
