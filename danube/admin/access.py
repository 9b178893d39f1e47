"""Access levels and approval: the rules of a face, decided without I/O."""

from dataclasses import dataclass
from enum import StrEnum

from danube.model.errors import AccessLevelError
from danube.model.plans.plan import Effect, Face


class AccessLevel(StrEnum):
    """Chosen when a face starts; each includes the ones before it."""

    READ = "read"
    WRITE = "write"
    """Effects write and move."""
    DESTROY = "destroy"

    def allows(self, level: "AccessLevel") -> bool:
        """True if an operation of this level may be called."""
        order = list(AccessLevel)
        return order.index(level) <= order.index(self)


class ApprovalMode(StrEnum):
    """Which plans asked for by an assistant wait for a person."""

    DESTROY = "destroy"
    MOVE = "move"
    """Moves too."""
    NONE = "none"
    """For automation."""


LEVEL_OF: dict[Effect, AccessLevel] = {
    Effect.READ: AccessLevel.READ,
    Effect.WRITE: AccessLevel.WRITE,
    Effect.MOVE: AccessLevel.WRITE,
    Effect.DESTROY: AccessLevel.DESTROY,
}


@dataclass(frozen=True, slots=True)
class Guard:
    """The rules of one face, for as long as it runs."""

    level: AccessLevel = AccessLevel.DESTROY
    approval: ApprovalMode = ApprovalMode.DESTROY

    def check(self, operation: str, level: AccessLevel) -> None:
        """Raise AccessLevelError unless an operation of this level may be called."""
        if not self.level.allows(level):
            raise AccessLevelError(
                f"{operation} needs access level `{level}` and this is `{self.level}`: ask whoever started it to choose"
                f" `--access {level}`"
            )

    def needs_approval(self, effect: Effect, face: Face) -> bool:
        """True if a plan with this effect, asked for through this face, waits for a person.

        On the other faces a person sees the plan and applies it.
        """
        if face is not Face.MCP:
            return False
        match self.approval:
            case ApprovalMode.NONE:
                return False
            case ApprovalMode.DESTROY:
                return effect is Effect.DESTROY
            case ApprovalMode.MOVE:
                return effect.is_planned
