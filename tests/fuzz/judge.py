"""A broker under hostile calls, with a well-behaved producer and consumer beside them, and what is held against it."""

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from danube.model.errors import AcknowledgeError, CancelledError, DanubeError
from danube.model.topic import DispatchStrategy
from danube.rpc.carrier import Channel, ClientStream
from danube.testing import patience
from danube.testing.in_process_broker import running_broker
from danube.testing.peers.admin import AdminPeer
from danube.testing.peers.client import Inbox, Peer
from danube.wire.status import StatusCode, status_of
from tests.fuzz.calls import Call, Ending
from tests.fuzz.vocabulary import CALM, MEMBERS, NON_RELIABLE, SUBSCRIPTIONS, TOPICS

ROUNDS = int(os.environ.get("FUZZ_ROUNDS", "1000"))
"""Inputs to judge; `make fuzz ROUNDS=100000` sets it."""
ANSWER_TIMEOUT_S = patience.PATIENCE_S
PATIENCE_S = 1.0
"""For the good answer to a call that may have none."""
STAY_S = 0.02
"""A stream that the peer leaves open is listened to for this long."""

_ALLOWED = {
    StatusCode.INVALID_ARGUMENT,
    StatusCode.NOT_FOUND,
    StatusCode.ALREADY_EXISTS,
    StatusCode.FAILED_PRECONDITION,
    StatusCode.PERMISSION_DENIED,
    StatusCode.UNAVAILABLE,
    StatusCode.RESOURCE_EXHAUSTED,
    StatusCode.UNIMPLEMENTED,
}
_NOT_OF_SENDS = {StatusCode.NOT_FOUND, StatusCode.RESOURCE_EXHAUSTED}
"""A send that fails so is raised to the application, or repeated for ever, by official clients."""


class LogWatch(logging.Handler):
    """Keeps every record that tells of a failure nobody expected."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.failures: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info or record.levelno >= logging.ERROR:
            self.failures.append(logging.Formatter().format(record))


@dataclass(slots=True)
class Judge:
    """Makes calls, and judges each answer and the broker's state after it."""

    channel: Channel
    admin: AdminPeer
    log: LogWatch
    calm_id: int
    calm: Inbox
    sent: int = 0
    verdicts: list[str] = field(default_factory=list)
    answered: dict[str, int] = field(default_factory=dict)
    """Calls by their path and how they ended."""

    async def try_all(self, calls: Sequence[Call]) -> None:
        """Make the calls at one time. Raises AssertionError with what the broker did wrong."""
        await asyncio.gather(*(self._try(call) for call in calls))
        await self.check_neighbour()
        assert not self.verdicts, "\n".join(self.verdicts)
        assert not self.log.failures, "\n".join(self.log.failures)

    async def check_neighbour(self) -> None:
        """The well-behaved producer's next message is taken, and the consumer beside it gets just that one."""
        peer, payload = Peer(self.channel, timeout_s=ANSWER_TIMEOUT_S), b"calm-%d" % self.sent
        await peer.send(CALM, self.calm_id, payload, producer="calm")
        async with asyncio.timeout(ANSWER_TIMEOUT_S):
            message = await self.calm.next()
        assert (message.payload, message.offset) == (payload, self.sent)
        await peer.acknowledge(CALM, message.offset, "calm")
        self.sent += 1

    async def takes(self, call: Call, is_good: Callable[[bytes], bool]) -> bool:
        """Make the call; answers whether the broker says what a good one is answered."""
        try:
            async with asyncio.timeout(PATIENCE_S):
                if not call.is_stream:
                    return is_good(await self.channel.call(call.path, call.messages[0]))
                return await self._has_answer(call, is_good)
        except (DanubeError, TimeoutError):
            return False

    async def _has_answer(self, call: Call, is_good: Callable[[bytes], bool]) -> bool:
        stream = self.channel.stream(call.path)
        try:
            for message in call.messages:
                await stream.send(message)
            if call.ending is Ending.HALF_CLOSE:  # a consumer leaves by it, whether it had an answer or not
                await stream.half_close()
            while (answer := await stream.receive()) is not None:
                if is_good(answer):
                    return True
            return False
        finally:
            stream.cancel()

    async def _try(self, call: Call) -> None:
        try:
            async with asyncio.timeout(ANSWER_TIMEOUT_S):
                await (self._stream(call) if call.is_stream else self._unary(call))
            ended = "OK"
        except TimeoutError:
            ended = "no answer"
            self.verdicts.append(f"{call.path} was never answered: {call}")
        except DanubeError as error:
            ended = status_of(error).code.name
            if not is_right(call, error):
                self.verdicts.append(f"{call.path} was answered {error!r} ({ended}): {call}")
        key = f"{call.path} {ended}"
        self.answered[key] = self.answered.get(key, 0) + 1

    async def _unary(self, call: Call) -> None:
        await self.channel.call(call.path, call.messages[0])

    async def _stream(self, call: Call) -> None:
        stream = self.channel.stream(call.path)
        try:
            for message in call.messages:
                await stream.send(message)
            if call.ending is Ending.HALF_CLOSE:
                await stream.half_close()
            if call.ending is not Ending.LEAVE:
                await _listen(stream)
        finally:
            stream.cancel()


async def _listen(stream: ClientStream) -> None:
    try:
        async with asyncio.timeout(STAY_S):
            while await stream.receive() is not None:
                pass
    except TimeoutError:
        return


def is_right(call: Call, error: DanubeError) -> bool:
    """Whether this is an answer that official clients take as it is meant."""
    if isinstance(error, AcknowledgeError):
        return call.path.endswith(("/Ack", "/Nack"))
    code = status_of(error).code
    if call.path.endswith("/SendMessage") and code in _NOT_OF_SENDS:
        return False
    if code is StatusCode.UNAUTHENTICATED and call.path.endswith("/Authenticate"):
        return True
    return code in _ALLOWED or (isinstance(error, CancelledError) and call.ending is Ending.LEAVE)


async def prepare(peer: Peer) -> tuple[int, Inbox]:
    """Make the topics and members that requests name, and the neighbours. Answers the calm producer and consumer."""
    for topic in TOPICS:
        strategy = DispatchStrategy.NON_RELIABLE if topic == NON_RELIABLE else DispatchStrategy.RELIABLE
        for name in MEMBERS:
            await peer.create_producer(topic, name, strategy)
            for other in MEMBERS:
                await peer.subscribe(topic, name, other, SUBSCRIPTIONS[name])
    calm_id = await peer.create_producer(CALM, "calm")
    return calm_id, await peer.receive(await peer.subscribe(CALM, "calm", "calm"))


@asynccontextmanager
async def judged_broker(data_dir: Path) -> AsyncIterator[Judge]:
    """A broker in this process and a judge of it."""
    log = LogWatch()
    root = logging.getLogger()  # of asyncio too: it tells of callbacks that failed
    root.addHandler(log)
    try:
        async with running_broker(data_dir) as cell:
            channel = cell.carrier.connect(cell.broker.addresses.broker)
            judge = Judge(channel, cell.admin, log, *await prepare(cell.client))
            yield judge
            judge.calm.close()
            await channel.close()
    finally:
        root.removeHandler(log)
