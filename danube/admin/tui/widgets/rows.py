"""A table that draws only what is on the screen, so that its length costs nothing. It obeys nothing in its cells."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from rich.cells import cell_len, set_cell_size
from rich.segment import Segment
from rich.style import Style
from textual.binding import Binding, BindingType
from textual.events import Click, Resize
from textual.geometry import Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from danube.admin.present import printable


@dataclass(frozen=True, slots=True)
class Column:
    """One column; those without a width share what the others leave."""

    title: str
    width: int = 0
    """Cells; 0 takes what is left."""
    is_number: bool = False
    """Right-aligned."""
    from_width: int = 0
    """Left out of a table narrower than this."""


@dataclass(frozen=True, slots=True)
class Cells:
    """One row, ready to be drawn."""

    texts: tuple[str, ...]
    tone: str = ""
    """`warning`, `error` or `dim`: always beside a word that says the same."""
    is_sentence: bool = False
    """One text over all columns, about the row above."""


class Rows(ScrollView, can_focus=True):
    """Rows with a cursor, which stays on its row when rows come and go."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {
        "rows--header",
        "rows--cursor",
        "rows--warning",
        "rows--error",
        "rows--dim",
    }
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "move(-1)", "Up", show=False),
        Binding("down,j", "move(1)", "Down", show=False),
        Binding("pageup", "move_page(-1)", "Page up", show=False),
        Binding("pagedown", "move_page(1)", "Page down", show=False),
        Binding("home,g", "move_to(0)", "First", show=False),
        Binding("end,G", "move_to(-1)", "Last", show=False),
        Binding("enter", "pick", "Open", show=False),
    ]

    class Picked(Message):
        """Somebody pressed Enter on a row, or clicked the row under the cursor."""

        def __init__(self, rows: "Rows", key: str) -> None:
            super().__init__()
            self.rows = rows
            self.key = key

    def __init__(self, columns: Sequence[Column], *, empty: str, id: str | None = None) -> None:  # noqa: A002 - Textual's
        super().__init__(id=id)
        self._columns = tuple(columns)
        self._items: Sequence[Any] = ()
        self._key: Callable[[Any], str] = str
        self._cells: Callable[[Any], Cells] = lambda item: Cells((str(item),))
        self._cursor = 0
        self._empty = empty

    @property
    def selected(self) -> str | None:
        """The key of the row under the cursor."""
        return self._key(self._items[self._cursor]) if self._items else None

    def show(
        self,
        items: Sequence[Any],
        *,
        key: Callable[[Any], str],
        cells: Callable[[Any], Cells],
        columns: Sequence[Column] | None = None,
        empty: str | None = None,
    ) -> None:
        """Draw these rows instead; `cells` is asked for those on the screen alone."""
        before = self.selected
        self._items, self._key, self._cells = items, key, cells
        self._columns = tuple(columns) if columns is not None else self._columns
        self._empty = self._empty if empty is None else empty
        self._cursor = min(self._cursor, max(len(items) - 1, 0))
        if before is not None and self.selected != before:
            self._cursor = next((at for at, item in enumerate(items) if key(item) == before), self._cursor)
        self._fit()
        self.refresh()

    def action_move(self, by: int) -> None:
        self._put_cursor(self._cursor + by)

    def action_move_page(self, by: int) -> None:
        self._put_cursor(self._cursor + by * max(self._page - 1, 1))

    def action_move_to(self, index: int) -> None:
        """Move the cursor to a row; -1 is the last."""
        self._put_cursor(index if index >= 0 else len(self._items) - 1)

    def action_pick(self) -> None:
        if self.selected is not None:
            self.post_message(self.Picked(self, self.selected))

    def on_click(self, event: Click) -> None:
        """A click moves the cursor there; one on the cursor opens the row."""
        index = round(self.scroll_y) + event.y - 1
        if event.y < 1 or index >= len(self._items):
            return
        if index == self._cursor:
            self.action_pick()
        self._put_cursor(index)

    def on_resize(self, event: Resize) -> None:
        del event
        self._fit()

    def render_line(self, y: int) -> Strip:
        width = self.scrollable_content_region.width
        if y == 0:
            titles = tuple(column.title for column in self._columns)
            return self._strip(" ", titles, width, self._style("rows--header"))
        index = round(self.scroll_y) + y - 1
        if index >= len(self._items):
            text = printable(self._empty) if not self._items and y == 1 else ""
            return Strip([Segment(set_cell_size("  " + text, width), self._style("rows--dim"))])
        cells = self._cells(self._items[index])
        is_here = index == self._cursor
        style = self._style(f"rows--{cells.tone}") if cells.tone else self.rich_style
        if is_here and self.has_focus:
            style += self._style("rows--cursor")
        mark = "▸" if is_here else " "
        if cells.is_sentence:
            return Strip([Segment(fitted(f"{mark}   {printable(cells.texts[0])}", width), style)])
        return self._strip(mark, cells.texts, width, style)

    def _strip(self, mark: str, texts: Sequence[str], width: int, style: Style) -> Strip:
        parts = [mark]
        for column, text, room in zip(self._columns, texts, self._widths(width), strict=True):
            if room:
                parts.append(fitted(printable(text), room, right=column.is_number))
        return Strip([Segment(set_cell_size(" ".join(parts), width), style)])

    def _widths(self, width: int) -> list[int]:
        """The width of each column; 0 where it is left out."""
        shown = [width >= column.from_width for column in self._columns]
        fixed = sum(column.width + 1 for column, is_shown in zip(self._columns, shown, strict=True) if is_shown)
        shares = sum(is_shown and not column.width for column, is_shown in zip(self._columns, shown, strict=True))
        rest = max((width - 1 - fixed) // max(shares, 1), 4)
        return [
            (column.width or rest) if is_shown else 0 for column, is_shown in zip(self._columns, shown, strict=True)
        ]

    def _style(self, name: str) -> Style:
        return self.get_component_rich_style(name)

    @property
    def _page(self) -> int:
        """Rows on the screen."""
        return max(self.scrollable_content_region.height - 1, 1)

    def _put_cursor(self, index: int) -> None:
        self._cursor = max(0, min(index, len(self._items) - 1))
        self._follow()
        self.refresh()

    def _follow(self) -> None:
        top = round(self.scroll_y)
        if self._cursor < top:
            self.scroll_to(y=self._cursor, animate=False)
        elif self._cursor >= top + self._page:
            self.scroll_to(y=self._cursor - self._page + 1, animate=False)

    def _fit(self) -> None:
        self.virtual_size = Size(0, len(self._items) + 1)
        self._follow()


def fitted(text: str, width: int, *, right: bool = False) -> str:
    """The text in exactly so many cells; what does not fit ends with an ellipsis."""
    taken = cell_len(text)
    if taken > width:
        return set_cell_size(text, width - 1) + "…"
    return " " * (width - taken) + text if right else text + " " * (width - taken)
