"""Options of output, which every command takes beside those of the target."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from danube.model.errors import InvalidRequestError

if TYPE_CHECKING:
    from danube.admin.profiles import TargetFlags


class OutputFormat(StrEnum):
    """The format of standard output."""

    TABLE = "table"
    WIDE = "wide"
    """A table with every column."""
    JSON = "json"
    YAML = "yaml"
    JSONL = "jsonl"
    """One row a line."""
    NAME = "name"
    """Names alone, one a line."""
    CSV = "csv"
    JSONPATH = "jsonpath"
    """The values at a path, one a line."""

    @property
    def is_for_people(self) -> bool:
        """True for formats that a person reads; the others are for programs."""
        return self in {OutputFormat.TABLE, OutputFormat.WIDE}


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputOptions:
    """The options of output that were given."""

    output: OutputFormat = OutputFormat.TABLE
    jsonpath: str = ""
    """Of OutputFormat.JSONPATH."""
    sort_by: str | None = None
    """A field of rows; descending with `-` before it."""
    no_color: bool = False
    quiet: bool = False
    """Say nothing but errors."""
    debug: bool = False
    verbose: bool = False
    """With the evidence of each row."""

    @property
    def log_level(self) -> str:
        """The level of the log that is shown: an error says it all, unless somebody looks for where it came from."""
        return "debug" if self.debug else "error"


OUTPUT_WORDS = "table|wide|json|yaml|jsonl|name|csv|jsonpath=PATH"


def format_of(text: str) -> tuple[OutputFormat, str]:
    """Format and path of `-o`. Raises InvalidRequestError."""
    word, _, path = text.partition("=")
    known = next((each for each in OutputFormat if each.value == word.lower()), None)
    if known is None or (known is OutputFormat.JSONPATH) != bool(path):
        raise InvalidRequestError(
            f"--output {text[:60]!r} is none: use {OUTPUT_WORDS}, such as jsonpath='{{[*].name}}'"
        )
    return known, path


OUTPUT_OPTIONS = frozenset({"output", "sort_by", "no_color", "quiet", "debug", "verbose"})
OF_TARGET = frozenset({"endpoint", "context", "access", "timeout_s", "config_file", "yes"})
EVERYWHERE = OUTPUT_OPTIONS | OF_TARGET
"""Options of the root that every command takes after its own words too."""


def given_of(params: Mapping[str, Any], names: frozenset[str]) -> dict[str, Any]:
    """The options of these names that were given: None and False were not."""
    given = {name: params.get(name) for name in names}
    return {name: value for name, value in given.items() if value is not None and value is not False}


def flags_from(given: Mapping[str, Any]) -> "TargetFlags":
    """The flags of the target."""
    from danube.admin.profiles import TargetFlags  # noqa: PLC0415 - `--help` reads no contexts

    return TargetFlags(**given_of(given, OF_TARGET))
