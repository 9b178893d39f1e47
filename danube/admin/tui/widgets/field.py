"""One field of a form: its name, what it is for, where it is typed, and what is wrong with it."""

from collections.abc import Callable, Sequence
from typing import Any

from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content
from textual.widget import Widget
from textual.widgets import Checkbox, Input, Select, Static, TextArea

from danube.admin.operations.fields import FieldKind, FieldSpec
from danube.admin.tui.completion import NameSuggester
from danube.admin.tui.forms import text_of
from danube.admin.tui.widgets.plain import PlainInput, plain

Names = Callable[[FieldSpec], Sequence[str]]


class TickBox(Checkbox):
    """A check box that shows in a sign, not in a colour, whether it is ticked."""

    @property
    def _button(self) -> Content:
        return Content("[x]" if self.value else "[ ]")


class FieldEditor(Vertical):
    """Asks for one parameter."""

    def __init__(self, field: FieldSpec, initial: Any, names: Names) -> None:  # noqa: ANN401 - any JSON value
        super().__init__(classes="field")
        self.field = field
        self._initial = field.default if initial is None else initial
        self._names = names

    def compose(self) -> ComposeResult:
        field = self.field
        if field.kind is FieldKind.SWITCH:
            yield self._editor()
            yield Static(plain(field.description), classes="field-description")
        else:
            need = "needed" if field.is_required else "may be empty"
            name = (_label(field), "bold")
            yield Static(Content.assemble(name, f" ({need})  ", plain(field.description)), classes="field-name")
            yield self._editor()
        yield Static("", classes="field-problem", markup=False)

    @property
    def value(self) -> str | bool:
        """The typed value; empty when nothing was typed."""
        editor = self.query_one(".editor")
        match editor:
            case Checkbox():
                return editor.value
            case Select():
                return "" if editor.is_blank() else str(editor.value)
            case TextArea():
                return editor.text
            case Input():
                return editor.value
            case _:
                return ""

    def fill(self, value: Any) -> None:  # noqa: ANN401 - any JSON value
        editor = self.query_one(".editor")
        match editor:
            case Checkbox():
                editor.value = bool(value)
            case Select():
                editor.value = Select.NULL if value is None else text_of(value)
            case TextArea():
                editor.text = text_of(value)
            case Input():
                editor.value = text_of(value)

    def tell(self, problem: str) -> None:
        """Show what is wrong, in words, or take it away."""
        shown = self.query_one(".field-problem", Static)
        shown.update(plain(f"! {problem}" if problem else ""))
        shown.display = bool(problem)
        self.set_class(bool(problem), "has-problem")

    def focus_editor(self) -> None:
        self.query_one(".editor").focus()

    def _editor(self) -> Widget:
        field, text = self.field, text_of(self._initial)
        match field.kind:
            case FieldKind.SWITCH:
                return TickBox(plain(_label(field)), value=bool(self._initial), compact=True, classes="editor")
            case FieldKind.CHOICE:
                options = [(choice, choice) for choice in field.choices]
                can_be_empty = not text or (not field.is_required and field.default is None)
                value = text or Select.NULL
                return Select(
                    options, value=value, allow_blank=can_be_empty, prompt="-", compact=True, classes="editor"
                )
            case FieldKind.LONG_TEXT:
                return TextArea(text, compact=True, classes="editor")
            case _:
                suggester = NameSuggester(lambda: self._names(field)) if field.completes else None
                return PlainInput(
                    text,
                    password=field.kind is FieldKind.SECRET,
                    suggester=suggester,
                    placeholder=f"a {field.completes}; → completes it" if field.completes else "",
                    compact=True,
                    select_on_focus=False,
                    classes="editor",
                )


def _label(field: FieldSpec) -> str:
    return field.name.replace("_", " ")
