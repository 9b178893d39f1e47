"""Values that a picture of a cluster's balance shows, ready to be drawn with characters or as SVG. Pure."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from danube.admin.bars import clamped
from danube.model.text import amount_text, percent_text


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """One bar, with its value in words."""

    label: str
    share: float | None
    """Part of its whole, 0 to 1; None where it is not known."""
    text: str
    tone: str = ""
    """`warning` or `error`, always beside a word that says the same; else nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerBars:
    """One broker: its score, the resources that the score comes from, and the cause in words."""

    name: str
    status: str
    """In a word: `overloaded`, `draining`, `not heard`."""
    tone: str
    topics: str
    score: Bar
    resources: tuple[Bar, ...]
    cause: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """An imbalance and its band."""

    cv: float
    band: str
    tone: str

    @property
    def text(self) -> str:
        """The number and its band: `0.62 severely imbalanced`."""
        return f"{self.cv:.2f} {self.band}"


@dataclass(frozen=True, slots=True, kw_only=True)
class BalanceChart:
    """The brokers of a cluster side by side."""

    imbalance: Judged
    brokers: tuple[BrokerBars, ...]
    scale: float
    """Score at the end of the score bars."""
    mean: float


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerChange:
    """One broker before and after a plan."""

    name: str
    before: Bar
    after: Bar
    topics: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanChart:
    """A cluster before and after a plan, on one scale."""

    before: Judged
    after: Judged
    brokers: tuple[BrokerChange, ...]
    scale: float


_SCALES = (1.0, 2.5, 5.0, 10.0)
_PERCENT = 100.0


def scale_of(scores: Sequence[float]) -> float:
    """The end of an axis for these scores: the next round number, so that small scores can be told apart."""
    highest = max((score for score in scores if math.isfinite(score)), default=0.0)
    if highest <= 0:
        return _PERCENT
    power = 10.0 ** math.floor(math.log10(highest))
    return next(step * power for step in _SCALES if highest <= step * power)


def score_bar(label: str, score: float | None, scale: float, tone: str = "") -> Bar:
    """The bar of a score on an axis that ends at `scale`."""
    if score is None:
        return Bar(label=label, share=None, text="-")
    text = f"{score:.1f}" if score < 9.95 else f"{score:.0f}"
    return Bar(label=label, share=clamped(score / scale), text=text, tone=tone)


def share_bar(label: str, share: float | None, ceiling: float) -> Bar:
    """The bar of a share of a capacity; above its ceiling it is a warning."""
    if share is None:
        return Bar(label=label, share=None, text="-")
    return Bar(label=label, share=clamped(share), text=percent_text(share), tone="warning" if share > ceiling else "")


def rate_bar(label: str, rate: float | None, highest: float) -> Bar:
    """The bar of a rate against the highest of the cluster, which has no capacity."""
    if rate is None:
        return Bar(label=label, share=None, text="-")
    return Bar(label=label, share=clamped(rate / highest) if highest else 0.0, text=f"{amount_text(rate)}/s")
