"""Messages of `danube.control.Balance`: calls that only our brokers have."""

import math

from danube.model.calls.balance import (
    AutomaticBalance,
    BalanceRule,
    CancelRebalance,
    ClearRule,
    ClusterBalance,
    Rebalance,
    RebalancePreview,
    RebalanceWish,
    SetAutomatic,
)
from danube.model.errors import InvalidRequestError
from danube.model.limits.balance import (
    BALANCE_REASON_CHARS_MAX,
    EXTRA_BROKERS_MAX,
    RATE_FACTOR_MAX,
    REBALANCE_MOVES_DEFAULT,
    REBALANCE_MOVES_MAX,
)
from danube.model.limits.broker import CALLER_CHARS_MAX, NAME_BYTES_MAX
from danube.wire.codec import Codec, Rule, Unread, listing, record, single
from danube.wire.gen import DanubeBalance_pb2 as pb


def _short(word: str, chars_max: int) -> Rule:
    def check(text: str) -> None:
        if len(text) > chars_max:
            raise InvalidRequestError(f"{word} {text[:40]!r}... is longer than {chars_max} characters: cut it")

    return Rule(check=check)


def _check_target(target_cv: float) -> None:
    if not (math.isfinite(target_cv) and 0 <= target_cv <= 10):
        raise InvalidRequestError(f"an imbalance of {target_cv} cannot be aimed at: use 0.01 to 10")


def _check_factor(factor: float) -> None:
    if not (math.isfinite(factor) and 0 <= factor <= RATE_FACTOR_MAX):
        raise InvalidRequestError(f"a topic cannot be imagined at {factor} times its rate: use 0 to {RATE_FACTOR_MAX}")


_NAME = _short("name", NAME_BYTES_MAX)
_CALLER = _short("caller", CALLER_CHARS_MAX)
REBALANCE_PREVIEW = record(RebalancePreview, pb.RebalancePreview)
AUTOMATIC = record(AutomaticBalance, pb.AutomaticBalance)
SET_RULE = record(
    BalanceRule, pb.BalanceRule, name=_NAME, reason=_short("reason", BALANCE_REASON_CHARS_MAX), set_by=_CALLER
)
CLEAR_RULE = record(ClearRule, pb.ClearRuleRequest, name=_NAME)
RULES = listing(pb.BalanceRules, "rules", BalanceRule)
SET_AUTOMATIC = record(SetAutomatic, pb.SetAutomaticRequest, mode=_NAME, set_by=_CALLER)
BALANCE = Unread(pb.BalanceRequest)
CLUSTER_BALANCE = record(ClusterBalance, pb.BalanceResponse)
REBALANCE_WISH = record(
    RebalanceWish,
    pb.RebalanceWish,
    target_cv=Rule(check=_check_target, decode=lambda target_cv: target_cv or RebalanceWish().target_cv),
    moves_max=Rule(decode=lambda count: min(count or REBALANCE_MOVES_DEFAULT, REBALANCE_MOVES_MAX)),
    strategy=_NAME,
    without_broker=_NAME,
    extra_brokers=Rule(decode=lambda count: min(count, EXTRA_BROKERS_MAX)),
    topic=_NAME,
    factor=Rule(check=_check_factor),
)
LIST_REBALANCES = Unread(pb.RebalancesRequest)
REBALANCES = listing(pb.RebalancesResponse, "rebalances", Rebalance)
CANCEL_REBALANCE = record(CancelRebalance, pb.CancelRebalanceRequest, rebalance_id=_NAME, cancelled_by=_CALLER)
REBALANCE_CANCELLED: Codec[Rebalance | None] = single(pb.CancelRebalanceResponse, "rebalance", Rebalance | None)
