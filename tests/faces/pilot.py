"""Drives the terminal UI as a person would, so that tests can compare the answers of all faces."""

from collections.abc import Mapping
from typing import Any

from textual.pilot import Pilot

from danube.admin.operations.fields import Result
from danube.admin.operations.operation import AnyOperation
from danube.admin.tui.app import AdminApp
from danube.admin.tui.screens.decide import DecideScreen
from danube.admin.tui.screens.form import FormScreen
from danube.admin.tui.screens.result import Answer, ResultScreen
from danube.admin.tui.widgets.field import FieldEditor
from danube.admin.tui.widgets.lines import Lines
from danube.model.errors import DanubeError, InvalidRequestError


async def run_operation(
    pilot: Pilot[None], operation: AnyOperation, arguments: Mapping[str, Any], *, apply: bool = False
) -> Result:
    """Fill in the form of an operation, send it off, and answer the result that is shown then.

    `pilot` is that of a running `AdminApp`: `async with app.run_test() as pilot`. An operation that acts by a plan
    answers the plan; with `apply` the plan is read and applied, and what comes of that is answered. A consent is given
    by typing what is asked for. The screens that were opened are closed again.

    Raises the DanubeError that is shown; InvalidRequestError for what the form itself refuses, AccessLevelError for an
    operation that is disabled.
    """
    app = _app(pilot)
    depth = len(app.screen_stack)
    form = FormScreen(app.app_context, operation)
    await app.push_screen(form)
    await pilot.pause()
    try:
        for editor in form.query(FieldEditor):
            if editor.field.name in arguments:
                editor.fill(arguments[editor.field.name])
        await pilot.press("ctrl+s")
        return await _result(pilot, form, consent=apply or operation.needs_person)
    finally:
        while len(app.screen_stack) > depth:
            await app.pop_screen()


async def confirm(pilot: Pilot[None]) -> None:
    """On a plan that is shown: read it to its end, and type what is asked for."""
    app = _app(pilot)
    screen = app.screen
    if not isinstance(screen, DecideScreen) or screen.act is None:
        raise InvalidRequestError("nothing is asked for on this screen")
    screen.query_one(Lines).scroll_end(animate=False, immediate=True)
    await pilot.pause()
    screen.word.value = screen.act.word
    screen.word.focus()
    await pilot.press("enter")
    await app.workers.wait_for_complete(list(screen.workers))
    await pilot.pause()


def answer_shown(pilot: Pilot[None]) -> Answer | None:
    """The result, or the error, on the screen; None when there is none."""
    screen = pilot.app.screen
    return screen.answer if isinstance(screen, (ResultScreen, DecideScreen)) else None


async def _result(pilot: Pilot[None], form: FormScreen, *, consent: bool) -> Result:
    if form.problems:
        raise InvalidRequestError("; ".join(f"{name}: {text}" for name, text in form.problems.items()))
    if form.call is None:  # the form is shown, and cannot be sent off
        form.app_context.target.guard.check(form.operation.name, form.operation.level)
        raise InvalidRequestError(f"{form.operation.name} was not called")
    await _app(pilot).workers.wait_for_complete([form.call])
    await pilot.pause()
    if consent and isinstance(pilot.app.screen, DecideScreen):
        await confirm(pilot)
    answer = answer_shown(pilot)
    if isinstance(answer, DanubeError):
        raise answer
    if answer is None:
        raise InvalidRequestError(f"{form.operation.name} showed no result")
    return answer


def _app(pilot: Pilot[None]) -> AdminApp:
    app = pilot.app
    if not isinstance(app, AdminApp):
        raise TypeError("this is no terminal UI of danube-admin")
    return app
