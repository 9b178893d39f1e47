"""What tests of several members share."""

import random

import pytest

from danube.metadata.raft import seams
from danube.testing.raft_network import Agenda
from tests.unit.metadata.raft.groups import Group


@pytest.fixture
def group(monkeypatch: pytest.MonkeyPatch) -> Group:
    agenda = Agenda()
    monkeypatch.setattr(seams.core, "monotonicTime", lambda: agenda.now_s)
    monkeypatch.setattr(seams.core, "random", random.Random(1))
    return Group(agenda)
