"""The published `danube-client` wheel, unmodified, when its topic moves or is deleted and when its broker restarts."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Self

import pytest

from danube.broker.app import Broker
from danube.broker.config.settings import BrokerSettings
from danube.model.limits.broker import DRAIN_WAIT_S
from danube.model.topic import TopicName
from danube.rpc.grpc.carrier import GrpcCarrier
from danube.runtime.clock import SystemClock
from danube.testing.patience import LONG_S, PATIENCE_S
from danube.testing.peers.admin import AdminPeer
from danube.testing.processes.broker import BrokerProcess

pytestmark = [pytest.mark.cluster, pytest.mark.slow, pytest.mark.timeout(180)]

PROGRAM = Path(__file__).parent / "wheel" / "draining_program.py"
TOPIC = TopicName("default", "draining")
WAIT_S = PATIENCE_S
PIPE = asyncio.subprocess.PIPE


class Application:
    """The wheel's process."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    @classmethod
    @asynccontextmanager
    async def running(cls, python: Path, url: str, errors: Path) -> AsyncIterator[Self]:
        with errors.open("wb") as file:  # no pipe: the wheel writes a lot while its broker is away
            command = [str(python), "-I", str(PROGRAM), url, str(TOPIC)]
            process = await asyncio.create_subprocess_exec(*command, stdin=PIPE, stdout=PIPE, stderr=file)
        found = cls(process)
        try:
            assert await found._line() == "ready"
            yield found
        finally:
            process.kill()
            await process.wait()

    def tell(self, command: str) -> None:
        """Give a command and do not wait."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{command}\n".encode())

    async def answer(self) -> Any:
        """The answer to the command that was given first."""
        return json.loads(await self._line())

    async def ask(self, command: str) -> Any:
        """Both."""
        self.tell(command)
        return await self.answer()

    async def _line(self) -> str:
        assert self._process.stdout is not None
        async with asyncio.timeout(WAIT_S):
            return (await self._process.stdout.readline()).decode().strip()


def in_order(read: list[int], start: int) -> list[int]:
    """What was read from `start` on, each once, as it came first."""
    return list(dict.fromkeys(number for number in read if number >= start))


@pytest.fixture
async def served(tmp_path: Path) -> AsyncIterator[Broker]:
    """A broker in this process, for what no call can ask of a broker that stands alone."""
    values = {"data_dir": tmp_path / "data", "broker_addr": "127.0.0.1:0", "admin_addr": "127.0.0.1:0"}
    values |= {"ack_timeout_s": LONG_S}
    broker = await Broker.start(BrokerSettings.model_validate(values))
    try:
        yield broker
    finally:
        await broker.stop()


async def test_a_topic_moves_twice_under_its_clients_and_nothing_is_lost(
    served: Broker, wheel_python: Path, tmp_path: Path
) -> None:
    url = f"http://{served.addresses.broker}"
    async with Application.running(wheel_python, url, tmp_path / "errors") as application:
        assert await application.ask("send 20") == {"read": list(range(20)), "raised": 0}
        for start in (20, 320):
            application.tell("send 300")
            await served.moves.unload(TOPIC)
            await served.moves.open_again(TOPIC)
            seen = await application.answer()
            assert (in_order(seen["read"], start), seen["raised"]) == (list(range(start, start + 300)), 0)
        assert (await application.ask("send 1"))["read"][-1] == 620


async def test_a_restart_on_sigterm_is_lived_through(broker: BrokerProcess, wheel_python: Path, tmp_path: Path) -> None:
    async with Application.running(wheel_python, broker.endpoints.service_url, tmp_path / "errors") as application:
        for start in (0, 20):
            seen = await application.ask("send 20")
            assert in_order(seen["read"], start) == list(range(start, start + 20))
            assert await asyncio.to_thread(broker.terminate) == 0
            await asyncio.to_thread(broker.start)
        assert (await application.ask("send 1"))["read"][-1] == 40
    assert "Traceback" not in await asyncio.to_thread(broker.log)


async def test_clients_of_a_deleted_topic_come_to_a_clear_end(
    served: Broker, wheel_python: Path, tmp_path: Path
) -> None:
    channel = GrpcCarrier(SystemClock()).connect(served.addresses.admin)
    url = f"http://{served.addresses.broker}"
    async with Application.running(wheel_python, url, tmp_path / "errors") as application:
        assert (await application.ask("send 5"))["read"] == list(range(5))
        async with asyncio.timeout(DRAIN_WAIT_S):  # nobody is waited for
            await AdminPeer(channel).delete_topic(TOPIC)
        assert await application.ask("refused") == "INVALID_ARGUMENT"
        assert await application.ask("end") == {"ended": True, "failures": 0}
        assert await AdminPeer(channel).topics("default") == ()
    await channel.close()
