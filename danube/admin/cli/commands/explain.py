"""`danube-admin explain`: what an access level allows, and what an operation needs."""

from collections.abc import Sequence

from danube.admin.cli.output.help_text import command_line
from danube.admin.operations import BY_NAME, REGISTRY, operation_of
from danube.admin.operations.operation import DEFAULT_TOOLSET, AnyOperation
from danube.admin.present import Table, View, as_commands
from danube.admin.target import Target
from danube.model.plans.plan import Face


def overview(target: Target) -> View:
    """Every operation: whether this level allows it, and how it acts."""
    rows = tuple((each.command, each.name, str(each.level), _allowed(each, target), _how(each)) for each in REGISTRY)
    level = (
        f"This is access level {target.guard.level}; --access, DANUBE_ADMIN_ACCESS or the context chooses. `write`"
        " takes in what can be undone and what moves work, `destroy` everything."
    )
    notes = (level, "`danube-admin explain OPERATION` says more about one.")
    return View((), (Table("Operations", ("Command", "Operation", "Level", "Allowed", "How it acts"), rows),), notes)


def explanation(words: Sequence[str], target: Target) -> View:
    """One operation: what it does, what it needs, who may call it. Raises NotFoundError."""
    operation = _named(words)
    return View(_facts(operation, target), (), tuple(_notes(operation, target)))


def _named(words: Sequence[str]) -> AnyOperation:
    text = " ".join(words)
    by_command = {operation.command: operation for operation in BY_NAME.values()}
    return by_command.get(text) or operation_of(text.replace(" ", "_").replace("-", "_"))


def _facts(operation: AnyOperation, target: Target) -> tuple[tuple[str, str], ...]:
    return (
        ("Operation", operation.name),
        ("Command", f"danube-admin {operation.command}"),
        ("Does", operation.summary),
        ("Effect", str(operation.effect)),
        ("Needs level", str(operation.level)),
        ("Allowed here", _allowed(operation, target)),
        ("How it acts", _how(operation)),
        ("For assistants", f"yes, in toolset {operation.toolset}" if operation.is_tool else "no"),
        ("Example", command_line(operation, operation.examples[0])),
    )


def _notes(operation: AnyOperation, target: Target) -> list[str]:
    notes = [as_commands(operation.description)] if operation.description else []
    guard = target.guard
    if not guard.level.allows(operation.level):
        notes.append(
            f"It is missing here: this is access level {guard.level}. `--access {operation.level}` allows it, where the"
            " context does not forbid that."
        )
    if operation.is_planned:
        waits = guard.needs_approval(operation.effect, Face.MCP)
        notes.append(
            f"Asked for by an assistant, its plan {'waits for a person' if waits else 'can be applied at once'}"
            f" (approval {guard.approval})."
        )
    if operation.is_tool and operation.toolset != DEFAULT_TOOLSET:
        notes.append(
            "Assistants have it once their server is started with its toolset: `danube-admin mcp --toolsets"
            f" {DEFAULT_TOOLSET},{operation.toolset}`."
        )
    if not operation.is_tool:
        notes.append("Assistants do not have it: it is how people oversee them.")
    return notes


def _allowed(operation: AnyOperation, target: Target) -> str:
    return "yes" if target.guard.level.allows(operation.level) else "no"


def _how(operation: AnyOperation) -> str:
    if operation.needs_person:
        return "a person's consent"
    return "by a plan" if operation.is_planned else "at once"
