"""The protocol of a tier: immutable files, each written whole and found by name.

A name is `folder/file`; folders need not be made. All calls block, and may be made from one thread at a time.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

from danube.runtime.disk import Buffer

Take = Callable[[int], bytes]
"""Answers the next so many bytes of a run; fewer where the file ends. Raises as `SegmentTier.read`."""


class SegmentTier(Protocol):
    """Store of segments and manifests."""

    def put(self, name: str, chunks: Sequence[Buffer]) -> None:
        """Keep `chunks` under `name`: durable when this returns, and never visible in part.

        An identical file that is there already counts. Raises FileExistsError when another one is; OSError.
        """

    def read(self, name: str, position: int, length: int) -> bytes:
        """Up to `length` bytes from `position`; fewer at the end. Raises FileNotFoundError, OSError."""

    def read_whole(self, name: str) -> bytes:
        """All of it, for small files. Raises as `read`."""
        return self.read(name, 0, self.size(name))

    def expect(self, name: str, position: int, length: int) -> None:
        """Start to read this, which is needed next. A hint: it does not wait, and never raises."""

    def read_run(self, name: str, position: int, lengths: Sequence[int]) -> Iterator[bytes]:
        """Neighbouring pieces from `position` on, one after the other, each as `read` would answer it.

        With one request where requests are dear, and with one piece in memory where they are not. Raises as `read`.
        """

    def open_run(self, name: str, position: int, length: int) -> Take:
        """The same for pieces whose length depends on those before: `length` bytes in all, read in order.

        It is to be used up before another call. Raises as `read`, at once or when something is taken.
        """

    def size(self, name: str) -> int:
        """Length in bytes. Raises FileNotFoundError, OSError."""

    def list(self, folder: str) -> list[str]:
        """The names in `folder`, sorted, without the folder's own; none where there is no folder. Raises OSError."""

    def delete(self, name: str) -> None:
        """Delete the file, if it is there. It may come back after a power cut."""

    def delete_folder(self, folder: str) -> None:
        """Delete the folder and all files in it, durably, if it is there. Raises OSError."""

    def close_folder(self, folder: str) -> None:
        """Close the open files of a folder that was deleted elsewhere: they take up room until then."""

    def close(self) -> None:
        """Close open files."""
