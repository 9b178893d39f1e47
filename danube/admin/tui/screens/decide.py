"""A plan, to be read whole, and then decided about by typing a word."""

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.widgets import Input, Static

from danube.admin.operations.plan_views import PlannedResult, PlanView
from danube.admin.present import View
from danube.admin.tui.app_context import AppContext
from danube.admin.tui.header import refusal
from danube.admin.tui.plan_actions import Act, acts_on
from danube.admin.tui.screens.base_screen import BaseScreen
from danube.admin.tui.screens.result import Answer, ResultScreen, answer_of
from danube.admin.tui.widgets.lines import Line, Lines, view_lines
from danube.admin.tui.widgets.plain import PlainInput, plain
from danube.model.errors import DanubeError
from danube.model.plans.plan import PlanStatus

_NAMES = {"a": "approve", "x": "reject", "y": "apply"}
_PAST = {"a": "approved", "x": "rejected", "y": "applied"}


class DecideScreen(BaseScreen):
    """A plan, and a field for the word that makes it happen; empty it does nothing, Escape leaves."""

    KEYS = "↑↓ read  a approve  x reject  y apply  Enter confirm  Esc leave it"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "app.pop_screen", "Back"),
        Binding("up", "scroll(-1)", show=False),
        Binding("down", "scroll(1)", show=False),
        Binding("pageup", "scroll(-10)", show=False),
        Binding("pagedown", "scroll(10)", show=False),
        *(Binding(key, f"choose('{key}')", name) for key, name in _NAMES.items()),
    ]

    def __init__(
        self,
        app_context: AppContext,
        view: View,
        *,
        plan: PlanView | None = None,
        act: Act | None = None,
        answer: PlannedResult | None = None,
    ) -> None:
        super().__init__(app_context)
        self.plan = plan
        self.answer: Answer | None = answer
        """The plan, where the person has just asked for it; later what came of it."""
        self.act = act
        self._view = view

    def body(self) -> ComposeResult:
        heading = f"plan {self.plan.plan_id}" if self.plan else "a person's word is needed"
        yield Static(plain(heading), classes="heading")
        yield Lines(id="plan")
        yield Static(id="question", markup=False)
        yield PlainInput(id="word", compact=True, select_on_focus=False)
        yield Static(id="message", markup=False)

    @property
    def word(self) -> Input:
        return self.query_one("#word", Input)

    def on_mount(self) -> None:
        self.query_one(Lines).show(self._lines)
        self.query_one(Lines).focus()
        self._ask()

    def on_lines_read(self) -> None:
        """The end of the plan was on the screen: now it can be decided about."""
        self._ask()

    def action_scroll(self, by: int) -> None:
        self.query_one(Lines).scroll_relative(y=by, animate=False)

    def action_choose(self, key: str) -> None:
        act = acts_on(self.plan).get(key) if self.plan else None
        if act is None:
            status = self.plan.status if self.plan else "no plan"
            self._message(f"This plan is {status}: it cannot be {_PAST[key]}.")
            return
        self.act = act
        self._message("")
        self._ask()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        act = self.act
        if act is None or not event.value:
            return
        if event.value != act.word:
            self._message(f"Nothing was done: that is not {act.word}.")
            return
        event.input.disabled = True
        self._message("Working ...")
        self.run_worker(self._do(act), group="call", exclusive=True)

    def _lines(self, width: int) -> list[Line]:
        """Changes, and what cannot be undone, before all else."""
        view = self._view
        head = view_lines(View(notes=view.notes), width) if view.notes else []
        return [*head, Line(""), *view_lines(View(view.facts, view.tables), width)] if head else view_lines(view, width)

    def _ask(self) -> None:
        word, question = self.word, self.query_one("#question", Static)
        word.disabled = True
        word.display = self.act is not None
        if self.act is None:
            choices = acts_on(self.plan) if self.plan else {}
            offers = ", ".join(f"{key} to {_NAMES[key]} it" for key in choices)
            question.update(plain(f"Press {offers}." if offers else f"This plan is {_status(self.plan)}."))
        elif reason := refusal(self.app_context.target, self.act.operation):
            question.update(plain(f"To {self.act.verb} {reason}."))
        elif not self.query_one(Lines).was_read:
            question.update(plain("Read to the end first: there is more below (down, page down)."))
        else:
            question.update(plain(f"To {self.act.verb} type  {self.act.word}  and press Enter."))
            word.disabled = False
            word.focus()

    async def _do(self, act: Act) -> None:
        answer = await answer_of(self.app_context, act.operation, act.params, plan_id=act.plan_id)
        self.answer = answer
        if isinstance(answer, DanubeError):
            self._message(f"Not done ({answer.code}): {answer}")
            self._ask()
            return
        self.app.switch_screen(ResultScreen(self.app_context, act.operation, act.params, answer))

    def _message(self, text: str) -> None:
        self.query_one("#message", Static).update(plain(text))


def _status(plan: PlanView | None) -> str:
    return plan.status if plan else PlanStatus.EXPIRED
