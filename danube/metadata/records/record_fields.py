"""Values of metadata as compact JSON with the version of their format, and their fields, each asked for by its type."""

import json
from enum import Enum
from typing import TypeVar

from danube.metadata.store import Entry
from danube.model.errors import MetadataError
from danube.model.plans.plan import Arguments
from danube.model.untrusted_json import decode_json

RECORD_VERSION = 1

E = TypeVar("E", bound=Enum)


def encode_fields(**fields: object) -> bytes:
    """A value of these fields."""
    return json.dumps({"version": RECORD_VERSION, **fields}, ensure_ascii=False, separators=(",", ":")).encode()


class Fields:
    """The fields of a value, each asked for by name and type."""

    def __init__(self, entry: Entry, fields: dict[str, object] | None = None) -> None:
        self._key = entry.key
        self._entry = entry
        if fields is not None:
            self._fields = fields
            return
        try:
            parsed = decode_json(entry.value)
        except ValueError as error:
            raise self.damaged("no JSON") from error
        self._fields = parsed if isinstance(parsed, dict) else {}
        version = self.number("version")
        if version > RECORD_VERSION:
            raise MetadataError(
                f"metadata key {self._key} was written by a newer Danube (record version {version}, this one reads up"
                f" to {RECORD_VERSION}): upgrade this broker"
            )

    def number(self, name: str) -> int:
        value = self._fields.get(name)
        if not isinstance(value, int):
            raise self.damaged(f"no number {name!r}")
        return value

    def number_or_none(self, name: str) -> int | None:
        return self.number(name) if self.has(name) else None

    def has(self, name: str) -> bool:
        return self._fields.get(name) is not None

    def object(self, name: str) -> Arguments:
        value = self._fields.get(name)
        if not isinstance(value, dict):
            raise self.damaged(f"no object {name!r}")
        return value

    def section(self, name: str) -> "Fields":
        """The fields of a value within this one."""
        return Fields(self._entry, dict(self.object(name)))

    def sections(self, name: str) -> list["Fields"]:
        """The fields of each value in a list within this one."""
        values = self._fields.get(name)
        if not isinstance(values, list) or not all(isinstance(value, dict) for value in values):
            raise self.damaged(f"no objects {name!r}")
        return [Fields(self._entry, value) for value in values]

    def text(self, name: str) -> str:
        value = self.text_or_none(name)
        if value is None:
            raise self.damaged(f"no text {name!r}")
        return value

    def numbers(self, name: str) -> tuple[int, ...]:
        values = self._fields.get(name)
        if not isinstance(values, list) or not all(isinstance(value, int) for value in values):
            raise self.damaged(f"no numbers {name!r}")
        return tuple(values)

    def text_or_none(self, name: str) -> str | None:
        value = self._fields.get(name)
        if value is not None and not isinstance(value, str):
            raise self.damaged(f"no text {name!r}")
        return value

    def texts(self, name: str) -> tuple[str, ...]:
        values = self._fields.get(name)
        if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
            raise self.damaged(f"no texts {name!r}")
        return tuple(values)

    def choice(self, name: str, choices: type[E]) -> E:
        text = self._fields.get(name)
        if not isinstance(text, str) or text not in choices.__members__:
            raise self.damaged(f"no {choices.__name__} {name!r}")
        return choices[text]

    def damaged(self, what: str) -> MetadataError:
        """The error that says so."""
        return MetadataError(
            f"metadata key {self._key} does not hold what it should ({what}): restore the metadata from a backup"
        )
