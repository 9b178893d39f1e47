"""What dispatch by offsets should do, message by message: the model that the engine is held against."""

from dataclasses import dataclass, field

from danube.broker.dispatch.redelivery import RedeliveryPolicy, delay_s
from danube.model.policies import PoisonPolicy
from danube.model.ranges import OffsetRange, RangeSet
from danube.model.subscription import Cursor, FailedRange, SubscriptionType

LENIENT = RedeliveryPolicy(ack_timeout_s=10.0, base_delay_s=1.0, max_delay_s=6.0, max_redelivery_count=1_000)


@dataclass
class Message:
    """One message as the model sees it."""

    state: str = "new"
    """new, in flight, waiting, ready, blocked, letter or acknowledged."""
    attempt: int = 0
    failures: int = 0
    """Of deliveries; unlike `attempt` known after a restart."""
    is_recalled: bool = False
    """Whether it failed before a restart and was not sent since."""
    holder: int | None = None
    number: int = 0
    """Of its send, counted for all."""
    at_s: float = 0.0
    is_asked: bool = False
    """Whether its dead letter is under way."""


@dataclass
class Reader:
    """One consumer as the model sees it."""

    window: int
    quantum: int
    turn: int
    turn_left: int
    paused: bool = False
    front: int = 0
    """After the latest send that it answered."""
    answered_s: float = float("-inf")
    held: set[int] = field(default_factory=set)

    @property
    def has_room(self) -> bool:
        return not self.paused and len(self.held) < self.window


class Model:
    """What should happen, message by message and as simply as it can be said."""

    def __init__(self, subscription_type: SubscriptionType) -> None:
        self.type = subscription_type
        self.policy = LENIENT
        self.messages: list[Message] = []
        self.readers: dict[int, Reader] = {}
        self.taken_up = 0
        """Offsets below it were sent since the last restart, or acknowledged before it."""
        self.turns = 0
        self.sends = 0
        self.now_s = 0.0

    def next_reader(self) -> int | None:
        if self.type is not SubscriptionType.SHARED:
            first = next(iter(self.readers), None)
            return first if first is not None and self.readers[first].has_room else None
        able = [consumer_id for consumer_id, reader in self.readers.items() if reader.has_room]
        return min(able, key=lambda each: self.readers[each].turn, default=None)

    def expected_sends(self, now_s: float) -> list[tuple[int, int, int]]:
        """Who gets which offset as which attempt, until nothing is left or nobody has room."""
        sends = []
        while (offset := self.next_message()) is not None and (consumer_id := self.next_reader()) is not None:
            message, reader = self.messages[offset], self.readers[consumer_id]
            message.state, message.holder = "in flight", consumer_id
            message.attempt += 1
            self.sends += 1
            message.number = self.sends
            message.at_s = now_s + self.policy.ack_timeout_s
            reader.held.add(offset)
            self.taken_up = max(self.taken_up, offset + 1)
            self.count_turn(reader)
            if message.is_recalled and message.failures > self.policy.max_redelivery_count:
                self.let_go(offset)
                self.poison(offset)
            else:
                sends.append((consumer_id, offset, message.attempt))
            message.is_recalled = False
        self.skip_acknowledged()
        return sends

    def next_message(self) -> int | None:
        for state in ("ready",) if self.has_any("blocked") else ("ready", "new"):
            for offset, message in enumerate(self.messages):
                if message.state == state:
                    return offset
        return None

    def has_any(self, state: str) -> bool:
        return any(message.state == state for message in self.messages)

    def count_turn(self, reader: Reader) -> None:
        reader.turn_left -= 1
        if reader.turn_left == 0 or not reader.has_room:
            self.turns += 1
            reader.turn, reader.turn_left = self.turns, reader.quantum

    def skip_acknowledged(self) -> None:
        while self.taken_up < len(self.messages) and self.messages[self.taken_up].state == "acknowledged":
            self.taken_up += 1

    def attach(self, consumer_id: int, window: int, quantum: int) -> None:
        self.detach(consumer_id)
        self.turns += 1
        self.readers[consumer_id] = Reader(window, quantum, self.turns, quantum)

    def detach(self, consumer_id: int) -> None:
        reader = self.readers.pop(consumer_id, None)
        for offset in reader.held if reader else ():
            self.messages[offset].state, self.messages[offset].holder = "ready", None

    def lose(self, consumer_id: int, now_s: float) -> None:
        """What it had longest failed, and is held back from the second time on where others may have the rest."""
        reader = self.readers.get(consumer_id)
        if reader is not None and reader.held:
            oldest = min(reader.held, key=lambda each: self.messages[each].number)
            failures = self.messages[oldest].failures = self.messages[oldest].failures + 1
            if failures > self.policy.max_redelivery_count:
                self.let_go(oldest)
                self.poison(oldest)
            elif failures > 1 and self.type is SubscriptionType.SHARED:
                self.let_go(oldest)
                self.hold(oldest, now_s + delay_s(failures - 1, self.policy))
        self.detach(consumer_id)

    def hold(self, offset: int, until_s: float) -> None:
        self.messages[offset].state, self.messages[offset].at_s = "waiting", until_s

    def acknowledge(self, start: int, end: int) -> None:
        for offset in range(max(start, 0), min(end, self.taken_up)):
            self.finish(offset)

    def answered(self, offset: int) -> None:
        """Its holder got as far as this."""
        holder = self.messages[offset].holder
        if holder is not None:
            reader = self.readers[holder]
            reader.front, reader.answered_s = max(reader.front, self.messages[offset].number + 1), self.now_s

    def finish(self, offset: int) -> None:
        self.answered(offset)
        self.let_go(offset)
        self.messages[offset].state, self.messages[offset].is_asked = "acknowledged", False

    def skip(self, start: int, end: int) -> None:
        for offset in range(max(start, 0), min(end, len(self.messages))):
            self.finish(offset)
        if start <= self.taken_up < end:
            self.taken_up = min(end, len(self.messages))
        self.skip_acknowledged()

    def seek(self, position: int) -> None:
        position = max(0, min(position, len(self.messages)))
        for reader in self.readers.values():
            reader.held.clear()
        self.messages = [
            Message("acknowledged" if offset < position else "new") for offset in range(len(self.messages))
        ]
        self.taken_up = position

    def nack(self, offset: int, delay: float | None, now_s: float) -> None:
        if 0 <= offset < len(self.messages) and self.messages[offset].state == "in flight":
            self.answered(offset)
            self.fail(offset, delay, now_s)

    def fail(self, offset: int, delay: float | None, now_s: float) -> None:
        message = self.messages[offset]
        self.let_go(offset)
        message.failures += 1
        self.hold(offset, now_s + delay_s(message.failures, self.policy, delay))
        if message.failures > self.policy.max_redelivery_count:
            self.poison(offset)

    def poison(self, offset: int) -> None:
        if self.policy.poison is PoisonPolicy.DROP:
            self.finish(offset)
        else:
            self.messages[offset].state = "blocked" if self.policy.poison is PoisonPolicy.BLOCK else "letter"

    def judge_anew(self, offset: int) -> None:
        message = self.messages[offset]
        message.is_asked = False
        if message.failures > self.policy.max_redelivery_count:
            self.poison(offset)
        else:
            message.state = "ready"

    def let_go(self, offset: int) -> None:
        holder = self.messages[offset].holder
        if holder is not None:
            self.readers[holder].held.discard(offset)
        self.messages[offset].holder = None

    def pass_time(self, now_s: float) -> None:
        for offset, message in enumerate(self.messages):
            if message.state == "in flight" and message.at_s <= now_s:
                self.time_out(offset, now_s)
            if message.state == "waiting" and message.at_s <= now_s:
                message.state = "ready"

    def time_out(self, offset: int, now_s: float) -> None:
        """What is behind an answer counts from that."""
        message = self.messages[offset]
        assert message.holder is not None
        reader = self.readers[message.holder]
        message.at_s = reader.answered_s + self.policy.ack_timeout_s if message.number >= reader.front else now_s
        if message.at_s <= now_s:
            self.fail(offset, None, now_s)

    def next_due_s(self) -> float | None:
        return min((each.at_s for each in self.messages if each.state in {"in flight", "waiting"}), default=None)

    def cursor(self) -> Cursor:
        acknowledged = RangeSet()
        for offset, message in enumerate(self.messages):
            if message.state == "acknowledged":
                acknowledged.add(offset, offset + 1)
        spans = list(acknowledged)
        position = spans.pop(0).end if spans and spans[0].start == 0 else 0
        return Cursor(position, tuple(spans), self.failed())

    def failed(self) -> tuple[FailedRange, ...]:
        found: list[FailedRange] = []
        for offset, message in enumerate(self.messages):
            if not message.failures or message.state == "acknowledged":
                continue
            if found and (found[-1].end, found[-1].failures) == (offset, message.failures):
                found[-1] = found[-1]._replace(end=offset + 1)
            else:
                found.append(FailedRange(offset, offset + 1, message.failures))
        return tuple(found)

    def restart(self, cursor: Cursor) -> None:
        self.readers.clear()
        acknowledged = RangeSet([OffsetRange(0, cursor.position), *cursor.beyond])
        self.messages = [
            Message("acknowledged" if offset in acknowledged else "new") for offset in range(len(self.messages))
        ]
        for start, end, failures in cursor.failed:
            for message in self.messages[start:end]:
                message.failures, message.is_recalled = failures, True
        self.taken_up = 0
        self.skip_acknowledged()
