"""A cluster's balance and its plans as lines of the screen: bars that read the same without colours. No I/O."""

from collections.abc import Iterator, Sequence

from rich.cells import cell_len

from danube.admin.bars import drawn_bar
from danube.admin.charts.chart import BalanceChart, Bar, BrokerBars, BrokerChange, Judged, PlanChart
from danube.admin.operations.cluster.balance_views import MoveView, RebalancePlanView, RebalanceView
from danube.admin.tui.widgets.lines import Line, pieced, wrapped
from danube.admin.tui.widgets.rows import fitted
from danube.model.calls.balance import MoveState
from danube.model.text import count_text, size_text, span_text
from danube.report.tones import tone_of

WIDE_FROM = 100
"""Cells from which names stand beside the bars; else above them."""
_NAME, _NARROW_NAME = 26, 10
_VALUE = 7

Pieces = tuple[tuple[str, str], ...]


def broker_lines(chart: BalanceChart, width: int) -> list[Line]:
    """For each broker bars of its score and its resources, and the cause in words."""
    if not chart.brokers:
        return [Line("no brokers", "dim")]
    is_wide = width >= WIDE_FROM
    first = chart.brokers[0]
    columns = (first.score, *first.resources) if is_wide else first.resources
    room = (width - (_NAME if is_wide else 0)) // len(columns)
    titles = [_title(bar, chart) for bar in columns]
    head = "".join(f"{fitted(title, room - 1)} " for title in titles)
    lines = [Line((" " * _NAME if is_wide else "") + head.rstrip(), "dim")]
    for broker in chart.brokers:
        lines += _wide(broker, room, width) if is_wide else _narrow(broker, room, width)
    return lines


def change_lines(chart: PlanChart, width: int) -> list[Line]:
    """The score of each broker before and after a plan, side by side."""
    name = _NAME if width >= WIDE_FROM else _NARROW_NAME
    room = (width - name) // 2
    sides = (("Before ", chart.before), ("After ", chart.after))
    lines = [pieced((" " * name, ""), *(piece for each in sides for piece in _judged(*each, room)))]
    for change in chart.brokers:
        label = fitted(_short(change.name, _NARROW_NAME - 1), _NARROW_NAME)
        topics = fitted(change.topics, _NAME - _NARROW_NAME) if width >= WIDE_FROM else ""
        lines.append(pieced((label, ""), (topics, "dim"), *_bar(change.before, room), *_bar(change.after, room)))
    return lines if width >= WIDE_FROM else [*lines, *_narrow_topics(chart.brokers, width)]


def plan_lines(plan: RebalancePlanView, chart: PlanChart, width: int) -> list[Line]:
    """A plan below its sentence: before and after, each move with its reason, and things that would do better."""
    lines = []
    if plan.moves:
        attach = "attaches" if plan.clients == 1 else "attach"
        costs = (
            f"{count_text(len(plan.moves), 'move')} · {size_text(plan.carried_bytes)} to copy ·"
            f" {count_text(plan.clients, 'client')} {attach} again · about {span_text(plan.duration_s)}"
        )
        lines += [Line(costs, "dim"), Line(""), *change_lines(chart, width)]
        lines += [Line(""), Line(f"Moves ({len(plan.moves):,})", "heading"), *move_lines(plan.moves, width)]
    for sentence in (*plan.advice, *plan.bounds):
        lines += [Line(""), *(Line(text, "warning") for text in wrapped(sentence, width))]
    return lines


def move_lines(moves: Sequence[MoveView], width: int) -> list[Line]:
    """The moves in their order, each with its reason."""
    return [line for at, move in enumerate(moves, 1) for line in _move(at, move, width)]


def progress_lines(rebalance: RebalanceView, width: int) -> list[Line]:
    """A rebalance that runs, or ran: how far it is, and what moves now."""
    moves = rebalance.plan.moves
    over = rebalance.moves_done + rebalance.moves_failed + rebalance.moves_skipped
    tone = "error" if rebalance.moves_failed else ""
    bar = _trough(over / len(moves) if moves else 1.0, max(width // 4, 10), tone)
    words = f"rebalance {rebalance.state.value}: {over:,} of {count_text(len(moves), 'move')}"
    line = pieced((f"{words}  ", ""), *bar)
    under_way = [f"{move.topic} to {move.target}" for move in moves if move.state is MoveState.MOVING]
    told = [rebalance.reason] if rebalance.reason else []
    if under_way:
        told.append(f"now {', '.join(under_way[:3])}")
    return [line, *(Line(text, "dim") for each in told for text in wrapped(each, width))]


def judged_lines(judged: Judged, more: str, width: int) -> list[Line]:
    """The imbalance with its band, and other facts beside it, or below it where there is no room."""
    first: Pieces = (("imbalance ", ""), (judged.text, judged.tone))
    if sum(cell_len(text) for text, _ in first) + 3 + cell_len(more) <= width:
        return [pieced(*first, (f" · {more}", "dim"))]
    return [pieced(*first), *(Line(text, "dim") for text in wrapped(more, width))]


def _wide(broker: BrokerBars, room: int, width: int) -> list[Line]:
    cause, *rest = wrapped(broker.cause, width - _NAME)
    bars = [piece for bar in (broker.score, *broker.resources) for piece in _bar(bar, room)]
    status = (fitted(broker.status, _NAME - 12), broker.tone or "dim")
    return [
        Line(""),
        pieced((fitted(_short(broker.name, _NAME - 1), _NAME), ""), *bars),
        pieced((fitted(broker.topics, 12), "dim"), status, (cause, "dim")),
        *(Line(" " * _NAME + text, "dim") for text in rest),
    ]


def _narrow(broker: BrokerBars, room: int, width: int) -> list[Line]:
    name = fitted(_short(broker.name, _NARROW_NAME - 1), _NARROW_NAME)
    bars = [piece for bar in broker.resources for piece in _bar(bar, room)]
    return [
        Line(""),
        pieced(
            (name, ""), *_bar(broker.score, 34), (broker.status, broker.tone or "dim"), (f" · {broker.topics}", "dim")
        ),
        pieced(*bars),
        *(Line(text, "dim") for text in wrapped(broker.cause, width)),
    ]


def _title(bar: Bar, chart: BalanceChart) -> str:
    return {"Score": f"Score /{chart.scale:g}", "Messages": "Messages/s"}.get(bar.label, bar.label)


def _bar(bar: Bar, room: int) -> Pieces:
    """A bar in exactly so many cells: filled part, track, value."""
    filled, track = _trough(bar.share, max(room - _VALUE - 1, 2), bar.tone)
    text = fitted(f" {bar.text.removesuffix('/s')}", room - len(filled[0]) - len(track[0]))
    return (filled, track, (text, bar.tone))


def _trough(share: float | None, width: int, tone: str = "") -> Pieces:
    """A bar in a trough of another ground."""
    filled, track = drawn_bar(share, width)
    if share is None:
        return (filled, ""), (track, "dim")
    return (filled, f"bar-{tone}" if tone else "bar"), (" " * len(track), "track")


def _judged(title: str, judged: Judged, room: int) -> Pieces:
    return ((title, "heading"), (f"{fitted(judged.text, room - len(title) - 1)} ", judged.tone))


def _narrow_topics(changes: Sequence[BrokerChange], width: int) -> Iterator[Line]:
    texts = [f"{change.name}: {change.topics}" for change in changes]
    yield from (Line(text, "dim") for text in wrapped(", ".join(texts), width))


def _move(at: int, move: MoveView, width: int) -> Iterator[Line]:
    state = f"  {move.state.value}" if move.state is not MoveState.WAITING else ""
    head = f"{at:>3}. {move.topic}  {move.source} → {move.target}"
    yield pieced((head, ""), (state, tone_of(move.state)))
    told = move.error or move.reason.removeprefix(f"{move.topic}: ")
    for text in wrapped(told, max(width - 5, 20)):
        yield Line(f"     {text}", "error" if move.error else "dim")


def _short(name: str, room: int) -> str:
    """The name of a broker without the word before it, where a long id needs the room."""
    return name if cell_len(name) <= room else name.removeprefix("broker ")
