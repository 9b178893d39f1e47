"""A version and its change as lines: the verdict, each difference, and the definitions line by line. Pure."""

from collections.abc import Iterator

from danube.admin.operations.schemas.changes import Explanation
from danube.admin.operations.schemas.fields import DifferenceView, verdict
from danube.admin.tui.widgets.lines import Line, wrapped
from danube.model.text import count_text
from danube.report.tones import tone_of

_TONES = {"+": "ok", "-": "error", "@": "dim"}
"""Of a line of a diff, by its first character."""


def definition_lines(definition: str) -> list[Line]:
    """A definition, with the numbers of its lines."""
    lines = definition.splitlines() or ["(empty)"]
    room = len(str(len(lines)))
    return [Line(f"{number:>{room}}  {text}") for number, text in enumerate(lines, 1)]


def change_lines(change: Explanation, width: int) -> list[Line]:
    """The verdict with its consequences, the way out, each difference, and the texts of both versions."""
    lines = [Line(text, "ok" if change.is_allowed else "error") for text in wrapped(change.verdict, width)]
    lines += [Line(text, "warning") for who in change.who_breaks for text in wrapped(who, width)]
    lines += _advice(change, width)
    lines += [Line(""), Line(count_text(len(change.differences), "difference"), "heading")]
    for difference in change.differences:
        lines += _difference(difference, width)
    lines += [Line(""), Line(f"Version {change.before} to {change.after}, line by line", "heading")]
    lines += list(_diff(change)) or [Line("The texts are the same.", "dim")]
    return lines


def _advice(change: Explanation, width: int) -> list[Line]:
    if not change.advice:
        return []
    told = [Line(f"{'- ' if at == 0 else '  '}{text}") for each in change.advice for at, text in _numbered(each, width)]
    return [Line(""), Line("Instead", "heading"), *told]


def _numbered(text: str, width: int) -> Iterator[tuple[int, str]]:
    yield from enumerate(wrapped(text, max(width - 2, 20)))


def _difference(difference: DifferenceView, width: int) -> Iterator[Line]:
    word = verdict(difference)
    yield Line(f"{word:<8}{difference.path or '(schema)'}  {difference.kind}", tone_of(word))
    for text in wrapped(difference.message, max(width - 8, 20)):
        yield Line(f"        {text}", "dim")


def _diff(change: Explanation) -> Iterator[Line]:
    for text in change.diff[2:]:  # after the names of both sides
        yield Line(text, _TONES.get(text[:1], ""))
