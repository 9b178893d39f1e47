"""Balance of the cluster: a bar for each broker and resource, a plan's before and after, topics, and what was moved."""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any, ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.widgets import Static

from danube.admin.broker_names import named
from danube.admin.charts.balance import balance_chart, judged, judged_number, plan_chart
from danube.admin.execution import parse_arguments
from danube.admin.operations import operation_of
from danube.admin.operations.cluster.balance import BalanceResult
from danube.admin.operations.cluster.balance_views import RebalancePlanView, RebalanceView, TopicBalanceRow
from danube.admin.operations.plan_views import PlannedResult, PlanView
from danube.admin.present import as_commands, cell
from danube.admin.tui.app_context import AppContext
from danube.admin.tui.data.watch import Part
from danube.admin.tui.header import refusal
from danube.admin.tui.plan_actions import acts_on, whole_view
from danube.admin.tui.screens.base_screen import BaseScreen
from danube.admin.tui.screens.decide import DecideScreen
from danube.admin.tui.screens.form import FormScreen
from danube.admin.tui.screens.result import ResultScreen, answer_of
from danube.admin.tui.widgets.balance_lines import (
    broker_lines,
    change_lines,
    judged_lines,
    move_lines,
    plan_lines,
    progress_lines,
)
from danube.admin.tui.widgets.lines import Line, Lines, pieced, wrapped
from danube.admin.tui.widgets.plain import plain
from danube.admin.tui.widgets.rows import fitted
from danube.model.plans.plan import PlanStatus
from danube.model.text import age_text, amount_text, count_text, size_text

REBALANCE = "trigger_rebalance"
CANCEL = "cancel_rebalance"
AUTOMATIC = "set_automatic_balance"
WHAT_IF = "analyze_cluster_balance"
RULE = "set_balance_rule"


class View(StrEnum):
    """One part of the screen, by its title."""

    BROKERS = "Brokers"
    PLAN = "Plan"
    TOPICS = "Topics"
    HISTORY = "Last rebalance"


class BalanceScreen(BaseScreen):
    """The balance screen."""

    KEYS = "1-4 parts  n plan  a approve  y apply  x reject  c cancel  ? help  Esc back"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "app.pop_screen", "Back"),
        *(Binding(str(at), f"open('{view.name}')", view.value) for at, view in enumerate(View, 1)),
        Binding("tab", "next_view(1)", "Next part", show=False),
        Binding("shift+tab", "next_view(-1)", "Part before", show=False),
        Binding("n", "make_plan", "Plan"),
        *(Binding(key, f"decide('{key}')", name) for key, name in (("a", "Approve"), ("x", "Reject"), ("y", "Apply"))),
        Binding("c", f"form('{CANCEL}')", "Cancel"),
        Binding("m", f"form('{AUTOMATIC}')", "Automatic"),
        Binding("w", f"form('{WHAT_IF}')", "What if"),
        Binding("i", f"form('{RULE}')", "Pin", show=False),
    ]

    def __init__(self, app_context: AppContext) -> None:
        super().__init__(app_context)
        self.view = View.BROKERS

    def parts(self) -> Sequence[Part]:
        return (Part.BALANCE, Part.PLANS, Part.HEALTH)

    def body(self) -> ComposeResult:
        yield Static(id="tabs", markup=False)
        yield Lines(id="balance")
        yield Static(id="note", markup=False)

    def on_mount(self) -> None:
        self.query_one(Lines).focus()

    def draw(self) -> None:
        watch = self.app_context.watch
        self.query_one("#tabs", Static).update(plain(self._tabs()))
        self.query_one(Lines).show(self._lines)
        self.query_one("#note", Static).update(plain(watch.problems.get(Part.BALANCE, "")))

    def action_open(self, name: str) -> None:
        self.view = View[name]
        self.query_one(Lines).scroll_home(animate=False)
        self.draw_all()

    def action_next_view(self, by: int) -> None:
        views = list(View)
        self.action_open(views[(views.index(self.view) + by) % len(views)].name)

    def action_make_plan(self) -> None:
        """Plan a rebalance with the defaults, and show it."""
        if not self._is_refused(REBALANCE):
            self._note("Planning ...")
            self.run_worker(self._plan(), group="call", exclusive=True)

    def action_decide(self, key: str) -> None:
        found = self.app_context.watch.rebalance_plan
        if found is None:
            self._note("There is no plan: n makes one.")
            return
        act = acts_on(found).get(key)
        if act is None:
            self._note(_not_now(found, key))
            return
        self.app.push_screen(DecideScreen(self.app_context, whole_view(found), plan=found, act=act))

    def action_form(self, name: str) -> None:
        self.app.push_screen(FormScreen(self.app_context, operation_of(name), self._initial(name)))

    async def _plan(self) -> None:
        operation = operation_of(REBALANCE)
        params = parse_arguments(operation, {})
        answer = await answer_of(self.app_context, operation, params)
        if not isinstance(answer, PlannedResult) or answer.status is PlanStatus.SHOWN:
            await self.app.push_screen(ResultScreen(self.app_context, operation, params, answer))
            return
        self._note(answer.next_step if answer.status is PlanStatus.WAITING else "y applies the plan, x leaves it.")
        self.view = View.PLAN
        await self.app.run_action("refresh")

    def _initial(self, name: str) -> Mapping[str, Any]:
        balance = self.app_context.watch.balance
        return {"mode": balance.automatic_mode} if name == AUTOMATIC and balance is not None else {}

    def _is_refused(self, name: str) -> bool:
        reason = refusal(self.app_context.target, operation_of(name))
        if reason:
            self._note(f"To do that {reason}.")
        return reason is not None

    def _tabs(self) -> str:
        found = self.app_context.watch.rebalance_plan
        more = {View.PLAN: f" ({found.status})" if found else ""}
        texts = [f"{at} {view.value}{more.get(view, '')}" for at, view in enumerate(View, 1)]
        return "  ".join(
            f"[{text}]" if view is self.view else f" {text} " for view, text in zip(View, texts, strict=True)
        )

    def _lines(self, width: int) -> list[Line]:
        balance = self.app_context.watch.balance
        if balance is None:
            return [Line("reading ...", "dim")]
        draw = {
            View.BROKERS: self._broker_lines,
            View.PLAN: self._plan_lines,
            View.TOPICS: _topic_lines,
            View.HISTORY: self._history_lines,
        }[self.view]
        running = balance.running if self.view is not View.HISTORY else None
        progress = progress_lines(running, width) if running is not None else []
        return [*_summary_lines(balance, width), *progress, Line(""), *draw(balance, width)]

    def _broker_lines(self, balance: BalanceResult, width: int) -> list[Line]:
        lines = broker_lines(balance_chart(balance), width)
        found = self.app_context.watch.rebalance_plan
        if found is not None and found.rebalance is not None:
            lines += [Line(""), *self._plan_head(found, found.rebalance, width)]
            lines += [Line(""), *change_lines(plan_chart(found.rebalance), width)] if found.rebalance.moves else []
        return lines

    def _plan_lines(self, balance: BalanceResult, width: int) -> list[Line]:
        del balance
        found = self.app_context.watch.rebalance_plan
        if found is None or found.rebalance is None:
            return [Line("There is no plan. n makes one, w asks what would be if.", "dim")]
        plan = found.rebalance
        return [*self._plan_head(found, plan, width), *plan_lines(plan, plan_chart(plan), width)]

    def _plan_head(self, found: PlanView, plan: RebalancePlanView, width: int) -> list[Line]:
        left = age_text(found.expires_ms - self.app_context.clock.now_ms())
        tone = "warning" if found.status is PlanStatus.WAITING else "ok"
        words = f" {found.status} · {found.asked_by}, {found.asked_through} · {left} left"
        head = pieced((f"plan {found.plan_id}", "heading"), (words, tone))
        return [head, *(Line(text) for text in wrapped(plan.summary, width))]

    def _history_lines(self, balance: BalanceResult, width: int) -> list[Line]:
        shown = balance.running or balance.last
        if shown is None:
            return [Line("No rebalance ran yet.", "dim")]
        return [*_rebalance_lines(shown, self.app_context.clock.now_ms(), width), *move_lines(shown.plan.moves, width)]

    def _note(self, text: str) -> None:
        self.query_one("#note", Static).update(plain(text))


def _summary_lines(balance: BalanceResult, width: int) -> list[Line]:
    figures = balance.figures
    peak = f"peak {figures.peak_to_average:.1f} x mean"
    busiest = f" · busiest {figures.busiest_broker} ({figures.busiest_resource})" if figures.busiest_broker else ""
    lines = [
        *judged_lines(judged(figures), peak + busiest, width),
        pieced(
            (f"strategy {balance.assignment_strategy} · automatic mode ", "dim"),
            (balance.automatic_mode, "" if balance.automatic_mode == "off" else "ok"),
            (f" · {count_text(len(balance.rules), 'rule')}" if balance.rules else "", "dim"),
        ),
    ]
    lines += [Line(text, "warning") for text in wrapped(as_commands(balance.hint), width) if balance.has_to_wait]
    if balance.automatic_mode != "off" and balance.automatic_decision:
        lines += [Line(text, "dim") for text in wrapped(balance.automatic_decision, width)]
    return lines


def _topic_lines(balance: BalanceResult, width: int) -> list[Line]:
    """The busiest topics of all brokers, the heaviest first."""
    topics = sorted((topic for broker in balance.brokers for topic in broker.hottest), key=lambda each: -each.score)
    if not topics:
        return [Line("No topic has a known load.", "dim")]
    name = max(width - 57, 16)
    head = f"{fitted('Topic', name)} {'Broker':>21} {'Score':>6} {'Msg/s':>8} {'Rate':>11} {'Clients':>7}"
    return [Line(head, "dim"), *(line for topic in topics for line in _topic(topic, name, width))]


def _topic(topic: TopicBalanceRow, name: int, width: int) -> list[Line]:
    numbers = (
        f"{named(topic.broker_id)[-21:]:>21} {topic.score:>6.1f} {amount_text(topic.messages_per_s):>8}"
        f" {size_text(topic.bytes_per_s) + '/s':>11} {topic.clients:>7,}"
    )
    stays = [Line(f"  stays: {text}", "dim") for text in wrapped(topic.stays, width - 9)] if topic.stays else []
    return [Line(f"{fitted(topic.topic, name)} {numbers}"), *stays]


def _rebalance_lines(shown: RebalanceView, now_ms: int, width: int) -> list[Line]:
    ended = f" · ended {age_text(now_ms - shown.ended_ms)} ago" if shown.ended_ms is not None else ""
    started = f"started {cell(shown.started_ms, 'started_ms')}{ended} · asked by {shown.asked_by}"
    lines = [*progress_lines(shown, width), *(Line(text, "dim") for text in wrapped(started, width))]
    before, planned = judged(shown.plan.before), judged(shown.plan.after)
    parts = [("imbalance ", "dim"), (before.text, before.tone), (" · planned ", "dim"), (planned.text, planned.tone)]
    if shown.actual_cv is not None:
        actual = judged_number(shown.actual_cv)
        parts += [(" · measured ", "dim"), (actual.text, actual.tone)]
    return [*lines, pieced(*parts), Line("")]


def _not_now(found: PlanView, key: str) -> str:
    verb = {"a": "approved", "x": "rejected", "y": "applied here"}[key]
    reason = "it waits for a person: a approves it" if found.status is PlanStatus.WAITING else "it is another face's"
    if key in {"a", "x"}:
        reason = "it waits for nobody, and is gone when it is too old"
    return f"Plan {found.plan_id} is {found.status} and cannot be {verb}: {reason}."
