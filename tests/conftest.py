"""Strict for every test: nothing of ours blocks the event loop, no task outlives its test, no warning passes.

Warnings, exceptions of threads and exceptions that nobody could catch are errors by `filterwarnings` in pyproject.toml.
"""

import asyncio
import inspect
import logging
import os
import signal
from collections.abc import AsyncIterator, Iterator

import pytest
from blockbuster import BlockBuster, BlockBusterFunction
from hypothesis import HealthCheck, settings

import danube

# What blockbuster leaves out and a log is made of: each waits for the disk.
_DISK_CALLS = (
    "os.fsync",
    "os.fdatasync",
    "os.pread",
    "os.pwrite",
    "os.preadv",
    "os.pwritev",
    "os.writev",
    "os.ftruncate",
)
_LEAK_GRACE_S = 0.2
"""For tasks that are cancelled, or at their last step, when the test returns."""

# A suite that was started in the background inherits "ignore Ctrl-C", and so would every process that it starts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

settings.register_profile("fast", deadline=None, max_examples=10, print_blob=True)
settings.register_profile("ci", deadline=None, max_examples=50, print_blob=True)
settings.register_profile(
    "soak", deadline=None, max_examples=500, print_blob=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))


@pytest.fixture(scope="session")
def _blocking_calls() -> BlockBuster:
    detector = BlockBuster(danube)
    for name in _DISK_CALLS:
        detector.functions[name] = BlockBusterFunction(None, name, scanned_modules=danube)
    return detector


@pytest.fixture(autouse=True)
def _nothing_blocks_the_loop(_blocking_calls: BlockBuster) -> Iterator[None]:
    """A blocking call under a frame of `danube`, made on a running loop, raises BlockingError where it is made."""
    _blocking_calls.activate()
    try:
        yield
    finally:
        _blocking_calls.deactivate()


@pytest.fixture(autouse=True)
def _the_log_stays_as_it_was() -> Iterator[None]:
    """A command that is run within the process of the tests configures the log of that process."""
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)


@pytest.fixture(autouse=True)
def _strict_loop(request: pytest.FixtureRequest) -> None:
    if inspect.iscoroutinefunction(getattr(request, "function", None)):
        request.getfixturevalue("_no_task_is_left")


@pytest.fixture
async def _no_task_is_left() -> AsyncIterator[None]:
    """Set up before and torn down after the fixtures that a test asks for, so theirs are seen too."""
    before = asyncio.all_tasks()
    yield
    left = asyncio.all_tasks() - before - {asyncio.current_task()}
    if left:
        _, left = await asyncio.wait(left, timeout=_LEAK_GRACE_S)
    if left:
        names = "\n".join(sorted(f"  {task.get_name()}: {task.get_coro()!r}" for task in left))
        pytest.fail(f"{len(left)} task(s) outlive the test:\n{names}")
