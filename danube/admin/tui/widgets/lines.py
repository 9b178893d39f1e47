"""Results as lines of text, wrapped to the screen. It obeys nothing in them."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

from rich.cells import cell_len, chop_cells
from rich.segment import Segment
from rich.style import Style
from textual.binding import Binding, BindingType
from textual.events import Resize
from textual.geometry import Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from danube.admin.present import Table, View, printable
from danube.admin.tui.widgets.rows import fitted

LABEL_CELLS_MAX = 28
CELL_CELLS_MAX = 48
"""Of one column of a table; a wider table scrolls sideways."""


@dataclass(frozen=True, slots=True)
class Line:
    """One line of the screen."""

    text: str
    tone: str = ""
    """`heading`, `dim`, `ok`, `warning`, `error`, or nothing; of bars `bar`, `bar-warning`, `bar-error`, `track`."""
    pieces: tuple[tuple[str, str], ...] = ()
    """The text in pieces, each with its tone; empty where it has one tone only."""


def pieced(*pieces: tuple[str, str]) -> Line:
    """A line of pieces with tones of their own."""
    return Line("".join(text for text, _ in pieces), pieces=pieces)


class Lines(ScrollView, can_focus=True):
    """Text that is longer than the screen. Up, down, page and end keys move through it."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {
        "lines--heading",
        "lines--dim",
        "lines--ok",
        "lines--bar",
        "lines--bar-warning",
        "lines--bar-error",
        "lines--track",
        "lines--warning",
        "lines--error",
    }
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("j", "scroll_down", "Down", show=False),
        Binding("k", "scroll_up", "Up", show=False),
    ]

    class Read(Message):
        """The last line was on the screen for the first time."""

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002 - Textual's
        super().__init__(id=id)
        self._layout: Callable[[int], Sequence[Line]] = _nothing
        self._lines: Sequence[Line] = ()
        self.was_read = False
        """Whether the last line has been on the screen."""

    @property
    def text(self) -> str:
        return "\n".join(line.text for line in self._lines)

    def show(self, layout: Callable[[int], Sequence[Line]]) -> None:
        """Draw what `layout` answers for the width of the screen; what is scrolled to stays where it can."""
        self._layout, self.was_read = layout, False
        self._fit()

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        super().watch_scroll_y(old_value, new_value)
        self._check_end()

    def on_resize(self, event: Resize) -> None:
        del event
        self._fit()

    def render_line(self, y: int) -> Strip:
        left, top = round(self.scroll_x), round(self.scroll_y)
        width = self.scrollable_content_region.width
        line = self._lines[top + y] if top + y < len(self._lines) else Line("")
        segments = [
            Segment(printable(text), self._style(tone)) for text, tone in line.pieces or ((line.text, line.tone),)
        ]
        taken = sum(cell_len(segment.text) for segment in segments)
        rest = Segment(" " * max(left + width - taken, 0), self.rich_style)
        return Strip([*segments, rest]).crop(left, left + width)

    def _style(self, tone: str) -> Style:
        return self.get_component_rich_style(f"lines--{tone}") if tone else self.rich_style

    def _fit(self) -> None:
        width = self.scrollable_content_region.width or self.app.size.width
        self._lines = tuple(self._layout(width))
        widest = max((cell_len(line.text) for line in self._lines), default=0)
        self.virtual_size = Size(widest if widest > width else 0, len(self._lines))
        self._check_end()
        self.refresh()

    def _check_end(self) -> None:
        height = self.scrollable_content_region.height
        if height and not self.was_read and round(self.scroll_y) + height >= len(self._lines):
            self.was_read = True
            self.post_message(self.Read())


def _nothing(width: int) -> Sequence[Line]:
    del width
    return ()


def view_lines(view: View, width: int) -> list[Line]:
    """A result as lines: facts, tables, sentences."""
    lines = list(_facts(view.facts, width))
    for table in view.tables:
        lines += [Line(""), *_table(table, width)]
    if view.notes:
        lines += [Line("")] if lines else []
        lines += [Line(text) for note in view.notes for text in wrapped(note, width)]
    return lines or [Line("Done: there is nothing to show.")]


def wrapped(text: str, width: int) -> list[str]:
    """The text in lines of at most so many cells, broken between words where that can be."""
    lines, current = [], ""
    for word in printable(text).split(" "):
        for piece in chop_cells(word, max(width, 1)) or [""]:
            if current and cell_len(current) + 1 + cell_len(piece) > width:
                lines.append(current)
                current = piece
            else:
                current = f"{current} {piece}" if current else piece
    return [*lines, current]


def _facts(facts: Sequence[tuple[str, str]], width: int) -> Iterator[Line]:
    label_width = min(max((cell_len(name) for name, _ in facts), default=0), LABEL_CELLS_MAX)
    for name, value in facts:
        for index, text in enumerate(wrapped(value, max(width - label_width - 2, 20))):
            yield Line(f"{fitted('' if index else name, label_width)}  {text}")


def _table(table: Table, width: int) -> Iterator[Line]:
    yield Line(f"{table.title} ({len(table.rows):,})", "heading")
    if not table.rows:
        yield Line("none", "dim")
        return
    widths = _column_widths(table, width)
    yield Line("  ".join(fitted(title, room) for title, room in zip(table.columns, widths, strict=True)), "dim")
    for row in table.rows:
        yield Line("  ".join(fitted(text, room) for text, room in zip(row, widths, strict=True)).rstrip())


def _column_widths(table: Table, width: int) -> list[int]:
    """As wide as its widest cell; the last column, where sentences stand, may take what is left."""
    columns = zip(table.columns, *table.rows, strict=True)
    natural = [max(cell_len(text) for text in column) for column in columns]
    widths = [min(each, CELL_CELLS_MAX) for each in natural]
    rest = width - sum(widths[:-1]) - 2 * (len(widths) - 1)
    widths[-1] = min(natural[-1], max(rest, CELL_CELLS_MAX))
    return widths
