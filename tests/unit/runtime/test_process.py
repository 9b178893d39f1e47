import time
from pathlib import Path

import pytest

from danube.runtime import process
from danube.runtime.process import OwnProcess


def test_usage_is_of_this_process() -> None:
    before_s = time.process_time()
    usage = OwnProcess().usage()
    assert before_s <= usage.cpu_s <= time.process_time()
    assert 1_000_000 < usage.rss_bytes < 100_000_000_000


def test_where_the_system_does_not_tell_the_most_it_ever_held_stands_in(monkeypatch: pytest.MonkeyPatch) -> None:
    known = OwnProcess().usage().rss_bytes
    monkeypatch.setattr(process, "_STATM", Path("/nowhere/at/all"))
    assert OwnProcess().usage().rss_bytes >= known // 2
