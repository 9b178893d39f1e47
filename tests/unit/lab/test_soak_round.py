"""What a round of the soak notes of the faults that it makes."""

import asyncio
import time
from pathlib import Path
from typing import cast

import pytest

from danube.testing.processes.broker import BrokerProcess
from lab.kernel.rounds import Ledger
from lab.soak.plan import Fault, FaultKind
from lab.soak.round import Environment, Round, SoakResult


class Served:
    """A broker that does as told, at once."""

    def __init__(self) -> None:
        self.is_running = True

    def pause(self) -> None:
        pass

    resume = pause

    def launch(self) -> None:
        self.is_running = True

    def kill(self) -> None:
        self.is_running = False

    def terminate(self) -> int:
        self.is_running = False
        return 0


@pytest.fixture
def environment(tmp_path: Path) -> Environment:
    broker, ledger = cast("BrokerProcess", Served()), Ledger(tmp_path, SoakResult)
    return Environment(folder=tmp_path, broker=broker, ledger=ledger, wheel_python=None, stop=asyncio.Event())


@pytest.mark.parametrize(
    ("kind", "deaths", "forgettable"),
    [
        (FaultKind.KILL, 1, 1),
        (FaultKind.KILL_TWICE, 2, 2),
        (FaultKind.KILL_PAUSED, 1, 1),
        (FaultKind.PAUSE, 0, 0),
        (FaultKind.TERMINATE, 1, 0),
    ],
)
async def test_what_is_on_its_way_when_a_broker_ends_may_come_again_and_what_it_answered_only_if_it_was_killed(
    environment: Environment, kind: FaultKind, deaths: int, forgettable: int
) -> None:
    a_round, began_s = Round(environment, seed=1), time.monotonic()
    await a_round._endure(Fault(kind, after_s=0.0))
    assert len(a_round._deaths) == deaths
    assert len(a_round._forgettable) == forgettable
    assert all(began_s <= death_s <= time.monotonic() for death_s in a_round._deaths)
