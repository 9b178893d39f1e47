"""Calling an operation from the command line, and showing what it answers."""

import os
import shutil
import sys
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field, replace
from typing import Any

from danube.admin.broker_names import as_ids
from danube.admin.cli.output.draw import Cell, Changed, Screen, cells_of, drawn
from danube.admin.cli.output.options import OutputFormat, OutputOptions
from danube.admin.cli.output.selection import in_order, names_text, program_text, result_csv
from danube.admin.cli.output.serial import data_of
from danube.admin.execution import Session, execute
from danube.admin.operations.cluster.health import CheckStatus, Health
from danube.admin.operations.fields import Params, Result
from danube.admin.operations.operation import AnyOperation
from danube.admin.operations.plan_views import PlannedResult
from danube.admin.present import Table, View, label, plan_view_of, printable, view_of
from danube.admin.target import PROGRAM, Connect, Target
from danube.model.errors import DanubeError
from danube.model.exit_codes import ExitCode
from danube.model.limits.faces import CLI_FOLLOW_S
from danube.model.plans.plan import Caller, Face, PlanStatus
from danube.model.text import percent_text, time_of
from danube.runtime import console
from danube.runtime.clock import Clock, SystemClock

_OF_VERDICT = {CheckStatus.WARNING: ExitCode.WARNING, CheckStatus.CRITICAL: ExitCode.CRITICAL}


@dataclass(frozen=True, slots=True, kw_only=True)
class Shell:
    """The surroundings of a command: the target, how to reach it and how to show its answer."""

    connect: Connect
    target: Target
    output: OutputOptions
    clock: Clock = field(default_factory=SystemClock)
    only: tuple[str, ...] = ()
    """Fields to show: of a row in a listing, of the result elsewhere; all of them when empty."""
    shown_as: str = ""
    """What the one fact of these is called; by its name when empty."""

    def call(
        self, operation: AnyOperation, params: Params, *, plan_id: str | None = None, dry_run: bool = False
    ) -> Result:
        """Execute the operation, on a connection of its own, and follow the pages of a listing to their end."""
        return console.awaited(
            _called(self, operation, params, plan_id, dry_run=dry_run), log_level=self.output.log_level
        )

    def say(self, text: str) -> None:
        """Tell the person, unless told to be quiet."""
        if not self.output.quiet:
            console.say(text, PROGRAM)


def show(shell: Shell, operation: AnyOperation, result: Result) -> ExitCode:
    """Write the result to standard output, and answer the code that the command ends with."""
    if shell.output.sort_by:
        result = in_order(operation, result, shell.output.sort_by)
    console.write(_text(shell, operation, result))
    listing = operation.listing
    if listing and not getattr(result, listing.rows) and shell.output.output.is_for_people:
        shell.say(f"there are no {listing.rows.replace('_', ' ')}")
    if listing and (cursor := getattr(result, "next_cursor", None)):
        shell.say(f"there are more, {getattr(result, 'total', 0):,} in all: go on with --cursor {cursor}")
    for missing in getattr(result, "not_answered", ()):
        console.say(printable(f"not asked, and missing: {missing}"), PROGRAM)
    if not getattr(result, "is_intact", True):
        console.say(_damage(result), PROGRAM)
        return ExitCode.DAMAGED_DATA
    if unreachable := getattr(result, "unreachable", 0):
        console.say(f"{unreachable:,} of what was to be checked cannot be read: see why, and check again", PROGRAM)
        return ExitCode.UNAVAILABLE
    return _OF_VERDICT.get(result.verdict, ExitCode.OK) if isinstance(result, Health) else ExitCode.OK


def watch(shell: Shell, operation: AnyOperation, params: Params, interval_s: float) -> ExitCode:
    """Show the result again and again until Ctrl-C: in its place on a terminal, one after the other in a pipe."""
    return console.awaited(_watch(shell, operation, params, interval_s), log_level=shell.output.log_level)


async def _watch(shell: Shell, operation: AnyOperation, params: Params, interval_s: float) -> ExitCode:
    before: dict[Cell, str] = {}
    trouble = ""
    while True:
        due_s = shell.clock.monotonic_s() + interval_s
        try:
            result = await _called(shell, operation, params, None, is_refresh=bool(before))
        except DanubeError as error:
            if not error.retryable:
                raise
            if trouble != str(error):  # said once, however long it lasts
                trouble = str(error)
                console.say(trouble, PROGRAM)
        else:
            trouble = ""
            if shell.output.sort_by:
                result = in_order(operation, result, shell.output.sort_by)
            cells = cells_of(_view(shell, operation, result))
            changed = frozenset(place for place, text in cells.items() if before.get(place, text) != text)
            _redraw(shell, _text(shell, operation, result, changed))
            before = cells
        await shell.clock.sleep_until(due_s)


def stdout_screen(output: OutputOptions) -> Screen:
    """The screen behind standard output."""
    is_terminal = console.is_terminal(sys.stdout)
    is_plain = output.no_color or bool(os.environ.get("NO_COLOR")) or os.environ.get("TERM") == "dumb"
    return Screen(
        is_terminal=is_terminal,
        width=shutil.get_terminal_size().columns,
        color=is_terminal and not is_plain,
        verbose=output.verbose,
    )


def session_of(shell: Shell, gateway: Any) -> Session:  # noqa: ANN401 - an AdminGateway, which Connect opens
    """The calls of whoever runs the command."""
    return Session(
        gateway=gateway,
        caller=Caller(who=console.whoever_calls(), face=Face.CLI),
        clock=shell.clock,
        guard=shell.target.guard,
        report=_report(shell.output),
        follow_s=CLI_FOLLOW_S if _is_heard(shell.output) else 0.0,
    )


async def _called(
    shell: Shell,
    operation: AnyOperation,
    params: Params,
    plan_id: str | None,
    *,
    dry_run: bool = False,
    is_refresh: bool = False,
) -> Result:
    async with shell.connect(shell.target) as gateway:
        session = replace(session_of(shell, gateway), is_refresh=is_refresh)
        return await execute(session, operation, params, plan_id=plan_id, dry_run=dry_run)


def _text(shell: Shell, operation: AnyOperation, result: Result, changed: Changed = frozenset()) -> str:
    if shell.output.output is OutputFormat.NAME:
        return names_text(operation, result)
    if shell.output.output is OutputFormat.CSV:
        return result_csv(operation, result, shell.only)
    if not shell.output.output.is_for_people:
        return program_text(data_of(operation, result, shell.only), shell.output)
    with as_ids(shell.output.verbose):
        return drawn(_view(shell, operation, result), stdout_screen(shell.output), changed)


def _view(shell: Shell, operation: AnyOperation, result: Result) -> View:
    if isinstance(result, PlannedResult):
        return _plan_view(result)
    view = view_of(operation, result, wide=shell.output.output == "wide")
    if operation.listing:
        facts = view.facts if stdout_screen(shell.output).is_terminal else ()
        view = View(facts, view.tables)  # a pipe gets the rows alone, and what stands below a listing is talk
    if not shell.only:
        return view
    projected = _projected(view, frozenset(map(label, shell.only)))
    if shell.shown_as:
        return View(tuple((shell.shown_as, value) for _, value in projected.facts), projected.tables)
    return projected


def _plan_view(result: PlannedResult) -> View:
    """A plan whole, or in short when it is done: who applied it has seen it."""
    whole = plan_view_of(result.plan)
    if result.status is not PlanStatus.APPLIED:
        return whole
    facts = tuple(fact for fact in whole.facts if fact[0] in {"Plan", "Operation", "Status"})
    if result.progress is not None:
        return View(facts, whole.tables, (result.next_step,))
    return View(facts, (), (*whole.notes, "Done."))


def _projected(view: View, labels: frozenset[str]) -> View:
    facts = tuple(fact for fact in view.facts if fact[0] in labels)
    return View(facts, tuple(table for each in view.tables for table in [_columns(each, labels)] if table.columns))


def _columns(table: Table, labels: frozenset[str]) -> Table:
    kept = [index for index, column in enumerate(table.columns) if column in labels]
    rows = tuple(tuple(row[index] for index in kept) for row in table.rows)
    return Table(table.title, tuple(table.columns[index] for index in kept), rows)


def _redraw(shell: Shell, text: str) -> None:
    moment = time_of(shell.clock.now_ms())
    screen = stdout_screen(shell.output)
    if screen.is_terminal:
        height = shutil.get_terminal_size().lines - 2
        lines = text.splitlines()
        shown = lines if len(lines) <= height else [*lines[: height - 1], f"({len(lines) - height + 1} more lines)"]
        console.write("\x1b[H\x1b[2J" + "".join(f"{line}\n" for line in [moment, *shown]))
    elif shell.output.output.is_for_people:
        console.write(f"{moment}\n{text}\n")
    else:
        separator = "---\n" if shell.output.output == "yaml" else ""
        console.write(f"{separator}{text}")


def _damage(result: Result) -> str:
    found = result.model_dump()
    place = found.get("broken_at")
    where = f"record {place} does not fit" if place is not None else "it is damaged"
    return f"this is not what was written: {where}{': ' if found.get('reason') else ''}{found.get('reason') or ''}"


def _is_heard(output: OutputOptions) -> bool:
    """True if somebody sees how far long work is."""
    return console.is_terminal(sys.stderr) and not output.quiet


def _report(output: OutputOptions) -> Callable[[float, float | None, str], Coroutine[Any, Any, None]]:
    """Says how far long work is, on a terminal."""
    is_heard = _is_heard(output)

    async def report(done: float, total: float | None, message: str) -> None:
        if is_heard:
            share = f" {percent_text(done / total)}" if total else ""
            sys.stderr.write(f"\r\x1b[K{console.escaped(message)}{share}" if done != total else "\r\x1b[K")

    return report
