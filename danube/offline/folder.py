"""The data folder of a broker that does not run: locked while a command looks into it or changes it."""

import itertools
import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from danube.data_folder.data_folder import IDENTITY, JOURNAL, LOCK, Identity, read_identity
from danube.metadata.raft.folder.format import FOLDER as RAFT
from danube.model.errors import (
    DamagedDataError,
    DataFolderAccessError,
    DataFolderError,
    DataFolderInUseError,
    NewerDataFolderError,
)
from danube.runtime.disk import LocalDisk, is_environment, next_step_of

_TRACES = (IDENTITY, JOURNAL, RAFT)


@contextmanager
def locked(path: Path, *, to_fill: bool = False) -> Iterator[LocalDisk]:
    """The folder, while no broker can have it; `to_fill` makes one that is missing.

    One that cannot be written, such as a snapshot that is mounted read-only, can be read all the same.

    Raises DataFolderInUseError, DataFolderError when it is none or cannot be used, and for what the disk does within.
    """
    disk = LocalDisk(path)
    try:
        if to_fill:
            disk.make_folder("")
        elif not any((path / name).exists() for name in _TRACES):
            what = "is not the data folder of a broker" if path.exists() else "is not there"
            raise DataFolderError(f"{path} {what}: name the broker's data folder with --data-dir")
        lock = disk.lock(LOCK) if to_fill or os.access(path, os.W_OK) else disk.lock_to_read(LOCK)
    except BlockingIOError:
        raise DataFolderInUseError(
            f"the data folder {path} is in use by a broker that runs: stop that broker first (or let another command"
            " that looks into the folder end). Of a cluster, the others go on meanwhile; `danube-admin cluster status`"
            " shows them"
        ) from None
    except OSError as error:
        raise DataFolderError(f"cannot use the data folder {path}: {error.strerror}; {next_step_of(error)}") from None
    try:
        yield disk
    except BrokenPipeError:  # whoever read our output has left
        raise
    except OSError as error:
        raise DataFolderError(f"{error.filename or path}: {error.strerror or error}; {next_step_of(error)}") from error
    finally:
        if lock is not None:
            lock.release()


def identity_in(path: Path) -> Identity | None:
    """Identity of a data folder; None when it has none that can be read.

    Raises NewerDataFolderError, and DataFolderAccessError when it cannot be opened.
    """
    try:
        return read_identity(path)
    except NewerDataFolderError:
        raise
    except (OSError, DamagedDataError) as error:
        if isinstance(error, OSError) and is_environment(error):
            what = f"{path / IDENTITY}: {error.strerror}; {next_step_of(error)}"
            raise DataFolderAccessError(what) from error
        return None


def stamped(folder: Path, prefix: str, now_ms: int) -> str:
    """A name with this prefix and the time that nothing in a folder has yet."""
    name = prefix + datetime.fromtimestamp(now_ms / 1_000, UTC).strftime("%Y%m%dT%H%M%SZ")
    names = (name if number == 1 else f"{name}-{number}" for number in itertools.count(1))
    return next(one for one in names if not (folder / one).exists())
