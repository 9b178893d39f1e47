"""An engine as the tests of dispatch drive it: time in hand, keys at hand, invariants checked after every event."""

import pytest

from danube.broker.dispatch.engine import DispatchEngine
from danube.broker.dispatch.events import DeadLetter, Event, Instruction, KeyRun, KeysRead, ReadKeys, SaveCursor, Send
from danube.broker.dispatch.redelivery import RedeliveryPolicy
from danube.model.subscription import Cursor, SubscriptionType

START = Cursor(0)


class Driven:
    """An engine, and what it said last."""

    def __init__(
        self,
        subscription_type: SubscriptionType,
        policy: RedeliveryPolicy,
        *,
        cursor: Cursor = START,
        durable_end: int = 0,
        keys: str = "",
    ) -> None:
        """The n-th letter of `keys`, repeated for ever, is the key of offset n."""
        self.engine = DispatchEngine(subscription_type, cursor, durable_end, policy, grace_s=5.0)
        self.now_s = 0.0
        self.keys = keys
        self.said: list[Instruction] = []

    def now(self, *events: Event) -> list[tuple[int, int, int]]:
        """Take events in; answers (consumer, offset, attempt) of each message that was sent, in order."""
        self.said = []
        for event in events:
            self._handle(event)
        sends = [each for each in self.said if isinstance(each, Send)]
        return [(send.consumer_id, offset, send.attempt) for send in sends for offset in range(send.start, send.end)]

    def at(self, now_s: float, *events: Event) -> list[tuple[int, int, int]]:
        self.now_s = now_s
        return self.now(*events)

    @property
    def dead_letters(self) -> list[DeadLetter]:
        """Asked for by the last events."""
        return [each for each in self.said if isinstance(each, DeadLetter)]

    @property
    def saved(self) -> list[Cursor]:
        """The cursors of the last events."""
        return [each.cursor for each in self.said if isinstance(each, SaveCursor)]

    def _handle(self, event: Event) -> None:
        said = self.engine.handle(event, self.now_s)
        self.engine.validate()
        self.said += said
        for wanted in said:
            if isinstance(wanted, ReadKeys):
                runs = [KeyRun(at, at + 1, self.keys[at % len(self.keys)]) for at in range(wanted.start, wanted.end)]
                self._handle(KeysRead(tuple(runs)))


@pytest.fixture
def driven() -> type[Driven]:
    """The class, so that test modules need not import a conftest."""
    return Driven
