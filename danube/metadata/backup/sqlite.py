"""State of a standalone broker: read from a copy of its file, and written as a new file. Blocks."""

from pathlib import Path

from danube.metadata.sqlite.file import SqliteFile, copied
from danube.metadata.state import StateSnapshot
from danube.model.errors import DanubeError


def read_sqlite(path: Path) -> StateSnapshot:
    """State in the file, which no process may have open.

    Raises DataFolderError when it cannot be read, is damaged or of a newer format, MetadataError, OSError, and
    SettingsError when there is no place for the copy.
    """
    with copied(path) as copy:
        try:
            file = SqliteFile.open(copy)
        except DanubeError as error:
            raise type(error)(str(error).replace(str(copy), str(path))) from error
        try:
            return file.snapshot()
        finally:
            file.close()


def write_sqlite(path: Path, snapshot: StateSnapshot) -> None:
    """Make the file, which is not there yet; all of it is on the disk on return. Raises DataFolderError, OSError."""
    file = SqliteFile.open(path)
    try:
        file.fill(snapshot)
    finally:
        file.close()
