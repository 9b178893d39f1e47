"""A cluster's balance, and a plan for it, as charts. Pure."""

from danube.admin.charts.chart import (
    BalanceChart,
    Bar,
    BrokerBars,
    BrokerChange,
    Judged,
    PlanChart,
    rate_bar,
    scale_of,
    score_bar,
    share_bar,
)
from danube.admin.operations.cluster.balance import BalanceResult
from danube.admin.operations.cluster.balance_portraits import cause_of, status_of
from danube.admin.operations.cluster.balance_views import (
    BrokerBalanceRow,
    BrokerChangeView,
    FiguresView,
    RebalancePlanView,
    UtilisationView,
)
from danube.admin.present import printable
from danube.loadmgr.goal import Goal
from danube.loadmgr.score import BANDS
from danube.model.text import count_text
from danube.report.tones import alarm_of, tone_of

CEILING = max(Goal().ceilings[:1])
"""Share of a resource above which no move takes a broker."""


def balance_chart(balance: BalanceResult) -> BalanceChart:
    """The brokers as they stand."""
    scale = scale_of([broker.load for broker in balance.brokers])
    busiest = max((_messages(broker) for broker in balance.brokers), default=0.0)
    return BalanceChart(
        imbalance=judged(balance.figures),
        brokers=tuple(_broker(broker, scale, busiest) for broker in balance.brokers),
        scale=scale,
        mean=balance.figures.mean,
    )


def plan_chart(plan: RebalancePlanView) -> PlanChart:
    """The brokers before and after the moves of a plan."""
    scale = scale_of([score for each in plan.brokers for score in (each.score_before, each.score_after)])
    return PlanChart(
        before=judged(plan.before),
        after=judged(plan.after),
        brokers=tuple(_change(each, scale) for each in plan.brokers),
        scale=scale,
    )


def judged(figures: FiguresView) -> Judged:
    """An imbalance with the tone of its band; a band of another version has none."""
    return Judged(cv=figures.cv, band=printable(figures.band), tone=tone_of(figures.band))


def judged_number(cv: float) -> Judged:
    """An imbalance of which only the number is known."""
    band = next(band for end, band in BANDS if cv < end or end == BANDS[-1][0])
    return Judged(cv=cv, band=band.value, tone=tone_of(band))


def _broker(broker: BrokerBalanceRow, scale: float, busiest: float) -> BrokerBars:
    tone = alarm_of(status_of(broker))
    messages = rate_bar("Messages", _messages(broker) if broker.is_known else None, busiest)
    return BrokerBars(
        name=f"broker {printable(broker.broker_id)}",
        status=status_of(broker),
        tone=tone,
        topics=count_text(broker.topic_count, "topic"),
        score=score_bar("Score", broker.load if broker.is_known else None, scale, tone if tone == "warning" else ""),
        resources=_resources(broker.used if broker.is_known else None, messages),
        cause=printable(cause_of(broker)),
    )


def _resources(used: UtilisationView | None, messages: Bar) -> tuple[Bar, ...]:
    """The bars of a broker's resources, in the order in which all faces show them."""
    return (
        share_bar("CPU", used.cpu if used else None, CEILING),
        share_bar("Memory", used.memory if used else None, 1.0),
        share_bar("Disk", used.disk if used else None, CEILING),
        share_bar("Network", used.network if used else None, CEILING),
        messages,
    )


def _messages(broker: BrokerBalanceRow) -> float:
    return broker.messages_in_per_s + broker.messages_out_per_s


def _change(change: BrokerChangeView, scale: float) -> BrokerChange:
    before, after = change.topics_before, change.topics_after
    return BrokerChange(
        name=f"broker {printable(change.broker_id)}",
        before=score_bar("Before", change.score_before, scale),
        after=score_bar("After", change.score_after, scale),
        topics=count_text(before, "topic") if before == after else f"{before:,} → {count_text(after, 'topic')}",
    )
