"""The protocol of a tier: immutable files, each written whole, found by name, gone when deleted.

A name is `folder/file`; folders need not be made. All calls block, and may be made from one thread at a time.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

from danube.runtime.disk import Buffer

Take = Callable[[int], bytes]
"""Answers the next so many bytes of a run; fewer where the file ends. Raises as `SegmentTier.read`."""


class SegmentTier(Protocol):
    """Where segments and manifests are kept."""

    def put(self, name: str, chunks: Sequence[Buffer]) -> None:
        """Keep `chunks` under `name`: when this returns they are durable, before that nobody finds a part of them.

        An identical file that is there already is as good. Raises FileExistsError when another one is; OSError.
        """

    def read(self, name: str, position: int, length: int) -> bytes:
        """Up to `length` bytes from `position`; fewer at the end. Raises FileNotFoundError, OSError."""

    def expect(self, name: str, position: int, length: int) -> None:
        """Begin to read this, which is asked for next. Only a hint: it does not wait, and never raises."""

    def read_run(self, name: str, position: int, lengths: Sequence[int]) -> Iterator[bytes]:
        """Neighbouring pieces from `position` on, one after the other, each as `read` would answer it.

        With one request where requests are dear, and with one piece in memory where they are not. Raises as `read`.
        """

    def open_run(self, name: str, position: int, length: int) -> Take:
        """The same where only what was read tells how long the next piece is: `length` bytes in all, taken in order.

        It is to be used up before another call. Raises as `read`, at once or when something is taken.
        """

    def size(self, name: str) -> int:
        """Length in bytes. Raises FileNotFoundError, OSError."""

    def list(self, folder: str) -> list[str]:
        """The names in `folder`, sorted, without the folder's own; none where there is no folder. Raises OSError."""

    def delete(self, name: str) -> None:
        """Have the file gone; one that is not there is gone. What was deleted may come back after a power cut."""

    def delete_folder(self, folder: str) -> None:
        """Have the folder and all files in it gone, durably; one that is not there is gone. Raises OSError."""

    def let_go(self, folder: str) -> None:
        """Close the files of a folder that are kept open: those that were deleted elsewhere take up room until then."""

    def close(self) -> None:
        """Let go of files that are kept open."""
