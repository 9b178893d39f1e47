"""Lag over time: each moment has the verdict that it would have alone."""

from random import Random

from danube.model.lag.history import Times, judge_history
from danube.model.lag.rules import judge
from danube.model.lag.verdict import LagPolicy, Observation
from tests.unit.model.lag_cases import CASES, ms, seen


def random_history(chance: Random) -> list[Observation]:
    head, position, found = 0, 0, list[Observation]()
    for number in range(120):
        head += chance.choice([0, 1, 50])
        position = min(head, position + chance.choice([0, 0, 30])) if chance.random() > 0.05 else 0
        second = 5 * number + chance.uniform(0, 4)
        found.append(
            seen(second, head, position, sequence=number, consumers=chance.choice([0, 1]), gone=chance.random() < 0.03)
        )
    return found


def test_each_moment_has_the_verdict_that_it_would_have_alone() -> None:
    policy = LagPolicy()
    times = Times(first_ms=ms(-30), last_ms=ms(900), step_ms=7_000)
    for history in (*(case.observations for case in CASES), random_history(Random(7))):
        alone = [(at_ms, judge(history, at_ms, policy)) for at_ms in range(times.first_ms, times.last_ms + 1, 7_000)]
        expected = [(at_ms, one) for at_ms, one in alone if one is not None and one.observed_ms is not None]
        assert list(judge_history(history, times, policy)) == expected
        within = [(at_ms, one) for at_ms, one in expected if ms(100) <= at_ms <= ms(300)]
        assert list(judge_history(history, times, policy, (ms(100), ms(300)))) == within


def test_moments_within_bounds() -> None:
    times = Times(first_ms=100, last_ms=400, step_ms=100)
    assert list(times.between(150, 1_000)) == [200, 300, 400]
    assert list(times.between(0, 99)) == []
