"""Strict for every test: nothing of ours blocks the event loop, no task outlives its test, no warning passes.

Warnings, exceptions of threads and exceptions that nobody could catch are errors by `filterwarnings` in pyproject.toml.
"""

import asyncio
import gc
import inspect
import logging
import os
import signal
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest
from _pytest.assertion import rewrite
from blockbuster import BlockBuster, BlockBusterFunction
from hypothesis import HealthCheck, settings

import danube

pytest_plugins = (
    "tests.plugins.durations",
    "tests.plugins.secrets",
    "tests.plugins.disk_room",
    "tests.plugins.seeds",
    "tests.plugins.fork_server",
)

# Calls that wait for the disk, and that blockbuster leaves out.
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
_LEAK_LOOK_S = 0.01
_LEAK_LOOKS = 20
"""Polls without progress for tasks that are cancelled, or at their last step, when the test returns. A machine that
stands still costs one poll."""
_WAITING_WORKERS = 2
"""More workers than processors for the whole suite: tests of clusters mostly wait, for leases and elections."""

# A suite that was started in the background inherits "ignore Ctrl-C", and so would every process that it starts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Hundreds of processes are started from here, and each would compile all that it imports where nobody keeps it.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

os.environ["TEXTUAL_ANIMATIONS"] = "none"  # of the terminal UI: nobody watches what moves

# How long an example takes says something of the machine, and nothing of what is tested.
for _name, _examples in (("fast", 10), ("ci", 50), ("soak", 500)):
    settings.register_profile(
        _name,
        deadline=None,
        derandomize=_name != "soak",  # a change fails for what it does, as with seeds
        max_examples=_examples,
        print_blob=True,
        suppress_health_check=[HealthCheck.too_slow],
    )
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """Workers of `-n auto`: one for each processor in `make check`, since fast tests never wait."""
    processors = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return processors if "not cluster" in config.option.markexpr else processors + _WAITING_WORKERS


@pytest.hookimpl(tryfirst=True)
def pytest_collection(session: pytest.Session) -> None:
    """Workers share the rewriting of asserts, half a minute of it, before each of them needs all of it."""
    worker: dict[str, str | int] = getattr(session.config, "workerinput", {})
    if not worker:
        return
    first, step = int(str(worker["workerid"]).removeprefix("gw")), int(worker["workercount"])
    for path in sorted(Path(__file__).parent.rglob("test_*.py"))[first::step]:
        _rewrite(path, session.config)


def _rewrite(path: Path, config: pytest.Config) -> None:
    """Leave a module's asserts rewritten where pytest looks for them; it does the same where that fails."""
    folder = rewrite.get_cache_dir(path)
    cached = folder / f"{path.stem}{rewrite.PYC_TAIL}"
    if rewrite.try_makedirs(folder) and rewrite._read_pyc(path, cached) is None:
        source, code = rewrite._rewrite_test(path, config)
        rewrite._write_pyc(config.stash[rewrite.assertstate_key], code, source, cached)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Among workers: tests that share something costly share a worker, and modules that may take long go first.

    Else each worker would make its own, and the last of them would be left alone with the longest test.
    """
    if not hasattr(config, "workerinput"):
        return
    patience_s = dict[Path, float]()
    for item in items:
        patience_s[item.path] = max(patience_s.get(item.path, 0.0), _patience_s(item))
        if config.getvalue("loadgroup") and (group := _group(item)) and not item.nodeid.endswith(group):
            item._id = item.id.parse(item.nodeid + group)
    items.sort(key=lambda item: patience_s[item.path], reverse=True)


def pytest_collection_finish() -> None:
    """Thousands of tests, and all modules, live to the end: the garbage collector need not look at them again."""
    gc.collect()
    gc.freeze()


def _group(item: pytest.Item) -> str:
    """What xdist groups by, at the end of a test's id; xdist 3.8 puts it where pytest 9.2 does not look any more.

    Named by marks, and by what is made once for a module.
    """
    names = {str(mark.args[0]) for mark in item.iter_markers("xdist_group")}
    if isinstance(item, pytest.Function):
        which = item.callspec.indices if hasattr(item, "callspec") else {}
        for name, definitions in item._fixtureinfo.name2fixturedefs.items():
            if definitions[-1].scope == "module":
                names.add(f"{item.path.stem} {name}{which.get(name, '')}")
    return f"@{'_'.join(sorted(names))}" if names else ""


def _patience_s(item: pytest.Item) -> float:
    """How long a test may take: what it says of itself, or a rank among those that say nothing."""
    marker = item.get_closest_marker("timeout")
    if marker and marker.args:
        return float(marker.args[0])
    return float(bool(item.get_closest_marker("cluster")) + bool(item.get_closest_marker("slow")))


@pytest.fixture(scope="session")
def _blocking_calls() -> BlockBuster:
    detector = BlockBuster(danube)
    for name in _DISK_CALLS:
        detector.functions[name] = BlockBusterFunction(None, name, scanned_modules=danube)
    for function in detector.functions.values():
        function.can_block_predicate = _or_apart(function.can_block_predicate)
        function.can_block_in("tests/plugins/fork_server.py", "call")  # both are over in a moment
        function.can_block_in("danube/testing/processes/child.py", "pause")
    return detector


def _or_apart(may_block: Callable[..., bool]) -> Callable[..., bool]:
    """The loop of the object store's client is in a thread of its own, where nothing else waits."""
    return lambda *arguments, **named: threading.current_thread().name == "objects" or may_block(*arguments, **named)


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
    left, looks = asyncio.all_tasks() - before - {asyncio.current_task()}, 0
    while left and looks < _LEAK_LOOKS:
        ended, left = await asyncio.wait(left, timeout=_LEAK_LOOK_S)
        looks = 0 if ended else looks + 1
    if left:
        names = "\n".join(sorted(f"  {task.get_name()}: {task.get_coro()!r}" for task in left))
        pytest.fail(f"{len(left)} task(s) outlive the test:\n{names}")
