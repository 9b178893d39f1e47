"""Seeded choices: the same seed makes the same ones in any process."""

import random
from collections.abc import Mapping
from typing import TypeVar

T = TypeVar("T")


def seeded(seed: int | str) -> random.Random:
    """A stream of choices that follows from a seed."""
    return random.Random(seed)  # noqa: S311 - a seed is for replay, not for secrets


def weighted(chance: random.Random, weights: Mapping[T, float]) -> T:
    """One of the keys, by its weight."""
    return chance.choices([*weights], [*weights.values()])[0]
