"""Storages over one shared folder, by seed: topics change their owners all the time; nothing is lost or left over."""

from collections import Counter
from typing import Any

import pytest

from danube.storage.flush.segment_flusher import FlushReport, SegmentFlusher
from danube.storage.takeover.journal_removal import JournalRemover
from lab.simulation import simulate_shared

CLOSE_BY = 10


def test_topics_that_change_their_owners_lose_nothing_and_leave_nothing(seed: int) -> None:
    outcome = simulate_shared(seed)
    assert not outcome.violations, outcome.report()


def test_the_same_seed_is_the_same_run() -> None:
    assert simulate_shared(3).lives == simulate_shared(3).lives


def test_the_runs_have_in_them_what_they_are_for(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = Counter[str]()
    retire, flush = JournalRemover.remove_unneeded, SegmentFlusher.flush

    async def counted_removal(self: JournalRemover) -> int:
        gone = await retire(self)
        seen["retired"] += gone
        return gone

    async def counted_flush(self: SegmentFlusher) -> FlushReport:
        older = len(self._topics.histories.with_older_epochs)
        report = await flush(self)
        seen["cut of former owners"] += max(0, older - len(self._topics.histories.with_older_epochs))
        return report

    monkeypatch.setattr(JournalRemover, "remove_unneeded", counted_removal)
    monkeypatch.setattr(SegmentFlusher, "flush", counted_flush)
    stories: list[Any] = [simulate_shared(seed).lives for seed in range(CLOSE_BY)]
    words = " ".join(line for lives in stories for line in lives)
    assert min(seen["retired"], seen["cut of former owners"]) > CLOSE_BY
    for happened in ("is killed", "power cut", "pauses", "taken over", "gives", "retains", "is deleted", "begins"):
        assert happened in words
