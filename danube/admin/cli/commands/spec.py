"""`danube-admin spec`: every operation as JSON, so that programs need not read help texts."""

from typing import Any

from danube import __version__
from danube.admin.cli.output.help_text import command_line
from danube.admin.operations import REGISTRY
from danube.admin.operations.operation import AnyOperation
from danube.model.exit_codes import ExitCode

SPEC_VERSION = 1


def spec() -> dict[str, Any]:
    """All there is, in menu order; the same for the same version."""
    return {
        "spec_version": SPEC_VERSION,
        "version": __version__,
        "exit_codes": {code.name.lower(): int(code) for code in ExitCode},
        "operations": [_operation(operation) for operation in REGISTRY],
    }


def _operation(operation: AnyOperation) -> dict[str, Any]:
    return {
        "name": operation.name,
        "command": operation.command,
        "summary": operation.summary,
        "description": operation.description,
        "effect": operation.effect.value,
        "access": operation.level.value,
        "acts_by_a_plan": operation.is_planned,
        "needs_a_person": operation.needs_person,
        "is_tool": operation.is_tool,
        "toolset": operation.toolset,
        "is_idempotent": operation.is_idempotent,
        "positional": list(operation.positional),
        "rows": operation.listing.rows if operation.listing else None,
        "params": operation.params.model_json_schema(),
        "result": operation.result.model_json_schema(mode="serialization"),
        "examples": [
            {"title": each.title, "arguments": each.arguments, "command": command_line(operation, each)}
            for each in operation.examples
        ],
    }
