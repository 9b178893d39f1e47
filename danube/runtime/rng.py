"""Randomness behind a protocol: jitter, ids and tie-breaks all come from one seed."""

import random
from typing import Protocol

_ID_MAX = 2**63 - 1  # official clients keep ids as signed 64-bit numbers and read 0 as "none"


class Rng(Protocol):
    """A source of randomness."""

    def uniform(self, low: float, high: float) -> float:
        """A number in [low, high]."""

    def new_id(self) -> int:
        """A number in [1, 2^63 - 1]."""


class SystemRng:
    """Randomness from the operating system, or from a seed."""

    def __init__(self, seed: int | None = None) -> None:
        self._random: random.Random = random.SystemRandom() if seed is None else random.Random(seed)  # noqa: S311 - a seed is for replay, not for secrets

    def uniform(self, low: float, high: float) -> float:
        return self._random.uniform(low, high)

    def new_id(self) -> int:
        return self._random.randint(1, _ID_MAX)
