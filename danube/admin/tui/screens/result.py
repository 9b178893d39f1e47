"""Answers of operations, and reasons why there is none."""

import asyncio
from collections.abc import Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.widgets import Static

from danube.admin.execution import execute
from danube.admin.operations.fields import Params, Result
from danube.admin.operations.operation import AnyOperation, Report, say_nothing
from danube.admin.present import View, view_of, with_details
from danube.admin.tui.app_context import AppContext
from danube.admin.tui.screens.base_screen import BaseScreen
from danube.admin.tui.widgets.lines import Line, Lines, view_lines, wrapped
from danube.admin.tui.widgets.plain import plain
from danube.model.errors import DanubeError, NotPermittedError, PlanRefusedError
from danube.model.limits.faces import TUI_CALL_TIMEOUT_S

Answer = Result | DanubeError


class LinesScreen(BaseScreen):
    """Lines under a heading; `lines` makes them."""

    KEYS = "↑↓ move  ? help  Esc back"
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "app.pop_screen", "Back")]

    def __init__(self, app_context: AppContext, heading: str) -> None:
        super().__init__(app_context)
        self._heading = heading

    def lines(self, width: int) -> Sequence[Line]:
        """The lines for this width of the screen."""
        raise NotImplementedError

    def body(self) -> ComposeResult:
        yield Static(plain(self._heading), classes="heading")
        yield Lines(id="lines")

    def on_mount(self) -> None:
        self.show()
        self.query_one(Lines).focus()

    def show(self) -> None:
        self.query_one(Lines).show(self.lines)


class DetailScreen(LinesScreen):
    """A view under a heading."""

    def __init__(self, app_context: AppContext, heading: str, view: View) -> None:
        super().__init__(app_context, heading)
        self._view = view

    def lines(self, width: int) -> Sequence[Line]:
        return view_lines(self._view, width)


class ResultScreen(LinesScreen):
    """A result, drawn by `danube/admin/present.py`; or a refusal with its sentence."""

    KEYS = "↑↓ move  ←→ sideways  w all fields  n next page  Esc back"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("w", "widen", "All fields"),
        Binding("n", "next_page", "Next page"),
    ]

    def __init__(self, app_context: AppContext, operation: AnyOperation, params: Params, answer: Answer) -> None:
        super().__init__(app_context, operation.command)
        self.operation = operation
        self.params = params
        self.answer = answer
        """What is shown."""
        self._is_wide = False

    def lines(self, width: int) -> Sequence[Line]:
        if isinstance(self.answer, DanubeError):
            return refusal_lines(self.answer, width)
        return view_lines(with_details(view_of(self.operation, self.answer, wide=self._is_wide)), width)

    def action_widen(self) -> None:
        self._is_wide = not self._is_wide
        self.show()

    def action_next_page(self) -> None:
        cursor = getattr(self.answer, "next_cursor", None)
        if self.operation.pages is None or cursor is None:
            self.notify("There is no further page.", markup=False)
            return
        following = self.params.model_copy(update={"cursor": cursor})
        self.run_worker(self._turn(following), group="call", exclusive=True)

    async def _turn(self, params: Params) -> None:
        self.params, self.answer = params, await answer_of(self.app_context, self.operation, params)
        self.show()
        self.query_one(Lines).scroll_home(animate=False)


async def answer_of(
    app_context: AppContext,
    operation: AnyOperation,
    params: Params,
    *,
    plan_id: str | None = None,
    report: Report = say_nothing,
) -> Answer:
    """Call an operation; its error is an answer like another, to be shown."""
    try:
        async with asyncio.timeout(TUI_CALL_TIMEOUT_S):
            return await execute(app_context.session(report), operation, params, plan_id=plan_id)
    except DanubeError as error:
        return error
    except TimeoutError:
        return DanubeError(
            f"{operation.name} did not end within {TUI_CALL_TIMEOUT_S:g} s and was given up: whether it was carried out"
            " is not known, the audit log has what is"
        )


def refusal_lines(error: DanubeError, width: int) -> list[Line]:
    """An error as a sentence, with what to expect of another try."""
    is_refused = isinstance(error, (NotPermittedError, PlanRefusedError))
    heading = "REFUSED" if is_refused else "NOT DONE"
    lines = [Line(f"{heading} ({error.code})", "error"), Line("")]
    lines += [Line(text) for text in wrapped(str(error), width)]
    if error.retryable:
        lines += [Line(""), Line("The same call may succeed later.", "dim")]
    return lines
