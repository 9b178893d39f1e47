"""The overview asks the cluster side by side, each thing once, and once for all tabs."""

import asyncio
from collections import Counter
from typing import Any

from danube.admin.target import PASSED_TOKEN
from danube.admin.web.shared_reads import shared_reads
from danube.model.errors import UnavailableError
from danube.model.limits.faces import WEB_SHARED_S
from danube.runtime.clock import SystemClock
from danube.testing.simulated.clock import SimClock
from tests.faces.memory_gateway import MemoryGateway
from tests.faces.seeded import seeded_gateway
from tests.unit.admin.web.site import site

ROUNDS_MAX = 6


class Rounds:
    """A gateway whose calls are answered together: the rounds of a page are its calls one after the other."""

    def __init__(self, gateway: MemoryGateway) -> None:
        self._gateway = gateway
        self._waiting: list[asyncio.Future[None]] = []
        self.asked: Counter[tuple[object, ...]] = Counter()
        self.rounds = 0

    def __getattr__(self, name: str) -> Any:
        call = getattr(self._gateway, name)
        if not asyncio.iscoroutinefunction(call):
            return call

        async def ask(*given: Any, **named: Any) -> Any:
            self.asked[name, *map(repr, given), repr(named)] += 1
            turn = asyncio.get_running_loop().create_future()
            self._waiting.append(turn)
            await turn
            return await call(*given, **named)

        return ask

    async def answer(self, *pages: asyncio.Task[Any]) -> None:
        """Answer all calls that wait, again and again until the pages are there."""
        while not all(page.done() for page in pages):
            for _ in range(100):
                await asyncio.sleep(0)
            turns, self._waiting = self._waiting, []
            self.rounds += bool(turns)
            for turn in turns:
                turn.set_result(None)


async def test_the_overview_takes_six_rounds_at_most_and_two_tabs_ask_nothing_twice() -> None:
    rounds = Rounds(seeded_gateway())
    async with site(gateway=rounds) as opened:  # type: ignore[arg-type]
        pages = [asyncio.create_task(opened.get("/")) for _ in range(2)]
        await rounds.answer(*pages)
    assert [page.result().status_code for page in pages] == [200, 200]
    assert rounds.rounds <= ROUNDS_MAX, rounds.rounds
    twice = {call for call, count in rounds.asked.items() if count > 1 and call[0] not in {"leader", "record"}}
    assert twice == set()


async def test_a_read_is_shared_for_a_while_by_one_caller_alone() -> None:
    rounds, clock = Rounds(seeded_gateway()), SimClock()
    shared = shared_reads(rounds, clock)

    async def ask(token: str | None) -> None:
        kept = PASSED_TOKEN.set(token)
        await shared.namespaces()
        PASSED_TOKEN.reset(kept)

    asked = [asyncio.create_task(ask(token)) for token in ("ada", "ada", "bob", None)]
    await rounds.answer(*asked)
    assert sum(rounds.asked.values()) == 3
    clock.advance(WEB_SHARED_S)
    again = asyncio.create_task(ask("ada"))
    await rounds.answer(again)
    assert sum(rounds.asked.values()) == 4


async def test_an_error_is_not_kept_and_nobody_waits_for_a_caller_who_went() -> None:
    class Failing:
        """Fails once."""

        asked = 0

        async def namespaces(self) -> list[str]:
            self.asked += 1
            await asyncio.sleep(0)
            if self.asked == 1:
                raise UnavailableError("try again")
            return ["default"]

    gateway = Failing()
    shared = shared_reads(gateway, SystemClock())  # type: ignore[arg-type]
    first, second = await asyncio.gather(shared.namespaces(), shared.namespaces(), return_exceptions=True)
    assert isinstance(first, UnavailableError)
    assert first is second
    assert await shared.namespaces() == ["default"]
    gateway.asked = 1
    shared = shared_reads(gateway, SystemClock())  # type: ignore[arg-type]
    going, waiting = (asyncio.create_task(shared.namespaces()) for _ in range(2))
    await asyncio.sleep(0)
    going.cancel()
    assert await waiting == ["default"]
