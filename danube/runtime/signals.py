"""The signals that ask a process to end, and what ends it in order then."""

import asyncio
import signal
from collections.abc import Callable, Sequence

ENDING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
"""SIGHUP says that the terminal is gone: without a handler it ends a process on the spot."""


def on_end(call: Callable[[], object], numbers: Sequence[signal.Signals] = ENDING) -> list[signal.Signals]:
    """Have the running loop call this for these signals; answers for which it does.

    A SIGHUP that is ignored, as under nohup, stays ignored.
    """
    hung_up_is_nothing = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    handled = [number for number in numbers if number is not signal.SIGHUP or not hung_up_is_nothing]
    for number in handled:
        asyncio.get_running_loop().add_signal_handler(number, call)
    return handled
