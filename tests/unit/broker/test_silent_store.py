"""Calls of administration while an object store does not answer: ended with the reason, whatever they wait for."""

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import cast

import pytest

from danube.broker.services.call import Action, Call, Resource
from danube.broker.services.context import ServiceContext
from danube.broker.services.interceptors import services_of
from danube.broker.subscriptions.subscription import ReliableSubscription
from danube.broker.subscriptions.unread_times import UnreadTimes
from danube.broker.telemetry.metrics import RpcCounts
from danube.model.errors import DanubeError, StorageUnavailableError
from danube.model.limits.broker import ADMIN_STORE_LOOK_S, ADMIN_STORE_WAIT_S
from danube.model.plans.plan import Effect
from danube.rpc.carrier import Caller, UnaryCall, UnaryHandler
from danube.runtime.tasks import TaskScope, Wakeup
from danube.testing.simulated.clock import SimClock

SILENT = "the object store s3://bucket/ does not answer, for 4 s now"


@dataclass
class Asked:
    """A call that was made, and its answers."""

    caller: Caller = field(default_factory=lambda: Caller(address="memory"))
    answers: list[bytes | DanubeError] = field(default_factory=list)

    def reply(self, response: bytes) -> None:
        self.answers.append(response)

    def fail(self, error: DanubeError) -> None:
        self.answers.append(error)

    def on_cancel(self, callback: Callable[[], None]) -> None:
        del callback


class World:
    """A port with one call, whose handler waits for ever."""

    def __init__(self, tasks: TaskScope) -> None:
        self.clock = SimClock()
        self.reason: str | None = None
        self.waiting: list[UnaryCall] = []
        self.tasks = tasks

    def silence(self) -> str | None:
        return self.reason

    def port(self, effect: Effect = Effect.READ, *, is_admin: bool = True) -> UnaryHandler:
        def make(_: ServiceContext) -> UnaryHandler:
            return lambda _, call: self.waiting.append(call)

        call = Call(resource=Resource.TOPIC, action=Action.CONSUME, effect=effect, unary=make)
        parts = SimpleNamespace(
            clock=self.clock, tasks=self.tasks, silence=self.silence, closing=None, gate=None, counts=RpcCounts()
        )
        context = cast("ServiceContext", parts)
        (service,) = services_of({"Service": {"Call": call}}, context, is_admin=is_admin)
        return service.unary["Call"]


@pytest.fixture
async def tasks() -> AsyncIterator[TaskScope]:
    scope = TaskScope("test")
    yield scope
    await scope.close()


async def test_a_call_that_waits_for_a_store_which_does_not_answer_ends_with_the_reason(tasks: TaskScope) -> None:
    world, asked = World(tasks), Asked()
    assert world.port()(b"", asked) is None
    world.clock.advance(60)
    assert asked.answers == []
    world.reason = SILENT
    world.clock.advance(ADMIN_STORE_LOOK_S)
    (error,) = asked.answers
    assert isinstance(error, StorageUnavailableError)
    assert str(error).startswith(f"{SILENT}: try again once it does")
    assert "may still be done" not in str(error)
    world.waiting[0].reply(b"late")
    assert len(asked.answers) == 1


async def test_a_call_has_its_time_also_while_the_store_is_silent_and_its_answer_is_the_first(tasks: TaskScope) -> None:
    world, asked = World(tasks), Asked()
    world.reason = SILENT
    world.port()(b"", asked)
    world.clock.advance(ADMIN_STORE_WAIT_S - 0.1)
    world.waiting[0].reply(b"from memory")
    world.clock.advance(60)
    assert asked.answers == [b"from memory"]


async def test_a_change_that_waits_is_told_as_one_that_may_still_be_made(tasks: TaskScope) -> None:
    world, asked = World(tasks), Asked()
    world.reason = SILENT
    world.port(Effect.WRITE)(b"", asked)
    world.clock.advance(ADMIN_STORE_WAIT_S)
    assert "What was asked for may still be done" in str(asked.answers[0])


async def test_applications_wait_for_the_store_as_long_as_they_want_to(tasks: TaskScope) -> None:
    world, asked = World(tasks), Asked()
    world.reason = SILENT
    world.port(is_admin=False)(b"", asked)
    world.clock.advance(600)
    assert asked.answers == []


class Hanging:
    """A subscription whose read never ends."""

    def __init__(self) -> None:
        self.reads = 0

    async def read_unread_time(self) -> None:
        self.reads += 1
        await Wakeup().wait()


async def test_a_read_of_a_time_that_never_ends_is_left_and_none_begins_while_the_store_is_silent(
    tasks: TaskScope, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("danube.broker.subscriptions.unread_times.UNREAD_TIME_WAIT_S", 0.01)
    hanging, world = Hanging(), World(tasks)
    times = UnreadTimes(tasks, world.silence)
    subscription = cast("ReliableSubscription", hanging)
    assert not await times.read(subscription)
    world.reason = SILENT
    assert not await times.read(subscription)
    assert hanging.reads == 1
