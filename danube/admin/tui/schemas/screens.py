"""Screens of the registry: the subjects, the versions of one, and a version with its change."""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.command import CommandPalette
from textual.widgets import Static

from danube.admin.present import cell
from danube.admin.tui.app_context import AppContext
from danube.admin.tui.data.watch import Part
from danube.admin.tui.palette import SelectionCommands
from danube.admin.tui.schemas.lines import change_lines, definition_lines
from danube.admin.tui.schemas.look import SchemaLook, ShownVersion
from danube.admin.tui.screens.base_screen import BaseScreen
from danube.admin.tui.widgets.lines import Line, Lines
from danube.admin.tui.widgets.plain import plain
from danube.admin.tui.widgets.rows import Cells, Column, Rows
from danube.model.calls.schemas import SchemaVersionInfo, SubjectSummary

_SUBJECTS = (
    Column("Subject"),
    Column("Format", 11),
    Column("Latest", 6, is_number=True),
    Column("Mode", 19),
    Column("Id", 6, is_number=True, from_width=90),
    Column("Tags", 20, from_width=110),
)
_VERSIONS = (
    Column("Version", 7, is_number=True),
    Column("Registered", 20),
    Column("By", 16),
    Column("Description"),
    Column("Fingerprint", 20, from_width=100),
)
_READING = "reading ..."


class _RegistryScreen(BaseScreen):
    """A screen that the registry is read for."""

    @property
    def look(self) -> SchemaLook:
        return self.app_context.watch.schemas

    def parts(self) -> Sequence[Part]:
        return (Part.SCHEMAS, Part.HEALTH, Part.PLANS)

    def read(self) -> None:
        """Read at once, and not with the next round."""
        self.app.call_later(self.app.run_action, "refresh")

    def draw(self) -> None:
        self.query_one("#note", Static).update(plain(self.app_context.watch.problems.get(Part.SCHEMAS, "")))

    def action_operations(self) -> None:
        if self.selection():
            self.app.push_screen(CommandPalette([SelectionCommands], placeholder="What to do with it?"))


class SchemasScreen(_RegistryScreen):
    """The subjects."""

    KEYS = "↑↓ move  Enter versions  o operations  r read now  ? help  Esc back"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "app.pop_screen", "Back"),
        Binding("o", "operations", "Operations"),
    ]

    def selection(self) -> Mapping[str, str]:
        chosen = self.query_one(Rows).selected
        return {} if chosen is None else {"subject": chosen}

    def body(self) -> ComposeResult:
        yield Static(plain("Schema registry"), classes="heading")
        yield Rows(_SUBJECTS, empty=_READING)
        yield Static(id="note", markup=False)

    def on_mount(self) -> None:
        self.query_one(Rows).focus()

    def draw(self) -> None:
        super().draw()
        subjects = self.look.subjects
        empty = _READING if subjects is None else "no subjects: danube-admin schemas register makes one"
        self.query_one(Rows).show(subjects or (), key=_name, cells=_subject_cells, empty=empty)

    def on_rows_picked(self, event: Rows.Picked) -> None:
        self.look.open(event.key)
        self.app.push_screen(SubjectScreen(self.app_context, event.key))
        self.read()


class SubjectScreen(_RegistryScreen):
    """The versions of a subject, the newest first."""

    KEYS = "↑↓ move  Enter change and definition  o operations  ? help  Esc back"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "back", "Back"),
        Binding("o", "operations", "Operations"),
    ]

    def __init__(self, app_context: AppContext, subject: str) -> None:
        super().__init__(app_context)
        self._subject = subject

    def selection(self) -> Mapping[str, str]:
        return {"subject": self._subject}

    def body(self) -> ComposeResult:
        yield Static(plain(self._subject), classes="heading")
        yield Static(id="facts", markup=False)
        yield Rows(_VERSIONS, empty=_READING)
        yield Static(id="note", markup=False)

    def on_mount(self) -> None:
        self.query_one(Rows).focus()

    def draw(self) -> None:
        super().draw()
        self.query_one("#facts", Static).update(plain(self._facts()))
        versions = self.look.versions
        empty = _READING if versions is None else "no versions"
        self.query_one(Rows).show(versions or (), key=_number, cells=_version_cells, empty=empty)

    def action_back(self) -> None:
        """Back to the subjects."""
        self.look.open("")
        self.app.pop_screen()
        self.read()

    def on_rows_picked(self, event: Rows.Picked) -> None:
        self.look.want(self.look.shown(int(event.key)))
        self.app.push_screen(VersionScreen(self.app_context, self._subject))
        self.read()

    def _facts(self) -> str:
        found = next((one for one in self.look.subjects or () if one.subject == self._subject), None)
        if found is None:
            return ""
        return f"{found.schema_type} · mode {found.compatibility_mode} · id {found.schema_id} on messages"


class View(StrEnum):
    """One part of a version, by its title."""

    CHANGE = "Change"
    DEFINITION = "Definition"


class VersionScreen(_RegistryScreen):
    """A version: what changed since another one, and its definition."""

    KEYS = "1 change  2 definition  < > version  [ ] against  ? help  Esc back"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "back", "Back"),
        Binding("o", "operations", "Operations"),
        *(Binding(str(at), f"view('{view.name}')", view.value) for at, view in enumerate(View, 1)),
        Binding("less_than_sign,comma", "version(-1)", "Version before"),
        Binding("greater_than_sign,full_stop", "version(1)", "Next version"),
        Binding("left_square_bracket", "against(-1)", "Compare with an earlier one"),
        Binding("right_square_bracket", "against(1)", "Compare with a later one"),
    ]

    def __init__(self, app_context: AppContext, subject: str) -> None:
        super().__init__(app_context)
        self._subject = subject
        self.view = View.CHANGE

    def selection(self) -> Mapping[str, str]:
        return {"subject": self._subject}

    def body(self) -> ComposeResult:
        yield Static(id="tabs", markup=False)
        yield Lines(id="version")
        yield Static(id="note", markup=False)

    def on_mount(self) -> None:
        self.query_one(Lines).focus()

    def draw(self) -> None:
        super().draw()
        self.query_one("#tabs", Static).update(plain(self._tabs()))
        self.query_one(Lines).show(self._lines)

    def action_back(self) -> None:
        """Back to the versions."""
        self.look.want(None)
        self.app.pop_screen()

    def action_view(self, name: str) -> None:
        self.view = View[name]
        self.query_one(Lines).scroll_home(animate=False)
        self.draw_all()

    def action_version(self, by: int) -> None:
        """The next version, or the one before, each beside the version before it."""
        if self.look.wanted is not None:
            found = self._beside(self.look.wanted.version, by)
            self._want(None if found is None else self.look.shown(found))

    def action_against(self, by: int) -> None:
        """Compare with another version, up to the one before."""
        wanted = self.look.wanted
        found = None if wanted is None or wanted.against is None else self._beside(wanted.against, by)
        if wanted is not None and found is not None and found < wanted.version:
            self._want(ShownVersion(version=wanted.version, against=found))

    def _want(self, shown: ShownVersion | None) -> None:
        if shown is not None:
            self.look.want(shown)
            self.query_one(Lines).scroll_home(animate=False)
            self.draw_all()
            self.read()

    def _beside(self, version: int, by: int) -> int | None:
        """The version next to this one, if there is one."""
        numbers = [one.version for one in reversed(self.look.versions or ())]
        at = numbers.index(version) + by if version in numbers else -1
        return numbers[at] if 0 <= at < len(numbers) else None

    def _tabs(self) -> str:
        wanted = self.look.wanted
        if wanted is None:
            return self._subject
        compared = f" against {wanted.against}" if wanted.against is not None else ""
        parts = [f"{at} {view.value}" for at, view in enumerate(View, 1)]
        drawn = (f"[{text}]" if view is self.view else f" {text} " for view, text in zip(View, parts, strict=True))
        return f"{self._subject} version {wanted.version}{compared}   {'  '.join(drawn)}"

    def _lines(self, width: int) -> list[Line]:
        read = self.look.version
        if read is None:
            is_lost = Part.SCHEMAS in self.app_context.watch.problems
            return [] if is_lost else [Line(_READING, "dim")]
        if self.view is View.DEFINITION or read.change is None:
            first = [] if read.change or self.view is View.DEFINITION else [Line("The first version:", "dim"), Line("")]
            return [*first, *definition_lines(read.definition)]
        return change_lines(read.change, width)


def _name(subject: SubjectSummary) -> str:
    return subject.subject


def _number(version: SchemaVersionInfo) -> str:
    return str(version.version)


def _subject_cells(subject: SubjectSummary) -> Cells:
    return Cells(
        (
            subject.subject,
            subject.schema_type,
            str(subject.latest_version),
            subject.compatibility_mode,
            str(subject.schema_id),
            " ".join(subject.tags),
        )
    )


def _version_cells(version: SchemaVersionInfo) -> Cells:
    registered = cell(version.created_at * 1_000, "created_ms")
    texts = (str(version.version), registered, version.created_by, version.description, version.fingerprint)
    return Cells(texts)
