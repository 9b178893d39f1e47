"""A file of metadata as a copy elsewhere: whoever looks into that changes nothing where it is kept. Blocks."""

import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from danube.model.errors import SettingsError

_COMPANIONS = ("", "-wal")
_PIECE_BYTES = 1024 * 1024


@contextmanager
def copied(path: Path) -> Iterator[Path]:
    """A copy of the file with what belongs to it, gone at the end.

    Raises OSError when the file cannot be read. That there is no place for a copy says nothing of the file: then it
    raises SettingsError.
    """
    with ExitStack() as scratch:
        try:
            folder = Path(scratch.enter_context(tempfile.TemporaryDirectory(prefix="danube-metadata-")))
        except OSError as error:
            raise _no_place(path, error) from error
        for companion in _COMPANIONS:
            source = path.with_name(path.name + companion)
            if not companion or source.exists():
                _copy(source, folder / source.name)
        yield folder / path.name


def _copy(source: Path, target: Path) -> None:
    with source.open("rb") as file:
        target.touch()  # an empty one is no missing one
        while piece := file.read(_PIECE_BYTES):
            try:
                with target.open("ab") as copy:
                    copy.write(piece)
            except OSError as error:
                raise _no_place(source, error) from error


def _no_place(path: Path, error: OSError) -> SettingsError:
    return SettingsError(
        f"{path.name} is looked into as a copy, and none can be made: {error.strerror or error}. Make room in the"
        " folder for temporary files, or name another one with TMPDIR"
    )
