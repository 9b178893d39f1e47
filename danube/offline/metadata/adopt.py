"""Command `danube-broker metadata adopt`: a broker starts on metadata of an older backup."""

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import asdict
from pathlib import Path

from danube.broker.config.metadata_store import MetaStoreType
from danube.data_folder.data_folder import Identity, read_identity
from danube.data_folder.older_metadata import LostTopic, accept, find_older_metadata, find_rollback, served_by
from danube.metadata.backup.backup import cluster_id_of, last_topic_id
from danube.metadata.high_water import Reached
from danube.metadata.records.restore_mark import NEVER_RESTORED, RestoreMark, mark_of
from danube.metadata.store import Entry
from danube.model.errors import DataFolderError, PreconditionFailedError
from danube.model.exit_codes import ExitCode
from danube.offline.cli_options import PROGRAM, OutputFormat
from danube.offline.folder import locked
from danube.offline.metadata import views
from danube.offline.metadata.sources import Place, Wanted, opened
from danube.offline.output import Facts, show, waiting
from danube.runtime.console import say


def adopt(wanted: Wanted, *, accept_loss: bool, output: OutputFormat) -> ExitCode:
    """Show what a data folder would lose under its metadata; with `accept_loss` have its broker start all the same."""
    with opened(wanted) as place, nullcontext() if place.path else locked(wanted.data_dir):
        identity = _identity(wanted.data_dir)
        with waiting("reading"):
            snapshot = place.read().snapshot
            entries = snapshot.entries
            _check(identity, entries, wanted.data_dir)
            mark = mark_of(entries)
            rollback = None
            if place.kind is MetaStoreType.SQLITE:
                reached = Reached(snapshot.revision, last_topic_id(entries))
                rollback = find_rollback(wanted.data_dir, identity, reached, mark)
            older = find_older_metadata(wanted.data_dir, identity, served_by(identity, entries), mark, rollback)
        lost, rollback = (older.lost, older.rollback) if older is not None else ((), None)
        newer = len(older.beyond.newer) if older is not None and rollback is None else 0
        is_refused = bool(lost or rollback)
        if is_refused and accept_loss:
            accept(wanted.data_dir, identity, mark)
        is_accepted = accept_loss or identity.accepted_restore_id == mark.restore_id
        facts = _facts(wanted.data_dir, place, mark, lost) | {"newer": newer, "accepted": is_accepted}
        facts["rolled_back"] = None if rollback is None else str(rollback)
    show(facts, output, views.adopt_text)
    if not is_refused or is_accepted:
        return ExitCode.OK
    say("nothing was changed: restore a later backup, or repeat with --accept-loss to give these up", PROGRAM)
    return ExitCode.NEEDS_YES


def _facts(path: Path, place: Place, mark: RestoreMark, lost: Sequence[LostTopic]) -> Facts:
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


def _check(identity: Identity, entries: Sequence[Entry], path: Path) -> None:
    own, other = identity.cluster_id, cluster_id_of(entries)
    if own and own != other:
        raise PreconditionFailedError(
            f"{path} holds messages of another cluster ({own}), and the metadata is of {other or 'none yet'}: say which"
            " metadata is meant as for the broker, before the word `metadata`"
        )
