"""The dispatch engine alone: processor time of one message, by subscription type, without log, driver or network.

Batches of BATCH messages become durable one after the other, and consumers acknowledge all that they are sent, one by
one as the published clients do, or range by range. Cost of one key a batch and of many keys differ, so both are there.
"""

import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from bench.result import Figure, median
from danube.broker.dispatch.engine import DispatchEngine
from danube.broker.dispatch.events import (
    Acknowledged,
    Appended,
    ConsumerAttached,
    Instruction,
    KeyRun,
    KeysRead,
    ReadKeys,
    Send,
)
from danube.broker.dispatch.redelivery import RedeliveryPolicy
from danube.model.subscription import Cursor, SubscriptionType

BATCH = 500
BATCHES = 40
CONSUMERS = 4
WINDOW = 1_000
KEYS = 200
ROUNDS = 5


@dataclass(frozen=True, slots=True)
class Case:
    """One way to use a subscription."""

    name: str
    type: SubscriptionType
    by_range: bool = False
    runs: Callable[[int, int], tuple[KeyRun, ...]] = lambda start, end: (KeyRun(start, end, "p"),)


def _many_keys(start: int, end: int) -> tuple[KeyRun, ...]:
    return tuple(KeyRun(offset, offset + 1, f"key-{offset % KEYS}") for offset in range(start, end))


CASES = (
    Case("Exclusive, a range acknowledged", SubscriptionType.EXCLUSIVE, by_range=True),
    Case("Exclusive", SubscriptionType.EXCLUSIVE),
    Case("Failover", SubscriptionType.FAILOVER),
    Case("Shared", SubscriptionType.SHARED),
    Case(f"Key-Shared, {KEYS} keys", SubscriptionType.KEY_SHARED, runs=_many_keys),
    Case("Key-Shared, one key", SubscriptionType.KEY_SHARED),
)


def run() -> Iterator[Figure]:
    """Rounds of all cases, interleaved; the median of each, and its ratio to Exclusive with single acknowledgements."""
    costs: dict[str, list[float]] = {case.name: [] for case in CASES}
    for _ in range(ROUNDS):
        for case in CASES:
            costs[case.name].append(_cost_us(case))
    single = median(costs["Exclusive"])
    for name, taken in costs.items():
        cost = median(taken)
        rate = f"{1e6 / cost:,.0f} messages a second of one core"
        yield Figure(name, cost, "us a message", f"{rate}, {cost / single:.2f} x Exclusive")


def _cost_us(case: Case) -> float:
    engine = DispatchEngine(case.type, Cursor(0), 0, RedeliveryPolicy())
    consumers = 1 if case.type is SubscriptionType.EXCLUSIVE else CONSUMERS
    for consumer_id in range(1, consumers + 1):
        engine.handle(ConsumerAttached(consumer_id, WINDOW), 0.0)
    began_s = time.process_time()
    for batch in range(1, BATCHES + 1):
        _settle(case, engine, engine.handle(Appended(batch * BATCH), 0.0))
    elapsed_s = time.process_time() - began_s
    if engine.lag:
        raise RuntimeError(f"{case.name}: {engine.lag} messages are left")
    return elapsed_s / (BATCH * BATCHES) * 1e6


def _settle(case: Case, engine: DispatchEngine, instructions: list[Instruction]) -> None:
    """Do what the engine says until it says nothing more."""
    todo = deque(instructions)
    while todo:
        match todo.popleft():
            case Send(_, start, end, _) if case.by_range:
                todo.extend(engine.handle(Acknowledged(start, end), 0.0))
            case Send(_, start, end, _):
                for offset in range(start, end):
                    todo.extend(engine.handle(Acknowledged(offset, offset + 1), 0.0))
            case ReadKeys(start, end):
                todo.extend(engine.handle(KeysRead(case.runs(start, end)), 0.0))
            case _:
                pass
