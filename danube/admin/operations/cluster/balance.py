"""balance.*: load of the brokers, plans that rebalance, pins and exclusions, the automatic mode."""

from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from danube.admin.analytics.balance import PublishedBalance, newest_balance
from danube.admin.analytics.published import published_runs
from danube.admin.operations.cluster.balance_views import (
    BalanceOverTime,
    BrokerBalanceRow,
    FiguresView,
    RebalancePlanView,
    RebalanceView,
    RuleRow,
    broker_row,
    figures_view,
    hint_of,
    over_time_view,
    plan_of,
    progress_words,
    rebalance_view,
    rule_row,
)
from danube.admin.operations.fields import VOLATILE, WIDE, BrokerText, Params, Result, TopicText
from danube.admin.operations.operation import Call, Example, Operation
from danube.admin.operations.plan_views import PlannedResult, caller_text
from danube.loadmgr.automatic import Automatic
from danube.model.calls.balance import (
    AutomaticBalance,
    BalanceRule,
    BrokerPlaceState,
    CancelRebalance,
    ClearRule,
    ClusterBalance,
    RebalancePreview,
    RebalanceWish,
    RuleKind,
    SetAutomatic,
)
from danube.model.errors import DanubeError
from danube.model.limits.balance import (
    BALANCE_REASON_CHARS_MAX,
    EXTRA_BROKERS_MAX,
    RATE_FACTOR_MAX,
    REBALANCE_MOVES_DEFAULT,
    REBALANCE_MOVES_MAX,
)
from danube.model.limits.faces import REBALANCE_LOOK_S
from danube.model.plans.plan import Effect, Plan
from danube.model.text import percent_text, span_text
from danube.runtime.clock import sleep_for

TOOLSET = "balance"


class BalanceResult(Result):
    """Balance of the cluster."""

    coefficient_of_variation: Annotated[float, VOLATILE] = Field(description="Imbalance of the scores: 0 is even.")
    mean_load: Annotated[float, VOLATILE] = Field(description="Mean score.")
    max_load: Annotated[float, VOLATILE] = Field(description="Highest score.")
    min_load: Annotated[float, VOLATILE] = Field(description="Lowest score.")
    std_deviation: Annotated[float, VOLATILE] = Field(description="Standard deviation of the scores.")
    broker_count: int = Field(description="Brokers that run, or own topics.")
    assignment_strategy: str = Field(description="How brokers are compared, and new topics assigned.")
    figures: Annotated[FiguresView, VOLATILE] = Field(description="The imbalance in full.")
    brokers: list[BrokerBalanceRow] = Field(description="Each broker, by id.")
    leader: Annotated[str, VOLATILE] = Field(description="The broker that rebalances; empty for none.")
    automatic_mode: str = Field(description="`off`, `conservative`, `balanced` or `aggressive`.")
    automatic_decision: Annotated[str, VOLATILE, WIDE] = Field(description="What the automatic mode last decided.")
    running: Annotated[RebalanceView | None, VOLATILE] = Field(description="The rebalance that runs; null for none.")
    last: Annotated[RebalanceView | None, VOLATILE, WIDE] = Field(description="The one before; null for none.")
    rules: Annotated[list[RuleRow], WIDE] = Field(description="Pins and exclusions.")
    hint: Annotated[str, VOLATILE] = Field(description="What to do, a sentence.")

    @property
    def has_to_wait(self) -> bool:
        """True while a broker that failed lately gets no topics."""
        return any(broker.state is BrokerPlaceState.FAILED for broker in self.brokers)


class RebalanceParams(Params):
    """Goal of a rebalance."""

    max_moves: int = Field(
        default=REBALANCE_MOVES_DEFAULT, ge=1, le=REBALANCE_MOVES_MAX, description="The most topics to move."
    )
    target_cv: float = Field(
        default=RebalanceWish().target_cv, ge=0.01, le=10, description="The imbalance to come below."
    )
    strategy: Literal["fair", "balanced", "weighted_load"] | None = Field(
        default=None, description="How to compare brokers; the cluster's by default."
    )


class AnalyzeParams(RebalanceParams):
    """A question about the balance."""

    without_broker: BrokerText | None = Field(default=None, description="Imagine that this broker were gone.")
    extra_brokers: int = Field(
        default=0, ge=0, le=EXTRA_BROKERS_MAX, description="Imagine so many more brokers, like the middle one."
    )
    topic: TopicText | None = Field(default=None, description="Imagine this topic at another rate.")
    factor: float = Field(
        default=2.0, ge=0, le=RATE_FACTOR_MAX, description="So many times its rate; counts with `topic`."
    )
    source: Literal["auto", "live"] = Field(
        default="auto",
        description="`auto` takes the newest published result of the job balance where there is one, `live` does not.",
    )


class AnalysisResult(Result):
    """Analysis of the balance."""

    source: Annotated[str, VOLATILE] = Field(description="Where the answer comes from, and how old that is.")
    verdict: Annotated[str, VOLATILE] = Field(description="As of the plan.")
    why: Annotated[list[str], VOLATILE] = Field(description="What makes the imbalance, the busiest broker first.")
    what_to_do: Annotated[list[str], VOLATILE] = Field(description="What to do, a sentence each.")
    is_imagined: bool = Field(description="Whether the plan is for a cluster that is imagined.")
    over_time: Annotated[BalanceOverTime | None, VOLATILE, WIDE] = Field(
        description="The published result; null when answered live."
    )
    plan: RebalancePlanView = Field(description="What a rebalance would do now.")


class RebalancesResult(Result):
    """History of rebalances."""

    rebalances: Annotated[list[RebalanceView], VOLATILE] = Field(description="The newest first.")


class CancelParams(Params):
    """The rebalance to cancel."""

    rebalance_id: Annotated[str, StringConstraints(min_length=1, max_length=60)] | None = Field(
        default=None, description="Its id; the one that runs by default."
    )


class CancelResult(Result):
    """The rebalance that was cancelled."""

    cancelled: Annotated[RebalanceView | None, VOLATILE] = Field(description="It; null where none runs.")
    said: str = Field(description="What happens now.")


class RuleParams(Params):
    """A pin or an exclusion."""

    kind: RuleKind = Field(description="What stays where it is: a topic, those of a namespace, or those of a broker.")
    name: Annotated[str, StringConstraints(min_length=1, max_length=600)] = Field(
        description="The topic, /namespace/name, of which a base name means all partitions; a namespace; a broker's id."
    )


class SetRuleParams(RuleParams):
    """A pin or an exclusion to set."""

    reason: Annotated[str, StringConstraints(max_length=BALANCE_REASON_CHARS_MAX)] = Field(
        default="", description="Why, for those who wonder."
    )


class RulesResult(Result):
    """Pins and exclusions."""

    rules: list[RuleRow] = Field(description="All there are, by kind and name.")


class AutomaticResult(Result):
    """The automatic mode."""

    mode: str = Field(description="`off`, `conservative`, `balanced` or `aggressive`.")
    is_set: bool = Field(description="Whether it was set at run time; else it is that of the settings.")
    checked_ms: Annotated[int, VOLATILE] = Field(description="When the leader checked last; 0: not known here.")
    decision: Annotated[str, VOLATILE] = Field(description="What it decided.")
    moves_last_hour: Annotated[int, VOLATILE] = Field(description="Topics that it moved in the last hour.")


class SetAutomaticParams(Params):
    """The automatic mode to set."""

    mode: Automatic | None = Field(default=None, description="The mode; that of the settings again when not given.")


async def _balance(call: Call, params: Params) -> BalanceResult:  # noqa: ARG001 - it has none
    return balance_result(await call.gateway.cluster_balance())


def balance_result(found: ClusterBalance) -> BalanceResult:
    """The balance as shown."""
    figures = found.figures
    return BalanceResult(
        coefficient_of_variation=figures.cv,
        mean_load=figures.mean,
        max_load=figures.highest,
        min_load=figures.lowest,
        std_deviation=figures.deviation,
        broker_count=len(found.brokers),
        assignment_strategy=found.strategy,
        figures=figures_view(figures),
        brokers=[broker_row(each) for each in found.brokers],
        leader=found.leader,
        automatic_mode=found.automatic.mode,
        automatic_decision=found.automatic.decision,
        running=rebalance_view(found.running) if found.running else None,
        last=rebalance_view(found.last) if found.last else None,
        rules=[rule_row(each) for each in found.rules],
        hint=hint_of(found),
    )


async def _analyze(call: Call, params: AnalyzeParams) -> AnalysisResult:
    wish = RebalanceWish(
        target_cv=params.target_cv,
        moves_max=params.max_moves,
        strategy=params.strategy or "",
        without_broker=params.without_broker or "",
        extra_brokers=params.extra_brokers,
        topic=params.topic or "",
        factor=params.factor if params.topic else 1.0,
    )
    published, source = await _published(call, params, wish)
    found, preview = await call.gateway.cluster_balance(), await call.gateway.preview_rebalance(wish)
    return AnalysisResult(
        source=source,
        verdict=published.verdict if published else preview.verdict,
        why=[*(_why_over_time(published) if published else ()), *_why(found)],
        what_to_do=[*(_what_to_do_over_time(published) if published else ()), *_what_to_do(preview, wish)],
        is_imagined=wish.is_imagined,
        over_time=over_time_view(published) if published else None,
        plan=plan_of(preview),
    )


async def _published(call: Call, params: AnalyzeParams, wish: RebalanceWish) -> tuple[PublishedBalance | None, str]:
    """The newest published result, and what to say of the source."""
    if wish.is_imagined or params.source == "live":
        return None, "live, from the load reports of the brokers"
    try:
        found = newest_balance(await published_runs(call.gateway, call.clock))
    except DanubeError as error:
        return None, f"live: published results cannot be read ({error})"
    if found is None:
        return None, "live: no result of the job balance is published; run_analytics makes one"
    age = span_text(max(0, call.clock.now_ms() - found.as_of_ms) / 1_000)
    return found, f"spark, run {found.run_id}, {age} old; `plan` is live"


def _why_over_time(found: PublishedBalance) -> list[str]:
    span = span_text(found.span_s)
    hours = f", most often at {found.paying_hours} UTC" if found.paying_hours else ""
    hot = [f"The busiest topics over that time: {', '.join(found.hot_topics)}."] if found.hot_topics else []
    paid = f"{found.paying_moments:,} of {found.judged_moments:,} moments"
    return [f"Over {span}, a rebalance would have paid at {paid}{hours}.", *hot]


def _what_to_do_over_time(found: PublishedBalance) -> list[str]:
    planned = f"For the {percent_text(found.percentile)} load of that time: {found.summary}"
    return [planned, *([found.advice] if found.advice else [])]


def _why(found: ClusterBalance) -> list[str]:
    by_score = sorted(found.brokers, key=lambda one: (-one.score, one.broker_id))
    known = [f"Broker {one.broker_id} has a score of {one.score:.1f}: {one.cause}." for one in by_score if one.is_known]
    return [*known, *(f"Broker {one.broker_id}: {one.note}" for one in by_score if one.note)]


def _what_to_do(preview: RebalancePreview, wish: RebalanceWish) -> list[str]:
    steps = [preview.summary, *preview.advice]
    if preview.moves and not wish.is_imagined:
        steps.append("Call trigger_rebalance with the same parameters to make this plan, and apply it.")
    return [*steps, *preview.bounds]


async def _rebalances(call: Call, params: Params) -> RebalancesResult:  # noqa: ARG001 - it has none
    return RebalancesResult(rebalances=[rebalance_view(each) for each in await call.gateway.rebalances()])


async def _cancel(call: Call, params: CancelParams) -> CancelResult:
    by = caller_text(call.caller)
    wanted = CancelRebalance(rebalance_id=params.rebalance_id or "", cancelled_by=by)
    found = await call.gateway.cancel_rebalance(wanted)
    said = "No rebalance runs: nothing was cancelled."
    if found is not None:
        said = "It begins no more moves; topics on their way arrive."
    return CancelResult(cancelled=rebalance_view(found) if found else None, said=said)


async def _rules(call: Call, params: Params) -> RulesResult:  # noqa: ARG001 - it has none
    return RulesResult(rules=[rule_row(each) for each in (await call.gateway.cluster_balance()).rules])


async def _set_rule(call: Call, params: SetRuleParams) -> RulesResult:
    by = caller_text(call.caller)
    rule = BalanceRule(kind=params.kind, name=params.name, reason=params.reason, set_by=by)
    return RulesResult(rules=[rule_row(each) for each in await call.gateway.set_balance_rule(rule)])


async def _clear_rule(call: Call, params: RuleParams) -> RulesResult:
    left = await call.gateway.clear_balance_rule(ClearRule(kind=params.kind, name=params.name))
    return RulesResult(rules=[rule_row(each) for each in left])


async def _automatic(call: Call, params: Params) -> AutomaticResult:  # noqa: ARG001 - it has none
    return _automatic_result((await call.gateway.cluster_balance()).automatic)


async def _set_automatic(call: Call, params: SetAutomaticParams) -> AutomaticResult:
    wanted = SetAutomatic(mode=params.mode or "", set_by=caller_text(call.caller))
    return _automatic_result(await call.gateway.set_automatic_balance(wanted))


def _automatic_result(found: AutomaticBalance) -> AutomaticResult:
    return AutomaticResult.of(found)


async def _follow(call: Call, plan: Plan, wait_s: float) -> RebalanceView | None:
    """The rebalance of an applied plan, once it is over or the time is; its progress is told meanwhile."""
    end_s = call.clock.monotonic_s() + wait_s
    while True:
        found = await call.gateway.rebalances(plan.plan_id)
        if not found:  # it had no moves, or its record is gone already
            return None
        view = rebalance_view(found[0])
        over = view.moves_done + view.moves_failed + view.moves_skipped
        await call.report(over + view.state.is_over, view.moves_total + 1, progress_words(view))  # settling is a step
        if view.state.is_over or call.clock.monotonic_s() >= end_s:
            return view
        await sleep_for(call.clock, REBALANCE_LOOK_S)


GET_CLUSTER_BALANCE = Operation(
    name="get_cluster_balance",
    words=("brokers", "balance"),
    summary="Show how evenly the load is spread over the brokers.",
    description="analyze_cluster_balance tells why, and what to do; trigger_rebalance plans moves.",
    effect=Effect.READ,
    params=Params,
    result=BalanceResult,
    rows="brokers",
    run=_balance,
    examples=(Example("The load of each broker"),),
)

TRIGGER_REBALANCE = Operation(
    name="trigger_rebalance",
    words=("brokers", "rebalance"),
    summary="Move topics to other brokers until the load is even.",
    description="The plan has every move with its reason; applied, exactly these are made, in the background:"
    " get_cluster_balance shows the progress, cancel_rebalance ends it. Nothing acknowledged is lost.",
    effect=Effect.MOVE,
    params=RebalanceParams,
    result=PlannedResult,
    follow=_follow,
    examples=(Example("Until it is well balanced"), Example("At most 5 topics", {"max_moves": 5})),
)

ANALYZE_CLUSTER_BALANCE = Operation(
    name="analyze_cluster_balance",
    words=("brokers", "analyze-balance"),
    summary="Tell why the load is uneven and what to do, now or in a cluster that is imagined.",
    description="Imagine a broker gone, more brokers, or a topic at another rate. It changes nothing. A result of"
    " the job balance that is published comes first, with its age.",
    effect=Effect.READ,
    params=AnalyzeParams,
    result=AnalysisResult,
    run=_analyze,
    examples=(Example("Why, and what to do"), Example("With two more brokers", {"extra_brokers": 2})),
)

LIST_REBALANCES = Operation(
    name="list_rebalances",
    words=("brokers", "rebalances"),
    summary="List the rebalance that runs, with its progress, and those that ran.",
    effect=Effect.READ,
    params=Params,
    result=RebalancesResult,
    rows="rebalances",
    run=_rebalances,
    toolset=TOOLSET,
    examples=(Example("All that are kept"),),
)

CANCEL_REBALANCE = Operation(
    name="cancel_rebalance",
    words=("brokers", "cancel-rebalance"),
    summary="Cancel a rebalance: it begins no more moves.",
    effect=Effect.WRITE,
    params=CancelParams,
    result=CancelResult,
    run=_cancel,
    done="{said}",
    examples=(Example("The one that runs, if any"),),
    is_idempotent=True,
)

LIST_RULES = Operation(
    name="list_balance_rules",
    words=("brokers", "balance-rules"),
    summary="List topics that are pinned, and namespaces and brokers that no rebalance touches.",
    effect=Effect.READ,
    params=Params,
    result=RulesResult,
    rows="rules",
    run=_rules,
    toolset=TOOLSET,
    examples=(Example("All pins and exclusions"),),
)

SET_RULE = Operation(
    name="set_balance_rule",
    words=("brokers", "set-balance-rule"),
    summary="Pin a topic, or exclude a namespace or a broker from rebalances.",
    description="A pinned topic can still be moved by unload_topic.",
    effect=Effect.WRITE,
    params=SetRuleParams,
    result=RulesResult,
    rows="rules",
    run=_set_rule,
    toolset=TOOLSET,
    examples=(
        Example("Pin a topic", {"kind": "pin_topic", "name": "/default/orders", "reason": "latency"}),
        Example("Exclude a namespace", {"kind": "exclude_namespace", "name": "staging"}),
    ),
    is_idempotent=True,
)

CLEAR_RULE = Operation(
    name="clear_balance_rule",
    words=("brokers", "clear-balance-rule"),
    summary="Take a pin or an exclusion away.",
    effect=Effect.WRITE,
    params=RuleParams,
    result=RulesResult,
    rows="rules",
    run=_clear_rule,
    toolset=TOOLSET,
    examples=(Example("The pin of a topic", {"kind": "pin_topic", "name": "/default/orders"}),),
)

GET_AUTOMATIC = Operation(
    name="get_automatic_balance",
    words=("brokers", "automatic-balance"),
    summary="Show the automatic mode of rebalances, and what it last decided.",
    effect=Effect.READ,
    params=Params,
    result=AutomaticResult,
    run=_automatic,
    toolset=TOOLSET,
    examples=(Example("The mode"),),
)

SET_AUTOMATIC = Operation(
    name="set_automatic_balance",
    words=("brokers", "set-automatic-balance"),
    summary="Set the automatic mode of rebalances while the cluster runs.",
    description="`off`, or how soon it acts on an imbalance that lasts; every act is in the audit log.",
    effect=Effect.WRITE,
    params=SetAutomaticParams,
    result=AutomaticResult,
    run=_set_automatic,
    done="Automatic mode: {mode}",
    toolset=TOOLSET,
    examples=(Example("Careful", {"mode": "conservative"}), Example("As the settings say")),
    is_idempotent=True,
)

OPERATIONS = (
    GET_CLUSTER_BALANCE,
    TRIGGER_REBALANCE,
    ANALYZE_CLUSTER_BALANCE,
    LIST_REBALANCES,
    CANCEL_REBALANCE,
    LIST_RULES,
    SET_RULE,
    CLEAR_RULE,
    GET_AUTOMATIC,
    SET_AUTOMATIC,
)
