"""`--watch`: refreshes leave no records of the audit log, and fit the screen."""

import os
import shutil

import pytest

from danube.admin.cli.call import Shell, _watch
from danube.admin.cli.output.options import OutputOptions
from danube.admin.operations import BY_NAME
from danube.admin.target import Target
from danube.model.topic import DispatchStrategy, TopicName
from danube.runtime import console
from danube.testing.simulated.clock import SimClock
from tests.faces.memory_gateway import connect_to
from tests.faces.seeded import seeded_gateway

LINES = 12


class EnoughError(Exception):
    """Ends a watch that would go on until Ctrl-C."""


class CountingClock(SimClock):
    """Goes on without waiting, a few times."""

    rounds = 4

    async def sleep_until(self, when_s: float) -> None:
        self.advance(when_s - self.monotonic_s())
        self.rounds -= 1
        if not self.rounds:
            raise EnoughError


async def test_refreshes_are_not_recorded_and_fit_the_screen(monkeypatch: pytest.MonkeyPatch) -> None:
    gateway, clock = seeded_gateway(SimClock()), CountingClock()
    for number in range(40):
        gateway.cluster.add_topic(TopicName("default", f"many-{number:02}"), DispatchStrategy.RELIABLE)
    frames = list[str]()
    monkeypatch.setattr(console, "write", frames.append)
    monkeypatch.setattr(console, "is_terminal", lambda *_: True)
    monkeypatch.setattr(shutil, "get_terminal_size", lambda *_, **__: os.terminal_size((80, LINES)))
    shell = Shell(connect=connect_to(gateway), target=Target(), output=OutputOptions(no_color=True), clock=clock)
    operation = BY_NAME["list_topics"]
    with pytest.raises(EnoughError):
        await _watch(shell, operation, operation.params(), 2.0)
    assert len(frames) == 4
    for frame in frames:
        lines = frame.splitlines()
        assert len(lines) < LINES
        assert "more lines)" in lines[-1]
    assert [record.entry.operation for record in gateway.audit_records] == ["list_topics"]
