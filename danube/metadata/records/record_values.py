"""Values of metadata: each a sealed record (see `danube/runtime/sealed.py`) that names the key it stands under."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Generic, TypeVar

from danube.metadata.store import Entry
from danube.model.errors import MetadataError, NewerRecordError
from danube.runtime.checksum import told_version
from danube.runtime.sealed import OtherVersionError, Sealed, UnsealError

MAGIC = b"DnMr"

_ANY: Sealed[Any] = Sealed(MAGIC, object)

R = TypeVar("R")


class RecordValues(Generic[R]):
    """Encodes records of one class as values, and decodes entries."""

    def __init__(
        self,
        kind: type[R],
        key_of: Callable[[R], str] | None = None,
        *,
        has_revision: bool = False,
        check: Callable[[R], None] = lambda _record: None,
    ) -> None:
        """`key_of` builds the key that a record belongs to. With `has_revision` the field `revision` is the entry's.

        `check` raises ValueError for a record that cannot be.
        """
        self.kind, self.key_of, self.check = kind, key_of, check
        self._has_revision = has_revision
        self._sealed: Sealed[R] = Sealed(MAGIC, kind)

    def encode(self, record: R) -> bytes:
        """The value of a record. Raises ValueError for one that cannot be."""
        self.check(record)
        return self._sealed.seal(self._with_revision(record, 0))

    def decode(self, entry: Entry) -> R:
        """The record in an entry. Raises MetadataError."""
        try:
            record = self._sealed.unseal(entry.value)
            self.check(record)
        except OtherVersionError as error:
            raise NewerRecordError(told_version(f"metadata key {entry.key}", error.found, error.known)) from error
        except ValueError as error:
            raise damaged(entry, str(error)) from error
        if self.key_of is not None and self.key_of(record) != entry.key:
            raise damaged(entry, f"the record of {self.key_of(record)}")
        return self._with_revision(record, entry.revision)

    def _with_revision(self, record: R, revision: int) -> R:
        return replace(record, revision=revision) if self._has_revision else record  # type: ignore[type-var]


def record_values(
    kind: type[R],
    key_of: Callable[[R], str] | None = None,
    *,
    has_revision: bool = False,
    check: Callable[[R], None] = lambda _record: None,
) -> tuple[Callable[[R], bytes], Callable[[Entry], R]]:
    """The function that encodes these records, and the one that decodes entries; of what as `RecordValues`."""
    values = RecordValues(kind, key_of, has_revision=has_revision, check=check)
    return values.encode, values.decode


def damaged(entry: Entry, what: str) -> MetadataError:
    """The error for an entry that has another value than its key asks for."""
    return MetadataError(
        f"metadata key {entry.key} does not hold what it should ({what}): restore the metadata from a backup"
    )


def shown(value: bytes) -> Any:  # noqa: ANN401 - JSON
    """The fields of a value, whatever its kind is, as JSON has them. Raises UnsealError for what is no record."""
    try:
        return _ANY.shown(value)
    except RecursionError as error:
        raise UnsealError("it is nested too deeply") from error
