"""Options of output, which every command takes beside those of the target."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

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

    @property
    def is_for_people(self) -> bool:
        """True for formats that a person reads; the others are for programs."""
        return self in {OutputFormat.TABLE, OutputFormat.WIDE}


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputOptions:
    """The options of output that were given."""

    output: OutputFormat = OutputFormat.TABLE
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


OUTPUT_OPTIONS = frozenset({"output", "no_color", "quiet", "debug", "verbose"})
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
