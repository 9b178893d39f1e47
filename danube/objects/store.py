"""The port to an object store: S3 and what speaks like it, Google Cloud Storage, Azure Blob Storage, memory.

Names are relative to the bucket's prefix, with `/` between parts. All calls block and may be made from several threads.
Listings and reads show every write that was answered before them, as S3, GCS and Azure promise.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from danube.runtime.disk import Buffer


class StoreBusyError(OSError):
    """The store did not answer: whether a write was done is unknown, and the same request may be sent again."""


class StoreRefusedError(OSError):
    """The store refuses by its configuration or by the keys: sending the request again changes nothing."""


class ObjectInfo(NamedTuple):
    """One object of a listing."""

    name: str
    size: int


@dataclass(frozen=True, slots=True)
class Tagged:
    """Content of an object, and the tag of this version of it."""

    data: bytes
    tag: str


class ObjectStore(Protocol):
    """A bucket below one prefix. Beside the errors named, every call raises StoreBusyError and StoreRefusedError."""

    def get(self, name: str, position: int = 0, length: int | None = None) -> bytes:
        """Bytes from `position`, up to `length`; fewer where the object ends. Raises FileNotFoundError."""

    def get_tagged(self, name: str) -> Tagged:
        """A whole object and its tag. Raises FileNotFoundError."""

    def put(self, name: str, chunks: Sequence[Buffer]) -> None:
        """Store an object whole, in the place of any other of this name. Large ones go up in parts."""

    def put_if_absent(self, name: str, chunks: Sequence[Buffer]) -> None:
        """Store an object unless the name is taken. Raises FileExistsError; of several at once, one succeeds."""

    def swap(self, name: str, chunks: Sequence[Buffer], tag: str) -> None:
        """Replace the version with this tag. Raises FileExistsError for another version, or FileNotFoundError."""

    def size(self, name: str) -> int:
        """Length in bytes. Raises FileNotFoundError."""

    def listing(self, prefix: str, after: str = "") -> list[ObjectInfo]:
        """Objects whose names begin with `prefix`, by name; those behind the name `after`."""

    def folders(self, prefix: str) -> list[str]:
        """The next part of names below `prefix`, which ends with `/`, as far as it is followed by another `/`."""

    def delete(self, names: Iterable[str]) -> None:
        """Delete objects, as far as they are there."""

    def close(self) -> None:
        """Close connections."""


def joined(chunks: Sequence[Buffer]) -> bytes:
    """Content of an object as one piece."""
    return bytes(chunks[0]) if len(chunks) == 1 else b"".join(chunks)
