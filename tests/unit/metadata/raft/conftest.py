"""What tests of several members share."""

import random
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from danube.metadata.raft import leader_calls
from danube.metadata.raft.core import overrides
from danube.metadata.replication import replicated
from danube.testing.patience import PATIENCE_S
from danube.testing.simulated.clock import SimClock
from lab.raft.network import Agenda
from tests.unit.metadata.raft.groups import Group
from tests.unit.metadata.raft.local import GroupStore, open_group


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Members that run in threads go by the machine's clock, and the machine may stand still."""
    monkeypatch.setattr(replicated, "METADATA_SUBMIT_TIMEOUT_S", PATIENCE_S)
    monkeypatch.setattr(leader_calls, "RAFT_LOOK_TIMEOUT_S", PATIENCE_S)


@pytest.fixture
def group(monkeypatch: pytest.MonkeyPatch) -> Group:
    agenda = Agenda()
    monkeypatch.setattr(overrides.core, "monotonicTime", lambda: agenda.now_s)
    monkeypatch.setattr(overrides.core, "random", random.Random(1))
    return Group(agenda)


@pytest.fixture
async def alone(tmp_path: Path) -> AsyncIterator[GroupStore]:
    store = await open_group(tmp_path, SimClock(), 1)
    yield store
    await store.close()


@pytest.fixture
async def three(tmp_path: Path) -> AsyncIterator[GroupStore]:
    """A follower; `others` are the rest."""
    store = await open_group(tmp_path, SimClock(), 3)
    yield store
    await store.close()
