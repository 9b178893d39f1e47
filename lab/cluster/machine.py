"""Machines of a simulated cluster on one event loop: each can stop between any two things that it does, and end.

While a machine stands still the loop keeps what its tasks and timers would do, and time goes on: later its clock has
jumped. What a dead machine would do is kept until the run is over.
"""

import asyncio
import random
from collections.abc import Callable, Coroutine
from contextvars import Context, ContextVar, copy_context
from typing import Any, TypeVar

from danube.model.errors import DanubeError
from danube.runtime.rng import SystemRng
from danube.testing.simulated.blocking import SimRunner
from danube.testing.simulated.disk import MachineOffError, SimDisk
from lab.kernel.time import LoopClock, SimulatedLoop

T = TypeVar("T")

QUICK_S = 0.005  # the most that a piece of work takes on a disk that is not slow

_MACHINE: ContextVar["Machine | None"] = ContextVar("machine", default=None)


class MachineLoop(SimulatedLoop):
    """A loop that runs nothing of a machine that stands still. The context of a task says whose it is."""

    def call_soon(self, callback: Any, *args: Any, context: Context | None = None) -> asyncio.Handle:  # type: ignore[override]  # noqa: ANN401 - as asyncio
        machine = (context or copy_context()).get(_MACHINE)
        if machine is None or machine.runs:
            return super().call_soon(callback, *args, context=context)
        handle = asyncio.Handle(callback, args, self, context)
        machine.held.append(handle)
        return handle

    def call_at(self, when: float, callback: Any, *args: Any, context: Context | None = None) -> asyncio.TimerHandle:  # type: ignore[override]  # noqa: ANN401 - as asyncio
        context = context or copy_context()

        def run() -> None:
            if not timer.cancelled():
                callback(*args)

        timer = super().call_at(when, lambda: self.call_soon(run, context=context), context=context)
        return timer


class Machine:
    """One life of a broker's machine, or of its process."""

    def __init__(
        self, number: int, disk: SimDisk, chance: random.Random, on_crash: Callable[[BaseException], None]
    ) -> None:
        self.number = number
        self.disk = disk
        self.chance = chance
        self.runs = True
        self.is_dead = False
        self.disk_s = QUICK_S
        """The most that a piece of work takes on its disk now."""
        self.held: list[asyncio.Handle] = []
        self._on_crash = on_crash
        self._context = copy_context()
        self._context.run(_MACHINE.set, self)

    def call_later(self, seconds: float, callback: Callable[..., object], *args: object) -> None:
        """Have the machine do something after so long, once it runs."""
        asyncio.get_running_loop().call_later(seconds, callback, *args, context=self._context)

    def spawn(self, work: Coroutine[Any, Any, T]) -> "asyncio.Task[T]":
        """Have the machine work at something."""
        task = asyncio.get_running_loop().create_task(work, context=self._context)
        task.add_done_callback(self._ended, context=self._context)
        return task

    def resume(self) -> None:
        """Go on, late."""
        self.runs = True
        held, self.held = self.held, []
        asyncio.get_running_loop()._ready.extend(held)  # type: ignore[attr-defined]  # noqa: SLF001 - as they stood

    def kill(self, *, loses_power: bool = False) -> SimDisk:
        """End as by `kill -9`, or by a power cut: nothing of it is done any more. Answers what is left of the disk."""
        self.runs, self.is_dead = False, True
        return self.disk.power_cut() if loses_power else self.disk.process_kill()

    def thread(self) -> "SlowRunner":
        """A thread for work on the disk."""
        return SlowRunner(self)

    def crashed(self, error: BaseException) -> None:
        """Something of it has failed; a fault, unless it is a refusal or the machine's end."""
        if not isinstance(error, DanubeError | MachineOffError):
            self._on_crash(error)

    def _ended(self, task: "asyncio.Task[Any]") -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            self.crashed(error)


class SlowRunner(SimRunner):
    """A thread of a machine, as slow as its disk."""

    def __init__(self, machine: Machine) -> None:
        super().__init__(LoopClock(), SystemRng(machine.chance.getrandbits(63)))
        self._machine = machine

    async def run(self, work: Callable[[], T]) -> T:
        self._longest_s = self._machine.disk_s
        return await super().run(work)
