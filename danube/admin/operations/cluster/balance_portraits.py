"""Balance, plans and rebalances as people read them: a line a broker with bars, units, and causes in words. Pure."""

from collections.abc import Sequence

from danube.admin.bars import clamped
from danube.admin.operations.analytics.report import ReportAnswer
from danube.admin.operations.cluster.balance import AnalysisResult, BalanceResult, RebalancesResult
from danube.admin.operations.cluster.balance_views import (
    BrokerBalanceRow,
    BrokerChangeView,
    FiguresView,
    MoveView,
    RebalancePlanView,
    RebalanceView,
    progress_words,
)
from danube.admin.operations.fields import Result
from danube.admin.operations.portrait import Portrait, PortraitCell, PortraitTable, Share
from danube.model.calls.balance import BrokerPlaceState
from danube.model.text import amount_text, percent_text, size_text, span_text, time_of

_UNKNOWN = "-"


def portrait_of(result: Result, *, wide: bool = False) -> Portrait | None:
    """The portrait of a result, with all columns when wide; None for one that its fields tell well enough."""
    match result:
        case ReportAnswer():
            return Portrait(notes=tuple((result.document or result.next_step).splitlines()))
        case BalanceResult():
            return _balance(result, wide=wide)
        case RebalancePlanView():
            return Portrait(tables=_plan_tables(result, wide=wide))
        case AnalysisResult():
            return _analysis(result, wide=wide)
        case RebalancesResult():
            return Portrait(tables=_rebalances(result.rebalances, wide=wide))
    return None


def status_of(broker: BrokerBalanceRow) -> str:
    """A broker in a word."""
    if broker.state is not BrokerPlaceState.ACTIVE:
        return "not known" if broker.state is BrokerPlaceState.UNKNOWN else broker.state.value
    if not broker.is_known:
        return "not known"
    return "overloaded" if broker.is_overloaded else "underloaded" if broker.is_underloaded else "normal"


def cause_of(broker: BrokerBalanceRow) -> str:
    """The cause of its score, and anything odd, as one text without a stop."""
    return ". ".join(each.rstrip(".") for each in (broker.cause, broker.note) if each)


def imbalance_text(figures: FiguresView) -> str:
    """An imbalance with its band."""
    return f"{figures.cv:.2f}, {figures.band}"


def _balance(result: BalanceResult, *, wide: bool) -> Portrait:
    figures = result.figures
    facts = [
        ("Imbalance", imbalance_text(figures)),
        ("Peak to average", f"{figures.peak_to_average:.1f}"),
        (
            "Busiest broker",
            f"{figures.busiest_broker}, by {figures.busiest_resource}" if figures.busiest_broker else _UNKNOWN,
        ),
        ("Strategy", result.assignment_strategy),
        ("Automatic mode", result.automatic_mode),
    ]
    if wide:
        facts += [("Mean score", f"{figures.mean:.1f}"), ("Leader", result.leader or _UNKNOWN)]
        facts += [("Decision", result.automatic_decision)] if result.automatic_decision else []
    tables = [_brokers(result.brokers, wide=wide), _causes(result.brokers)]
    if result.running is not None:
        facts.append(("Rebalance", progress_words(result.running)))
        tables.append(moves_table("Moves", result.running.plan.moves, wide=wide, states=True))
    if wide:
        tables += [hottest_table(result.brokers)]
        tables += [_rules(result)] if result.rules else []
    return Portrait(tuple(facts), tuple(tables), (result.hint,) if result.hint else ())


def _brokers(brokers: Sequence[BrokerBalanceRow], *, wide: bool) -> PortraitTable:
    top = max([100.0, *(broker.load for broker in brokers if broker.is_known)])
    columns = ("Broker", "Score", "CPU", "Memory", "Disk", "Network", "Msg/s", "Topics")
    more = ("Clients", "Backlog", "In", "Out", "Report") if wide else ()
    return PortraitTable("Brokers", columns + more, tuple(_broker(broker, top, wide=wide) for broker in brokers))


def _broker(broker: BrokerBalanceRow, top: float, *, wide: bool) -> tuple[PortraitCell, ...]:
    if not broker.is_known:
        more = (*[_UNKNOWN] * 4, _age(broker)) if wide else ()
        return (broker.broker_id, Share(None, _UNKNOWN), *[_UNKNOWN] * 5, f"{broker.topic_count:,}", *more)
    shares = (broker.used.cpu, broker.used.memory, broker.used.disk, broker.used.network)
    cells: list[PortraitCell] = [
        broker.broker_id,
        Share(clamped(broker.load / top), f"{broker.load:.1f}" if broker.load < 9.95 else f"{broker.load:.0f}"),
        *(Share(clamped(share), percent_text(share)) if wide else percent_text(share) for share in shares),
        amount_text(broker.messages_in_per_s + broker.messages_out_per_s),
        f"{broker.topic_count:,}",
    ]
    if wide:
        cells += [
            f"{broker.producers + broker.consumers:,}",
            amount_text(broker.backlog_messages),
            f"{size_text(broker.bytes_in_per_s)}/s",
            f"{size_text(broker.bytes_out_per_s)}/s",
            _age(broker),
        ]
    return tuple(cells)


def _age(broker: BrokerBalanceRow) -> str:
    return _UNKNOWN if broker.report_age_s is None else f"{span_text(broker.report_age_s)} ago"


def _causes(brokers: Sequence[BrokerBalanceRow]) -> PortraitTable:
    rows = tuple((broker.broker_id, status_of(broker), cause_of(broker) or _UNKNOWN) for broker in brokers)
    return PortraitTable("Causes", ("Broker", "Status", "Cause"), rows)


def hottest_table(brokers: Sequence[BrokerBalanceRow]) -> PortraitTable:
    """The busiest topics of all brokers, the heaviest first."""
    topics = sorted((topic for broker in brokers for topic in broker.hottest), key=lambda each: -each.score)
    rows = tuple(
        (
            topic.topic,
            topic.broker_id,
            f"{topic.score:.1f}",
            amount_text(topic.messages_per_s),
            f"{size_text(topic.bytes_per_s)}/s",
            f"{topic.clients:,}",
            topic.stays,
        )
        for topic in topics
    )
    return PortraitTable("Busiest topics", ("Topic", "Broker", "Score", "Msg/s", "Rate", "Clients", "Stays"), rows)


def _rules(result: BalanceResult) -> PortraitTable:
    rows = tuple((rule.kind.value.replace("_", " "), rule.name, rule.reason, rule.set_by) for rule in result.rules)
    return PortraitTable("Rules", ("Rule", "Name", "Reason", "Set by"), rows)


def _analysis(result: AnalysisResult, *, wide: bool) -> Portrait:
    plan = result.plan
    facts = (
        ("Verdict", result.verdict),
        ("Imbalance", imbalance_text(plan.before)),
        ("After the plan", imbalance_text(plan.after)),
        ("Imagined", "yes" if result.is_imagined else "no"),
    )
    sentences = (("Why", "Cause", result.why), ("What to do", "Step", result.what_to_do))
    told = [PortraitTable(title, (of,), tuple((each,) for each in texts)) for title, of, texts in sentences if texts]
    return Portrait(facts, (*told, *_plan_tables(plan, wide=wide)))


def _plan_tables(plan: RebalancePlanView, *, wide: bool) -> tuple[PortraitTable, ...]:
    if not plan.moves:
        return ()
    top = max([100.0, *(score for each in plan.brokers for score in (each.score_before, each.score_after))])
    title = f"Imbalance {imbalance_text(plan.before)}; after the plan {imbalance_text(plan.after)}"
    rows = tuple(_change(each, top) for each in plan.brokers)
    changes = PortraitTable(title, ("Broker", "Before", "After", "Topics"), rows)
    return (changes, moves_table("Moves", plan.moves, wide=wide))


def _change(change: BrokerChangeView, top: float) -> tuple[PortraitCell, ...]:
    topics = f"{change.topics_before:,} to {change.topics_after:,}"
    scores = (change.score_before, change.score_after)
    before, after = (Share(clamped(score / top), f"{score:.1f}") for score in scores)
    return (
        change.broker_id,
        before,
        after,
        topics if change.topics_before != change.topics_after else f"{change.topics_before:,}",
    )


def moves_table(title: str, moves: Sequence[MoveView], *, wide: bool, states: bool = False) -> PortraitTable:
    """Moves in their order; wide with their reasons, and with states where they are under way or over."""
    columns = ("Topic", "From", "To", *(("State",) if states else ()), "Bytes", "Pause", "Clients")
    rows = []
    for move in moves:
        state = [f"{move.state.value}: {move.error}" if move.error else move.state.value] if states else []
        costs = [size_text(move.carried_bytes), span_text(move.pause_ms / 1_000), f"{move.clients:,}"]
        rows.append((move.topic, move.source, move.target, *state, *costs, *([move.reason] if wide else [])))
    return PortraitTable(title, (*columns, *(("Reason",) if wide else ())), tuple(rows))


def _rebalances(rebalances: Sequence[RebalanceView], *, wide: bool) -> tuple[PortraitTable, ...]:
    columns = ("Rebalance ID", "State", "Moves", "Before", "Planned", "Measured", "Asked by", "Started")
    rows = []
    for each in rebalances:
        measured = _UNKNOWN if each.actual_cv is None else f"{each.actual_cv:.2f}"
        numbers = [f"{each.plan.before.cv:.2f}", f"{each.plan.after.cv:.2f}", measured]
        moves = f"{each.moves_done:,} of {each.moves_total:,}"
        told = [each.reason] if wide else []
        row = (each.rebalance_id, each.state.value, moves, *numbers, each.asked_by, time_of(each.started_ms), *told)
        rows.append(row)
    table = PortraitTable("Rebalances", (*columns, *(("Reason",) if wide else ())), tuple(rows))
    newest = rebalances[:1]
    return (
        table,
        *(moves_table(f"Moves of {each.rebalance_id}", each.plan.moves, wide=wide, states=True) for each in newest),
    )


def rebalance_text(rebalance: RebalanceView) -> str:
    """A rebalance in a few sentences."""
    reason = f": {rebalance.reason.rstrip('.')}" if rebalance.reason else ""
    measured = f", {rebalance.actual_cv:.2f} was measured" if rebalance.actual_cv is not None else ""
    return (
        f"It is {rebalance.state.value}{reason}. {rebalance.asked_by} asked for it at {time_of(rebalance.started_ms)}."
        f" The imbalance was {rebalance.plan.before.cv:.2f}, {rebalance.plan.after.cv:.2f} was planned{measured}."
    )
