"""Operations that act by a plan: show it, ask, apply. And a person's consent to somebody else's plan.

Without a yes nothing is applied: not by an interrupted question, not by the end of input, and not where nobody can be
asked.
"""

import select
import signal
import socket
import sys
from dataclasses import dataclass

from danube.admin.cli.call import Shell, session_of, show, stdout_screen
from danube.admin.cli.output.draw import Screen, drawn
from danube.admin.cli.parameters import fields_of
from danube.admin.execution import record_refusal
from danube.admin.operations.fields import Params
from danube.admin.operations.operation import AnyOperation
from danube.admin.operations.plan_views import PlannedResult, PlanView, plan_view
from danube.admin.present import plan_view_of, printable
from danube.model.errors import DanubeError, NotPermittedError
from danube.model.exit_codes import ExitCode
from danube.model.limits.faces import CLI_ANSWER_CHARS_MAX
from danube.model.plans.plan import Effect, PlanStatus
from danube.runtime import console


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanWords:
    """Flags about the plan."""

    plan_id: str | None = None
    dry_run: bool = False


def carry_out(shell: Shell, operation: AnyOperation, params: Params, words: PlanWords) -> ExitCode:
    """Plan, ask, and apply; or apply a plan that was made before."""
    if words.plan_id is not None:
        return show(shell, operation, shell.call(operation, params, plan_id=words.plan_id))
    planned = _planned(shell, operation, params, dry_run=words.dry_run)
    if words.dry_run:
        shell.say("nothing has changed; to do it, run it without --dry-run")
        return show(shell, operation, planned)
    if planned.status is PlanStatus.SHOWN:
        shell.say("nothing has changed: there is nothing to apply")
        return show(shell, operation, planned)
    if planned.status is PlanStatus.READY and _has_consent(shell, operation, params, planned.plan):
        return show(shell, operation, shell.call(operation, params, plan_id=planned.plan.plan_id))
    if not shell.target.assume_yes and _can_ask():
        shell.say("nothing has changed")
    else:
        show(shell, operation, planned)
        shell.say(
            f"nothing has changed: nobody could be asked. Run it again with --yes, or with --plan-id"
            f" {planned.plan.plan_id} to apply this very plan"
        )
    return ExitCode.NEEDS_YES


def consent(shell: Shell, operation: AnyOperation, params: Params) -> ExitCode:
    """Show a plan whole and let the person at the terminal type its id; then the operation is called.

    Raises NotPermittedError where no person is at the terminal.
    """
    if not console.is_terminal(sys.stdin, sys.stdout):
        error = NotPermittedError(
            f"`{operation.command}` is a person's consent: run it in a terminal, with neither input nor output"
            " redirected"
        )
        console.awaited(_record(shell, operation, params, error), log_level=shell.output.log_level)
        raise error
    plan_id = _plan_id(operation, params)
    plan = console.awaited(_plan(shell, plan_id), log_level=shell.output.log_level)
    console.write(drawn(plan_view_of(plan), stdout_screen(shell.output)))
    console.write("\n")
    if not _typed_again(f"Type {printable(plan_id)} to go on, anything else to leave it", printable(plan_id)):
        shell.say("nothing has changed")
        return ExitCode.NEEDS_YES
    return show(shell, operation, shell.call(operation, params))


def _planned(shell: Shell, operation: AnyOperation, params: Params, *, dry_run: bool) -> PlannedResult:
    result = shell.call(operation, params, dry_run=dry_run)
    if not isinstance(result, PlannedResult):
        raise TypeError(f"{operation.name} answers no plan")
    return result


def _has_consent(shell: Shell, operation: AnyOperation, params: Params, plan: PlanView) -> bool:
    if shell.target.assume_yes:
        return True
    if not _can_ask():
        return False
    screen = Screen(is_terminal=True, width=stdout_screen(shell.output).width, color=stdout_screen(shell.output).color)
    sys.stderr.write(drawn(plan_view_of(plan), screen) + "\n")
    if plan.effect is Effect.DESTROY and plan.messages != 0 and operation.positional:
        name = printable(str(getattr(params, operation.positional[0])))
        return _typed_again(f"This cannot be undone. Type {name} to go on", name)
    return _confirmed("Do it?")


async def _record(shell: Shell, operation: AnyOperation, params: Params, error: DanubeError) -> None:
    """Record an attempt to consent in a person's place."""
    async with shell.connect(shell.target) as gateway:
        await record_refusal(session_of(shell, gateway), operation, params, error)


async def _plan(shell: Shell, plan_id: str) -> PlanView:
    async with shell.connect(shell.target) as gateway:
        session = session_of(shell, gateway)
        return plan_view(await session.gateway.plan(plan_id), shell.clock.now_ms())


def _plan_id(operation: AnyOperation, params: Params) -> str:
    """The id of the plan that the operation is about."""
    name = next(name for name, field in fields_of(operation).items() if field.completes == "plan")
    return str(getattr(params, name))


def _can_ask() -> bool:
    """True if a person reads what is asked and types the answer."""
    return console.is_terminal(sys.stdin, sys.stderr)


def _confirmed(question: str) -> bool:
    """True if the answer is yes; anything else, and nothing, is no."""
    return _answer(f"{question} [y/N] ").lower() in {"y", "yes"}


def _typed_again(question: str, word: str) -> bool:
    """True if exactly this word was typed."""
    return _answer(f"{question}: ") == word


def _answer(prompt: str) -> str:
    sys.stderr.write(prompt)
    sys.stderr.flush()
    _wait_for_input()
    line = sys.stdin.readline(CLI_ANSWER_CHARS_MAX)
    if not line.endswith("\n"):
        sys.stderr.write("\n")
    return line.strip()


def _wait_for_input() -> None:
    """Return once a line was typed, or raise KeyboardInterrupt at once.

    Python keeps a Ctrl-C that comes right before a read blocks until the next key; a signal's wake-up descriptor does
    not miss it.
    """
    woken, wakes = socket.socketpair()
    with woken, wakes:
        wakes.settimeout(0)
        before = signal.set_wakeup_fd(wakes.fileno(), warn_on_full_buffer=False)
        try:
            while sys.stdin not in select.select([sys.stdin, woken], [], [])[0]:
                woken.recv(1)
        finally:
            signal.set_wakeup_fd(before)
