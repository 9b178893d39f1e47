"""The rules of `danube/model/lag/rules.py`, each a column over the arrays that `jobs/lag.py` gathers."""

from collections.abc import Callable

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name that every user of Spark knows it by

from danube.model.lag.verdict import EtaReason, LagCause, LagMethod, LagPolicy, LagRule, LagStatus


def time_lag(last: Column, history: Column, as_of: Column) -> Column:
    """A struct of `lag_s` and `lag_method`: `danube.model.lag.rules._time_lag`."""
    points = F.aggregate(history, F.array().cast("array<struct<offset:bigint,append_ms:bigint>>"), _with_point)
    wanted = last["position"]
    left = F.try_element_at(F.filter(points, lambda point: point["offset"] <= wanted), F.lit(-1))
    right = F.try_element_at(F.filter(points, lambda point: point["offset"] >= wanted), F.lit(1))
    first, newest = F.try_element_at(points, F.lit(1)), F.try_element_at(points, F.lit(-1))
    is_near = F.greatest(first["offset"] - wanted, wanted - newest["offset"]) <= newest["offset"] - first["offset"]

    def found(append_ms: Column, method: LagMethod) -> Column:
        age_ms = as_of.cast("double") - append_ms.cast("double")
        return _time_lag_struct(F.greatest(F.lit(0.0), age_ms) / 1_000, method)

    return (
        F.when(last["lag_messages"] == 0, _time_lag_struct(F.lit(0.0), LagMethod.MEASURED))
        .when(last["oldest_unread_append_ms"].isNotNull(), found(last["oldest_unread_append_ms"], LagMethod.MEASURED))
        .when(left["offset"] == wanted, found(left["append_ms"], LagMethod.INTERPOLATED))
        .when(left.isNotNull() & right.isNotNull(), found(_on_line(wanted, left, right), LagMethod.INTERPOLATED))
        .when(is_near, found(_on_line(wanted, first, newest), LagMethod.EXTRAPOLATED))
        .otherwise(_time_lag_struct(F.lit(None).cast("double"), LagMethod.UNKNOWN))
    )


def _time_lag_struct(lag_s: Column, method: LagMethod) -> Column:
    return F.struct(lag_s.alias("lag_s"), F.lit(str(method)).alias("lag_method"))


def _with_point(points: Column, one: Column) -> Column:
    """`danube.model.lag.rules._points`, one record more."""
    rises = F.coalesce(one["head"] - 1 > F.try_element_at(points, F.lit(-1))["offset"], F.lit(col=True))
    point = F.struct((one["head"] - 1).alias("offset"), one["head_append_ms"].alias("append_ms"))
    return F.when(one["head_append_ms"].isNotNull() & rises, F.concat(points, F.array(point))).otherwise(points)


def _on_line(wanted: Column, left: Column, right: Column) -> Column:
    rise = (right["offset"] - wanted).cast("double") * (right["append_ms"] - left["append_ms"])
    return right["append_ms"].cast("double") - F.try_divide(rise, right["offset"] - left["offset"])


def going_on(numbers: DataFrame) -> DataFrame:
    """Movement within the window and the number of looks: null, or 0 looks, where nothing recent is known."""
    window, commits = F.col("window"), F.col("commit_looks")
    known = F.col("kept") & ~F.col("silent")
    newest, oldest = F.try_element_at(window, F.lit(-1)), F.try_element_at(window, F.lit(1))
    seconds = (newest["at_ms"] - oldest["at_ms"]) / 1_000
    committed = F.try_element_at(commits, F.lit(-1))["at_ms"]
    looked = numbers.withColumns(
        {
            "looks": F.when(known, F.size(window)).otherwise(0),
            "commits": F.when(known, F.size(commits)).otherwise(0),
            "commit_age_s": F.when(known, (F.col("as_of_ms") - committed) / 1_000),
            "rate_window_s": F.when(known & (seconds > 0), seconds),
        }
    )
    has_rates = F.col("rate_window_s").isNotNull()
    moved = looked.withColumns(
        {
            "arrived": F.when(has_rates, _steps(window, lambda before, after: _rise(before["head"], after["head"]))),
            "acknowledged": F.when(has_rates, _steps(window, lambda before, after: _rise(_done(before), _done(after)))),
            "nacked": F.when(has_rates, _steps(window, _counted("nacked"))),
            "redelivered": F.when(has_rates, _steps(window, _counted("redelivered"))),
        }
    )
    return moved.withColumns(
        {
            "arrival_rate": F.try_divide(F.col("arrived"), F.col("rate_window_s")),
            "consume_rate": F.try_divide(F.col("acknowledged"), F.col("rate_window_s")),
        }
    )


Step = Callable[[Column, Column], Column]


def _steps(window: Column, of: Step) -> Column:
    """The sum of something over each two successive looks."""
    nothing = F.lit(0).cast("bigint")
    each = F.transform(
        window,
        lambda look, number: F.when(number == 0, nothing).otherwise(
            of(F.get(window, number - 1)["seen"], look["seen"])
        ),
    )
    return F.aggregate(each, nothing, lambda total, one: total + one)


def _rise(before: Column, after: Column) -> Column:
    return F.greatest(F.lit(0), after - before)


def _done(seen: Column) -> Column:
    return seen["position"] + seen["acknowledged_beyond"]


def _counted(name: str) -> Step:
    def counted(before: Column, after: Column) -> Column:
        is_same = before["start_id"] == after["start_id"]
        return F.when(is_same, _rise(before[name], after[name])).otherwise(after[name])

    return counted


def eta_of() -> Column:
    """A struct of `eta_s` and `eta_reason`: `danube.model.lag.rules._eta`."""
    lag, arrived, acknowledged = F.col("lag_messages"), F.col("arrived"), F.col("acknowledged")
    eta_s = F.try_divide(lag.cast("double") * F.col("rate_window_s"), (acknowledged - arrived).cast("double"))
    return (
        F.when(~F.col("kept"), _eta(None, EtaReason.NOT_KEPT))
        .when((lag == 0) & ~F.col("silent"), _eta(F.lit(0.0), None))
        .when(F.col("rate_window_s").isNull(), _eta(None, EtaReason.NO_RATES))
        .when(acknowledged == 0, _eta(None, EtaReason.NOTHING_CONSUMED))
        .when(acknowledged <= arrived, _eta(None, EtaReason.FALLS_BEHIND))
        .otherwise(_eta(eta_s, None))
    )


def _eta(eta_s: Column | None, reason: EtaReason | None) -> Column:
    seconds = F.lit(None).cast("double") if eta_s is None else eta_s
    return F.struct(
        seconds.alias("eta_s"), F.lit(None if reason is None else str(reason)).cast("string").alias("eta_reason")
    )


def status_of(policy: LagPolicy) -> Column:
    """A struct of `status` and `rule`: Burrow's rules in Burrow's order, `danube.model.lag.rules._status`."""
    enough, allowed = policy.minimum_complete * policy.intervals, policy.allowed_lag
    positions = F.transform("commit_looks", lambda look: look["seen"]["position"])
    lags = F.transform("commit_looks", lambda look: look["seen"]["lag_messages"])
    is_young = F.coalesce(F.col("time_lag.lag_s") < policy.young_lag_s, F.lit(col=False))
    return (
        F.when(~F.col("kept"), _state(LagStatus.NOT_KEPT, LagRule.NOT_RELIABLE))
        .when(F.col("silent"), _state(LagStatus.UNKNOWN, LagRule.SILENT))
        .when(F.col("lag_messages") <= allowed, _state(LagStatus.OK, LagRule.ALLOWED_LAG))
        .when(F.col("looks") < enough, _state(LagStatus.UNKNOWN, LagRule.SHORT_HISTORY))
        .when(_has_stopped(), _state(LagStatus.STOP, LagRule.NO_COMMITS))
        .when(F.col("commits") < enough, _state(LagStatus.OK, LagRule.FEW_COMMITS))
        .when(_went_back(positions), _state(LagStatus.REWIND, LagRule.WENT_BACK))
        .when(F.array_min(lags) <= allowed, _state(LagStatus.OK, LagRule.CAUGHT_UP_ONCE))
        .when(F.array_min(positions) == F.array_max(positions), _state(LagStatus.STALL, LagRule.POSITION_STILL))
        .when(_fell(lags), _state(LagStatus.OK, LagRule.LAG_FELL))
        .when(is_young, _state(LagStatus.OK, LagRule.YOUNG_LAG))
        .otherwise(_state(LagStatus.WARN, LagRule.LAG_NEVER_FELL))
    )


def _state(status: LagStatus, rule: LagRule) -> Column:
    return F.struct(F.lit(str(status)).alias("status"), F.lit(str(rule)).alias("rule"))


def _has_stopped() -> Column:
    position, commits = F.col("last")["position"], F.col("commit_looks")
    was_read = F.exists("window", lambda look: look["seen"]["head"] <= position)
    first, newest = F.try_element_at(commits, F.lit(1))["at_ms"], F.try_element_at(commits, F.lit(-1))["at_ms"]
    return ~was_read & ((F.col("commits") == 0) | (F.col("as_of_ms") - newest > newest - first))


def _went_back(positions: Column) -> Column:
    def went_back(after: Column, number: Column) -> Column:
        before = F.get(positions, number - 1)
        never_again = F.array_max(F.slice(positions, number + 1, F.size(positions))) < before
        return F.coalesce((after < before) & never_again, F.lit(col=False))

    return F.exists(F.transform(positions, went_back), lambda one: one)


def _fell(lags: Column) -> Column:
    falls = F.transform(lags, lambda lag, number: F.coalesce(lag < F.get(lags, number - 1), F.lit(col=False)))
    return F.exists(falls, lambda one: one)


def cause_of(policy: LagPolicy) -> Column:
    """The named cause: `danube.model.lag.rules._cause`."""
    acknowledged, arrived = F.col("acknowledged"), F.col("arrived")
    returned = F.greatest("nacked", "redelivered")
    first, newest = F.try_element_at(F.col("window"), F.lit(1)), F.try_element_at(F.col("window"), F.lit(-1))
    is_still = first["seen"]["position"] == newest["seen"]["position"]
    is_poison = (returned > 0) & (is_still | (returned >= acknowledged))
    is_backing_off = (F.col("waiting") > 0) & (F.col("waiting") >= F.col("in_flight"))
    nothing = F.lit(None).cast("string")
    return (
        F.when(~F.col("kept") | F.col("silent") | (F.col("lag_messages") <= policy.allowed_lag), nothing)
        .when(F.col("blocked") > 0, str(LagCause.BLOCKED))
        .when(F.col("state.status") == str(LagStatus.REWIND), str(LagCause.REWOUND))
        .when(F.col("consumers") == 0, str(LagCause.NOBODY_READS))
        .when(F.col("rate_window_s").isNull(), nothing)
        .when(is_poison, str(LagCause.POISON))
        .when(is_backing_off, str(LagCause.BACK_OFF))
        .when((acknowledged == 0) & (F.col("in_flight") > 0), str(LagCause.STUCK))
        .when(acknowledged == 0, str(LagCause.NOT_SENT))
        .when(arrived >= acknowledged, str(LagCause.TOO_SLOW))
        .otherwise(str(LagCause.CATCHING_UP))
    )
