"""The process of `danube connect run`: logging, signals, and the end."""

import asyncio
from collections.abc import Callable, Sequence

from danube.connect.connector import Plan
from danube.connect.runner import Runner
from danube.model.exit_codes import ExitCode
from danube.model.limits.faces import CONNECT_IDLE_S
from danube.runtime.process import LogFormat, configure_logging, on_end, settle_memory


async def run_until_signalled(
    plans: Sequence[Plan], log_format: LogFormat, announce: Callable[[str], object]
) -> ExitCode:
    """Run connectors until a signal, or until the configuration of each is wrong. Raises SettingsError."""
    configure_logging(plans[0].config.processing.level, log_format)
    for plan in plans:
        announce(plan.describe())
    ended = asyncio.Event()
    on_end(ended.set)
    runner = Runner(plans)
    try:
        await runner.start()
        settle_memory()
        while not (ended.is_set() or runner.is_over()):
            await _either(ended)
    except BaseException:
        await runner.close()
        raise
    problem = runner.problem()
    is_drained = await runner.drain()
    if not ended.is_set():
        announce(problem or "no task can run")
        return ExitCode.USAGE
    return ExitCode.OK if is_drained else ExitCode.FAILURE


async def _either(ended: asyncio.Event) -> None:
    """Return when the event is set, or after a while."""
    try:
        async with asyncio.timeout(CONNECT_IDLE_S):
            await ended.wait()
    except TimeoutError:
        return
