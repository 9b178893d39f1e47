"""The form of any operation, and the call that comes of it."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.widgets import Button, Input, Static
from textual.worker import Worker

from danube.admin.operations.fields import FieldSpec, Params
from danube.admin.operations.operation import AnyOperation
from danube.admin.operations.plan_views import PlannedResult, PlanView, plan_view
from danube.admin.present import View
from danube.admin.tui.app_context import AppContext
from danube.admin.tui.completion import names_of
from danube.admin.tui.data.watch import Part
from danube.admin.tui.forms import arguments_of, bounded_page, fields_of, judge
from danube.admin.tui.header import refusal
from danube.admin.tui.plan_actions import apply_act, consent_act, whole_view
from danube.admin.tui.screens.base_screen import BaseScreen
from danube.admin.tui.screens.decide import DecideScreen
from danube.admin.tui.screens.result import ResultScreen, answer_of
from danube.admin.tui.widgets.field import FieldEditor
from danube.admin.tui.widgets.plain import plain
from danube.model.errors import DanubeError
from danube.model.plans.plan import Effect, PlanStatus

_EFFECT_WORDS = {
    Effect.READ: "Looks, and changes nothing.",
    Effect.WRITE: "Changes the cluster at once.",
    Effect.MOVE: "Makes a plan first: nothing moves before you have read it.",
    Effect.DESTROY: "Makes a plan first: nothing is destroyed before you have read it.",
}


class FormScreen(BaseScreen):
    """Asks for the parameters of an operation, says what is wrong with them, and calls it."""

    KEYS = "Tab next field  Enter or Ctrl+S go  Esc back (or give the call up)"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "leave", "Back"),
        Binding("ctrl+s", "submit", "Go", priority=True),
    ]

    def __init__(
        self, app_context: AppContext, operation: AnyOperation, initial: Mapping[str, Any] | None = None
    ) -> None:
        super().__init__(app_context)
        self.operation = operation
        self.fields = fields_of(operation)
        self.call: Worker[None] | None = None
        """The call that is under way, or was last."""
        self.problems: Mapping[str, str] = {}
        """What was wrong when the form was last sent off, by field."""
        self._initial = initial or {}

    def parts(self) -> Sequence[Part]:
        return (Part.HEALTH, Part.BROKERS, Part.PLANS)

    def body(self) -> ComposeResult:
        operation = self.operation
        yield Static(plain(f"{operation.command}  {operation.summary}"), classes="heading")
        with VerticalScroll(id="form"):
            if operation.description:
                yield Static(plain(operation.description), classes="dim")
            for field in self.fields:
                yield FieldEditor(field, self._initial.get(field.name), self._names)
            words = "" if operation.needs_person else _EFFECT_WORDS[operation.effect]
            yield Static(plain(words), id="effect", classes="dim")
            yield Button(plain(f"[ {self._verb()} ]"), id="go", compact=True)
        yield Static(id="message", markup=False)

    def on_mount(self) -> None:
        reason = refusal(self.app_context.target, self.operation)
        self.query_one("#go", Button).disabled = reason is not None
        if reason:
            self._message(f"Disabled: {self.operation.command} {reason}.")
        editors = list(self.query(FieldEditor))
        missing = next((each for each in editors if each.field.is_required and not each.value), None)
        if missing:
            missing.focus_editor()
        elif not reason:
            self.query_one("#go", Button).focus()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self.action_submit()

    def on_button_pressed(self) -> None:
        self.action_submit()

    def action_leave(self) -> None:
        """Give up a call that is under way; else go back."""
        if self.call is None or self.call.is_finished:
            self.app.pop_screen()
            return
        self.call.cancel()
        if self.operation.effect is Effect.READ:
            self._message("Given up.")
        else:
            self._message("Given up: whether it was carried out is not known here. The audit log has what is known.")

    def action_submit(self) -> None:
        if self.call is not None and not self.call.is_finished:
            return
        if refusal(self.app_context.target, self.operation):
            return
        typed = {editor.field.name: editor.value for editor in self.query(FieldEditor)}
        judged = judge(self.operation, arguments_of(self.fields, typed))
        self._show_problems(judged.problems)
        if judged.params is None:
            return
        params = bounded_page(self.operation, judged.params)
        self._message("Working ... Esc gives up.")
        self.call = self.run_worker(self._call(params), group="call")

    async def _call(self, params: Params) -> None:
        if self.operation.needs_person:
            await self._ask_person(params)
            return
        answer = await answer_of(self.app_context, self.operation, params, report=self._report)
        self._message("")
        if isinstance(answer, PlannedResult) and answer.status is PlanStatus.READY:
            act = apply_act(self.operation, params, answer.plan.plan_id)
            screen = DecideScreen(self.app_context, whole_view(answer.plan), plan=answer.plan, act=act, answer=answer)
            await self.app.push_screen(screen)
            return
        await self.app.push_screen(ResultScreen(self.app_context, self.operation, params, answer))

    async def _ask_person(self, params: Params) -> None:
        """Show what the consent is about: the plan that a parameter names, or the parameters themselves."""
        try:
            plan = await self._plan_named_by(params)
        except DanubeError as error:
            self._message("")
            await self.app.push_screen(ResultScreen(self.app_context, self.operation, params, error))
            return
        self._message("")
        view = whole_view(plan) if plan else _given(params)
        act = consent_act(self.operation, params, plan.plan_id if plan else None)
        await self.app.push_screen(DecideScreen(self.app_context, view, plan=plan, act=act))

    async def _plan_named_by(self, params: Params) -> PlanView | None:
        named = next((field.name for field in self.fields if field.completes == "plan"), None)
        if named is None:
            return None
        plan = await self.app_context.gateway.plan(str(getattr(params, named)))
        return plan_view(plan, self.app_context.clock.now_ms())

    def _show_problems(self, problems: Mapping[str, str]) -> None:
        self.problems = problems
        editors = list(self.query(FieldEditor))
        for editor in editors:
            editor.tell(problems.get(editor.field.name, ""))
        wrong = next((editor for editor in editors if editor.field.name in problems), None)
        if wrong:
            wrong.focus_editor()
        if problems:
            self._message(problems.get("", "") or "Nothing was called yet: see the fields marked with !")

    def _names(self, field: FieldSpec) -> Sequence[str]:
        topics = [editor.value for editor in self.query(FieldEditor) if editor.field.completes == "topic"]
        return names_of(field.completes or "", self.app_context.watch, str(topics[0]) if topics else "")

    def _verb(self) -> str:
        if self.operation.needs_person:
            return "Go on to decide"
        return "Make a plan" if self.operation.is_planned else "Call"

    async def _report(self, done: float, total: float | None, message: str) -> None:
        share = f"{done:,.0f} of {total:,.0f}" if total else f"{done:,.0f}"
        self._message(f"Working ... Esc gives up. {message}: {share}")

    def _message(self, text: str) -> None:
        self.query_one("#message", Static).update(plain(text))


def _given(params: Params) -> View:
    arguments = params.model_dump(mode="json")
    return View(tuple((name, json.dumps(value)) for name, value in arguments.items()))
