"""A Raft group of real processes: formed, killed, brought back, on ports and folders that they keep."""

import asyncio
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from danube.model.errors import DanubeError, PreconditionFailedError, UnavailableError
from danube.testing.patience import PATIENCE_S
from danube.testing.processes.free_ports import free_port
from lab.metadata.clusters import KEY_FILE
from lab.metadata.member import MEMBER_PROGRAM, MemberProcess

_POLL_S = 0.05


class RaftGroup:
    """Members by number. Those below `seeds` form the cluster, others have to be added. `write_secret` comes first."""

    def __init__(self, folder: Path, seeds: int, *, flags: Sequence[str] = ()) -> None:
        self.folder = folder  # with the folders and the logs of its members
        self._flags = list(flags)
        self._ports: dict[int, int] = {}
        self._founders = set(range(seeds))
        self._seeds = [self.address(number) for number in range(seeds)]
        self._secret = folder / KEY_FILE
        self._processes: dict[int, MemberProcess] = {}

    def __getitem__(self, number: int) -> MemberProcess:
        return self._processes[number]

    def address(self, number: int) -> str:
        if number not in self._ports:
            self._ports[number] = free_port()
        return f"127.0.0.1:{self._ports[number]}"

    def be_seed(self, number: int, others: Sequence[str]) -> None:
        """Have a member start with these for its seeds, and itself."""
        self._seeds = [*others, self.address(number)]
        self._founders.add(number)

    async def start(self, numbers: Iterable[int]) -> None:
        """Start these, and wait until all of them serve."""
        numbers = list(numbers)
        await self.launch(numbers)
        await asyncio.gather(*(self._processes[number].wait() for number in numbers))

    async def launch(self, numbers: Iterable[int]) -> None:
        """Start these, and wait for nothing."""
        for number in numbers:
            if number in self._processes:
                await self._processes[number].close()
            self._processes[number] = MemberProcess(self.command(number), self.folder / f"{number}.log")
            await self._processes[number].launch()

    async def kill(self, *numbers: int) -> None:
        """`kill -9` all of these, and wait until they are gone."""
        for number in numbers:
            self._processes[number].kill()
        for number in numbers:
            await self._processes[number].close()

    async def status(self, number: int) -> dict[str, Any]:
        status: dict[str, Any] = await self[number].call("status")
        return status

    async def look(self, number: int) -> dict[str, Any]:
        """The same, with the members as the leader sees them."""
        status: dict[str, Any] = await self[number].call("look")
        return status

    async def leader(self, *, but: int = -1, within_s: float = PATIENCE_S) -> int:
        """The number of the running member that most running members take for their leader. Raises TimeoutError.

        One that was outvoted takes itself for the leader until it hears of that.
        """
        async with asyncio.timeout(within_s):
            while True:
                asked = [number for number, process in self._processes.items() if process.is_running and number != but]
                told = {number: await self.status(number) for number in asked}
                followed = Counter(status["leader_id"] for status in told.values())
                for number, status in told.items():
                    if status["leader_id"] == status["node_id"] and 2 * followed[status["node_id"]] > len(told):
                        return number
                await asyncio.sleep(_POLL_S)

    async def until(
        self, number: int, holds: Callable[[dict[str, Any]], bool], within_s: float = PATIENCE_S
    ) -> dict[str, Any]:
        """The status of a member as soon as this holds of it. Raises TimeoutError."""
        deadline_s = time.monotonic() + within_s
        while not holds(status := await self.status(number)):
            if time.monotonic() > deadline_s:
                raise TimeoutError(f"member {number} says {status}")
            await asyncio.sleep(_POLL_S)
        return status

    async def added(self, asked: int, number: int) -> dict[str, Any]:
        """Have a member asked to add another one, as soon as that listens; answers it. Raises TimeoutError."""
        try:
            return await self._repeated(asked, "add", self.address(number), UnavailableError)
        except TimeoutError as error:
            raise TimeoutError(f"{error}; the log of member {number}:\n{self.log(number)[-2_000:]}") from error

    async def promoted(self, asked: int, node_id: int) -> dict[str, Any]:
        """Have a member asked to give one a vote, as soon as the leader has heard from it. Raises TimeoutError."""
        return await self._repeated(asked, "promote", node_id, PreconditionFailedError, UnavailableError)

    async def _repeated(
        self, asked: int, method: str, argument: str | int, *refusals: type[DanubeError]
    ) -> dict[str, Any]:
        """The answer of a member once it no longer refuses. Raises TimeoutError with its last refusal."""
        refused: DanubeError | None = None
        try:
            async with asyncio.timeout(PATIENCE_S):
                while True:
                    try:
                        answer: dict[str, Any] = await self[asked].call(method, argument)
                    except refusals as error:
                        refused = error
                        await asyncio.sleep(_POLL_S)
                    else:
                        return answer
        except TimeoutError:
            raise TimeoutError(f"{method} {argument}: member {asked} said {refused!r} at last") from None

    def log(self, number: int) -> str:
        """All that this member has logged."""
        return (self.folder / f"{number}.log").read_text(errors="replace")

    async def close(self) -> None:
        for process in self._processes.values():
            await process.close()

    def command(self, number: int) -> list[str]:
        seeds = [flag for seed in self._seeds for flag in ("--seed", seed)]
        return [
            *(sys.executable, "-m", MEMBER_PROGRAM, "raft"),
            *("--data-dir", str(self.folder / f"member-{number}"), "--bind", self.address(number)),
            *("--secret-file", str(self._secret), *self._flags),
            *(seeds if number in self._founders else ["--join"]),
        ]
