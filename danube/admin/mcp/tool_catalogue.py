"""Which operations this server offers as tools, and why it offers no others. Pure."""

import difflib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from danube.admin.access import Guard
from danube.admin.operations import REGISTRY
from danube.admin.operations.operation import DEFAULT_TOOLSET, AnyOperation
from danube.admin.present import as_commands
from danube.model.errors import NotFoundError, SettingsError

ALL_TOOLSETS = "all"
DEFAULT_TOOLSETS = (DEFAULT_TOOLSET,)


class UnknownToolError(NotFoundError):
    """No toolset has a tool of this name."""


@dataclass(frozen=True, kw_only=True)
class ToolCatalogue:
    """The choice made when the server was started."""

    guard: Guard
    toolsets: tuple[str, ...] = DEFAULT_TOOLSETS
    registry: tuple[AnyOperation, ...] = REGISTRY

    @property
    def operations(self) -> tuple[AnyOperation, ...]:
        """Operations that are tools here, in the registry's order."""
        return tuple(each for each in self.registry if not self.why_missing(each))

    def why_missing(self, operation: AnyOperation) -> str:
        """The reason why an operation is no tool here, a sentence; empty when it is one."""
        if not operation.is_tool:
            return f"It is for people: `danube-admin {operation.command}`, the TUI or the web page."
        if not self._has_toolset(operation):
            wanted = ",".join([*self.toolsets, operation.toolset])
            return f"Its toolset is off: start the server with `--toolsets {wanted}`."
        if not self.guard.level.allows(operation.level):
            return (
                f"It needs `--access {operation.level}` and the server was started with `--access {self.guard.level}`."
            )
        return ""

    def find(self, name: str) -> AnyOperation:
        """The operation behind a tool name; also one above the access level, so that its call is refused on record.

        Raises NotFoundError, and UnknownToolError for a name that no operation has.
        """
        found = next((each for each in self.registry if each.name == name), None)
        if found is None:
            raise UnknownToolError(f"there is no tool {name[:60]!r}{nearest_of(name, self.names)}")
        if not found.is_tool or not self._has_toolset(found):
            raise NotFoundError(f"{name} is not offered. {self.why_missing(found)}")
        return found

    @property
    def toolsets_off(self) -> tuple[str, ...]:
        found = (each.toolset for each in self.registry if each.is_tool and not self._has_toolset(each))
        return tuple(dict.fromkeys(found))

    @cached_property
    def names(self) -> list[str]:
        return [each.name for each in self.operations]

    def told(self, text: str) -> str:
        """Our own text, in which tools that are not offered go by the commands of people."""
        return as_commands(text, self.names)

    def _has_toolset(self, operation: AnyOperation) -> bool:
        return operation.toolset in self.toolsets or ALL_TOOLSETS in self.toolsets


def check_toolsets(names: Sequence[str], registry: Sequence[AnyOperation] = REGISTRY) -> tuple[str, ...]:
    """The toolsets that were asked for. Raises SettingsError for one that is not there."""
    known = list(dict.fromkeys([each.toolset for each in registry if each.is_tool] + [ALL_TOOLSETS]))
    for name in names:
        if name not in known:
            raise SettingsError(f"there is no toolset {name[:60]!r}: choose from {', '.join(known)}")
    return tuple(dict.fromkeys(names)) or DEFAULT_TOOLSETS


def nearest_of(name: str, names: Sequence[str]) -> str:
    """A question that proposes the nearest of the names; empty when none is near."""
    near = difflib.get_close_matches(name[:100], names, n=1, cutoff=0.5)
    return f": did you mean {near[0]!r}?" if near else ""
