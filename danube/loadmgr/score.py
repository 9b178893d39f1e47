"""Score of a broker, and imbalance of a cluster: one definition for brokers, administrators and Spark.

The score is the largest share of capacity that any resource takes up, in percent, so it says the same on any broker and
at any time. Imbalance is the coefficient of variation of the scores (population standard deviation by mean), with the
bands of the original, so that its numbers compare.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from danube.loadmgr.load import RESOURCES, Resource, Shares
from danube.model.limits.balance import SCORE_PER_TOPIC


class Strategy(StrEnum):
    """Rule by which brokers are compared, by the original's names."""

    FAIR = "fair"
    """By the number of topics."""
    BALANCED = "balanced"
    """By the busiest resource."""
    WEIGHTED_LOAD = "weighted_load"
    """By all resources, weighted."""


WEIGHTS: Shares = (0.45, 0.1, 0.3, 0.15)
"""Of `weighted_load`, in the order of `Resource`."""


class Band(StrEnum):
    """Judgement of an imbalance."""

    WELL_BALANCED = "well balanced"
    BALANCED = "balanced"
    IMBALANCED = "imbalanced"
    SEVERE = "severely imbalanced"


BANDS = ((0.2, Band.WELL_BALANCED), (0.3, Band.BALANCED), (0.4, Band.IMBALANCED), (math.inf, Band.SEVERE))
"""Each band ends below its number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerScore:
    """Score of one broker, with its cause."""

    broker_id: int
    score: float
    shares: Shares
    topics: int
    busiest: Resource

    @property
    def busiest_percent(self) -> float:
        """Share of the busiest resource, in percent."""
        return 100 * self.shares[RESOURCES.index(self.busiest)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Imbalance:
    """Imbalance of a cluster."""

    cv: float
    """Coefficient of variation of the scores; 0 for fewer than two brokers."""
    mean: float
    highest: float
    lowest: float
    deviation: float
    """Population standard deviation."""

    @property
    def band(self) -> Band:
        """Its judgement."""
        return band_of(self.cv)

    @property
    def peak_to_average(self) -> float:
        """The highest score by the mean; 1 when all are 0."""
        return self.highest / self.mean if self.mean else 1.0


def band_of(cv: float) -> Band:
    """The judgement of an imbalance."""
    return next((band for end, band in BANDS if cv < end), Band.SEVERE)


def score_of(shares: Shares, topics: int, strategy: Strategy = Strategy.BALANCED) -> float:
    """Score of a broker with these shares and so many topics."""
    match strategy:
        case Strategy.FAIR:
            return float(topics)
        case Strategy.WEIGHTED_LOAD:
            load = sum(weight * share for weight, share in zip(WEIGHTS, shares, strict=True))
        case Strategy.BALANCED:
            load = max(shares[0], shares[2], shares[3])  # topics take no memory with them
    return 100 * load + SCORE_PER_TOPIC * topics


def broker_score(broker_id: int, shares: Shares, topics: int, strategy: Strategy) -> BrokerScore:
    """Score of a broker with its cause."""
    of_topics = [each for each in RESOURCES if each is not Resource.MEMORY]  # topics take no memory with them
    busiest = max(of_topics, key=lambda resource: shares[RESOURCES.index(resource)])
    score = score_of(shares, topics, strategy)
    return BrokerScore(broker_id=broker_id, score=score, shares=shares, topics=topics, busiest=busiest)


def imbalance_of(scores: Sequence[float]) -> Imbalance:
    """Imbalance of brokers with these scores."""
    if not scores:
        return Imbalance(cv=0.0, mean=0.0, highest=0.0, lowest=0.0, deviation=0.0)
    mean = math.fsum(scores) / len(scores)
    deviation = math.sqrt(math.fsum((score - mean) ** 2 for score in scores) / len(scores))
    cv = deviation / mean if mean and len(scores) > 1 else 0.0
    return Imbalance(cv=cv, mean=mean, highest=max(scores), lowest=min(scores), deviation=deviation)


def status_of(scores: Mapping[int, float]) -> dict[int, str]:
    """`overloaded`, `underloaded` or `normal` for each broker, by the rule of the original."""
    found = imbalance_of(list(scores.values()))
    spread = max(found.deviation, 0.2 * found.mean, 2.0)
    margin = (0.5 if found.cv > 0.3 else 1.0) * spread
    return {
        broker_id: "overloaded"
        if score > found.mean + margin
        else "underloaded"
        if score < found.mean - margin
        else "normal"
        for broker_id, score in scores.items()
    }
