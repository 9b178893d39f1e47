"""A broker whose topics others have taken over starts itself again."""

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from danube.broker import __main__ as command
from danube.broker import app
from danube.broker.config.settings import load_broker_settings
from danube.broker.environment import Addresses
from danube.model.errors import StorageUnavailableError
from danube.runtime.ready_file import ReadyFile
from danube.testing.patience import PATIENCE_S

AWAY = StorageUnavailableError("s3://danube does not answer: connection reset")
ADDRESSES = Addresses("127.0.0.1:1", "127.0.0.1:2", None)


class Starts:
    """Starts of a broker, one outcome after the other: an error, or whether the broker is fenced."""

    def __init__(self, *outcomes: Exception | bool) -> None:
        self.left = list(outcomes)
        self.waited: list[float] = []

    async def start(self, _settings: object) -> Any:
        outcome = self.left.pop(0)
        if isinstance(outcome, Exception):
            raise outcome
        fenced, replaced = asyncio.Event(), asyncio.Event()
        (fenced if outcome else self.end).set()
        return SimpleNamespace(addresses=ADDRESSES, fenced=fenced, replaced=replaced, stop=self._stopped)

    async def run(self, monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
        """Serve until an outcome is not fenced."""
        self.end = asyncio.Event()
        monkeypatch.setattr(app, "Broker", self)
        monkeypatch.setattr(command, "on_end", lambda _end: None)
        monkeypatch.setattr(command, "_first", self._first)
        monkeypatch.setattr("danube.objects.retrying.next_wait_s", lambda before_s, _drawn: self._wait(before_s))
        settings = load_broker_settings(None, {"DANUBE_DATA_DIR": str(folder)}, {}).settings
        async with asyncio.timeout(PATIENCE_S):
            await command._serve(settings, ReadyFile(None))

    async def _first(self, stop: asyncio.Event, _replaced: asyncio.Event, fenced: asyncio.Event) -> None:
        if not fenced.is_set():
            stop.set()

    def _wait(self, before_s: float) -> float:
        self.waited.append(before_s)
        return 0.001

    async def _stopped(self) -> None:
        return None


async def test_a_fenced_broker_waits_for_its_store_before_it_starts_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    starts = Starts(True, AWAY, AWAY, AWAY, False)
    await starts.run(monkeypatch, tmp_path)
    assert (starts.left, starts.waited) == ([], [0.0, 0.001, 0.001])


async def test_a_first_start_over_a_store_that_does_not_answer_fails_and_says_why(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    starts = Starts(AWAY, False)
    with pytest.raises(StorageUnavailableError, match="connection reset"):
        await starts.run(monkeypatch, tmp_path)
    assert not starts.waited
