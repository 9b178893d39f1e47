import asyncio
import signal
import sys
import time
from pathlib import Path

import pytest

from danube.model.errors import SettingsError
from danube.runtime import process
from danube.runtime.process import EventLoop, OwnProcess, run_loop, signals_held
from danube.testing.patience import LONG_S


def test_usage_is_of_this_process() -> None:
    before_s = time.process_time()
    usage = OwnProcess().usage()
    assert before_s <= usage.cpu_s <= time.process_time()
    assert 1_000_000 < usage.rss_bytes < 100_000_000_000


def test_where_the_system_does_not_tell_the_most_it_ever_held_stands_in(monkeypatch: pytest.MonkeyPatch) -> None:
    known = OwnProcess().usage().rss_bytes
    monkeypatch.setattr(process, "_STATM", Path("/nowhere/at/all"))
    assert OwnProcess().usage().rss_bytes >= known // 2


async def _loop_module() -> str:
    return type(asyncio.get_running_loop()).__module__


def test_the_event_loop_is_uvloop_where_it_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    assert run_loop(_loop_module(), EventLoop.AUTO).startswith("uvloop")
    assert run_loop(_loop_module(), EventLoop.ASYNCIO).startswith("asyncio")
    monkeypatch.setitem(sys.modules, "uvloop", None)
    assert run_loop(_loop_module(), EventLoop.AUTO).startswith("asyncio")
    with pytest.raises(SettingsError, match=r"pip install '\.\[speed\]'"):
        run_loop(_loop_module(), EventLoop.UVLOOP)


def test_a_signal_that_is_held_raises_afterwards() -> None:
    went_on = False

    def tell(_number: int, _frame: object) -> None:
        raise TimeoutError

    before = signal.signal(signal.SIGALRM, tell)
    try:
        with pytest.raises(TimeoutError), signals_held(alarm_grace_s=LONG_S):
            signal.raise_signal(signal.SIGALRM)
            went_on = True
        assert went_on
        assert signal.getsignal(signal.SIGALRM) is tell
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
