"""Help texts of operations: the summary, what a caller must know, examples as command lines."""

import shlex
from collections.abc import Iterable
from typing import Any

from danube.admin.access import AccessLevel
from danube.admin.cli.parameters import fields_of
from danube.admin.operations.fields import FieldSpec
from danube.admin.operations.operation import AnyOperation, Example
from danube.admin.present import as_commands
from danube.admin.target import PROGRAM

EXIT_CODES = (
    "Exit codes: 0 done, 1 failed, 2 wrong usage, 3 planned and not done (needs --yes, or a person's approval), "
    "4 what was named is not there, 5 the broker cannot be reached, 6 refused, 7 the folder cannot be used, "
    "8 stored data is damaged, 9 a check warns, 10 a check is critical, 130 interrupted."
)
_PLANNED = (
    "It acts by a plan. On a terminal the plan is shown, and nothing is done before you have said yes. Without one, "
    "the plan is printed and the command ends with exit code 3; --yes applies it at once."
)
_VERBS_SHOWN = 6
"""Of a group, in its line of help; its own page lists all of them."""
_PERSON = "It takes a person at a terminal: what reads from or writes to a pipe is refused."


def help_of(operation: AnyOperation) -> str:
    """The text above the options."""
    parts = [operation.summary, as_commands(operation.description)]
    if operation.is_planned:
        parts.append(_PLANNED)
    if operation.needs_person:
        parts.append(_PERSON)
    if operation.level is not AccessLevel.READ:
        parts.append(f"Needs access level {operation.level}.")
    return "\n\n".join(part for part in parts if part)


def epilog_of(operation: AnyOperation) -> str:
    """The text below the options."""
    return examples_text((example.title, command_line(operation, example)) for example in operation.examples)


def examples_text(examples: Iterable[tuple[str, str]]) -> str:
    """Examples, each under what it does, and the exit codes."""
    lines = [f"  # {title}\n  {line}" for title, line in examples]
    return "\n\n".join(["\b\nExamples:\n" + "\n".join(lines), EXIT_CODES])


def command_line(operation: AnyOperation, example: Example) -> str:
    """The example as it is typed."""
    fields = fields_of(operation)
    words = [PROGRAM, *operation.words]
    words += [str(example.arguments[name]) for name in operation.positional if name in example.arguments]
    for name, value in example.arguments.items():
        if name not in operation.positional:
            words += _option_words(fields[name], value)
    return shlex.join(words)


def verbs_text(words: Iterable[str]) -> str:
    """Verbs of a noun, or the nouns within it: the help of its group."""
    verbs = list(dict.fromkeys(words))
    if len(verbs) > _VERBS_SHOWN:
        verbs = [*verbs[: _VERBS_SHOWN - 1], f"{len(verbs) - _VERBS_SHOWN + 1} more"]
    *most, last = verbs
    words = f"{', '.join(most)} and {last}" if most else last
    return f"{words[0].upper()}{words[1:]}."


def _option_words(field: FieldSpec, value: Any) -> list[str]:  # noqa: ANN401 - any JSON value
    if isinstance(value, bool):
        return [field.option if value else f"--{field.opposite}"]
    return [each for one in (value if isinstance(value, list) else [value]) for each in (field.option, str(one))]
