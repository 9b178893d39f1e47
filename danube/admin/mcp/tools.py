"""Operations as tools: names, words, schemas and hints, all from the declaration. Pure."""

from functools import lru_cache

from mcp_types import Tool, ToolAnnotations

from danube.admin.access import Guard
from danube.admin.mcp.protocol.schemas import Detail, Schema, input_schema, output_schema
from danube.admin.mcp.tool_catalogue import ToolCatalogue
from danube.admin.operations.operation import AnyOperation
from danube.model.limits.faces import MCP_LIST_BYTES_MAX
from danube.model.plans.plan import Effect, Face

_EFFECT_TEXT = {
    Effect.READ: "Reads only.",
    Effect.WRITE: "Changes the cluster at once.",
    Effect.MOVE: "Moves work between brokers, by a plan.",
    Effect.DESTROY: "Destroys, by a plan.",
}
_PLAN_TEXT = "Without plan_id it only answers a plan; with it, it applies that plan, once."
_APPROVAL_TEXT = "A person approves it first."


@lru_cache(maxsize=8)
def tools_of(catalogue: ToolCatalogue) -> tuple[Tool, ...]:
    """The tools that are offered, in the registry's order, so that two lists of one server are the same bytes.

    The schemas of their answers say as much as MCP_LIST_BYTES_MAX allows. Kept, since all of them take 0.3 s.
    """
    for detail in Detail:
        described: set[tuple[str, str]] = set()
        tools = [_tool(operation, catalogue, described, detail) for operation in catalogue.operations]
        if sum(_size(tool) for tool in tools) <= MCP_LIST_BYTES_MAX:
            break
    return tuple(tools)


def title_of(operation: AnyOperation) -> str:
    """The operation's name for people."""
    return operation.name.replace("_", " ").capitalize()


def _tool(operation: AnyOperation, catalogue: ToolCatalogue, described: set[tuple[str, str]], detail: Detail) -> Tool:
    return Tool(
        name=operation.name,
        title=title_of(operation),
        description=catalogue.told(_description(operation, catalogue.guard)),
        input_schema=input_schema(operation.params, is_planned=operation.is_planned),
        output_schema=_described(output_schema(operation.result, described, detail), catalogue),
        annotations=_annotations(operation),
    )


def _description(operation: AnyOperation, guard: Guard) -> str:
    parts = [operation.summary, operation.description, _EFFECT_TEXT[operation.effect]]
    if operation.is_planned:
        parts.append(_PLAN_TEXT)
    if operation.is_planned and guard.needs_approval(operation.effect, Face.MCP):
        parts.append(_APPROVAL_TEXT)
    return " ".join(part for part in parts if part)


def _described(schema: Schema, catalogue: ToolCatalogue) -> Schema:
    """The schema, whose descriptions name no tool that is not offered."""
    return {
        name: _described(value, catalogue)
        if isinstance(value, dict)
        else catalogue.told(value)
        if name == "description"
        else value
        for name, value in schema.items()
    }


def _annotations(operation: AnyOperation) -> ToolAnnotations:
    """All four: what is left out has a default that would alarm, or calm, for nothing."""
    return ToolAnnotations(
        read_only_hint=operation.effect is Effect.READ,
        destructive_hint=operation.effect is Effect.DESTROY,
        idempotent_hint=operation.is_idempotent,
        open_world_hint=False,
    )


def _size(tool: Tool) -> int:
    return len(tool.model_dump_json(by_alias=True, exclude_none=True).encode())
