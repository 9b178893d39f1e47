"""Key-Shared dispatch keeps its promises against a model that knows each message and each key on its own.

The model says for each message who may have it and when; the engine decides the rest, and must leave nothing undone.
"""

from dataclasses import replace
from unittest.mock import patch

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from danube.broker.dispatch.engine import DispatchEngine
from danube.broker.dispatch.events import (
    Acknowledged,
    Appended,
    ConsumerAttached,
    ConsumerDetached,
    ConsumerPaused,
    ConsumerResumed,
    DeadLetter,
    DeadLettered,
    DeadLetterFailed,
    Event,
    KeyRun,
    KeysRead,
    Nacked,
    PolicyChanged,
    ReadKeys,
    RetryBlocked,
    SaveCursor,
    Seek,
    Send,
    SetTimer,
    SkipBlocked,
    SkipRange,
    TimerFired,
    WindowChanged,
)
from danube.broker.dispatch.in_flight import DeliveryState
from danube.broker.dispatch.redelivery import RedeliveryPolicy, delay_s
from danube.broker.dispatch.selection import key_shared
from danube.broker.dispatch.selection.key_ring import ring_hash
from danube.model.policies import PoisonPolicy
from danube.model.ranges import OffsetRange, RangeSet
from danube.model.subscription import Cursor, FailedRange, SubscriptionType

from .keyed_model import Member, Message, points, takes

LOOKAHEAD = 14
GRACE_S = 5.0
LENIENT = RedeliveryPolicy(ack_timeout_s=10.0, base_delay_s=1.0, max_delay_s=6.0, max_redelivery_count=1_000)
BLOCK = replace(LENIENT, max_redelivery_count=1)
DROP = replace(LENIENT, max_redelivery_count=2, poison=PoisonPolicy.DROP)
LETTER = replace(LENIENT, max_redelivery_count=0, poison=PoisonPolicy.DEAD_LETTER, dead_letter_topic="/default/dead")
POLICIES = st.sampled_from([LENIENT, LENIENT, BLOCK, DROP, LETTER])
CONSUMER_IDS = st.integers(1, 4)
FILTERS: st.SearchStrategy[tuple[str, ...]] = st.sampled_from([(), (), ("a", "b"), ("a*", "b", "c?"), ("?",)])
BACK = st.integers(0, 40)
WINDOWS = st.sampled_from([1, 2, 5, 30])
KEYS = st.text("abcdef", max_size=15)


class KeyedMachine(RuleBasedStateMachine):
    """Does the same to the engine and to the model, and judges every message that is sent or is not."""

    def __init__(self) -> None:
        super().__init__()
        self.patched = patch.object(key_shared, "KEY_SHARED_LOOKAHEAD", LOOKAHEAD)
        self.patched.start()
        self.now_s = 100.0
        self.timer_s: float | None = None
        self.policy = LENIENT
        self.messages: list[Message] = []
        self.members: dict[int, Member] = {}
        self.sent_end = 0
        """Offsets below it may have been taken up."""
        self.unclaimed = 0
        self.sends = 0
        self.wanted: ReadKeys | None = None
        self.are_keys_at_hand = True
        self.cursors = [Cursor(0)]
        self.engine = self.new_engine(Cursor(0))

    @initialize(keys=KEYS, filters=st.lists(FILTERS, max_size=3), window=WINDOWS, at_hand=st.booleans())
    def start_with_a_backlog(self, keys: str, filters: list[tuple[str, ...]], window: int, at_hand: bool) -> None:
        self.are_keys_at_hand = at_hand
        self.append(keys)
        for consumer_id, patterns in enumerate(filters, 1):
            self.attach(consumer_id, window, patterns)

    @rule(keys=KEYS)
    def append(self, keys: str) -> None:
        self.messages += [Message(key) for key in keys]
        self.handle(Appended(len(self.messages)))

    @rule(consumer_id=CONSUMER_IDS, window=WINDOWS, filters=FILTERS)
    def attach(self, consumer_id: int, window: int, filters: tuple[str, ...]) -> None:
        self.leave(consumer_id)
        member = self.members.get(consumer_id)
        if member is None or member.filters != filters:
            member = self.members[consumer_id] = Member(filters)
        member.window, member.is_attached, member.is_paused = window, True, False
        member.leaves_at_s, member.front, member.answered_s = float("inf"), 0, float("-inf")
        self.handle(ConsumerAttached(consumer_id, window, filters=filters))

    @rule(consumer_id=CONSUMER_IDS)
    def detach(self, consumer_id: int) -> None:
        self.leave(consumer_id)
        self.handle(ConsumerDetached(consumer_id))

    @rule(consumer_id=CONSUMER_IDS)
    def lose(self, consumer_id: int) -> None:
        """What it had longest failed, and is held back from the second time on."""
        held = [offset for offset, message in enumerate(self.messages) if message.holder == consumer_id]
        if held:
            oldest = min(held, key=lambda each: self.messages[each].number)
            message = self.messages[oldest]
            message.failures += 1
            if message.failures > self.policy.max_redelivery_count:
                message.holder = None
                self.poison(oldest)
            elif message.failures > 1:
                message.state, message.holder = "waiting", None
                message.at_s = self.now_s + delay_s(message.failures - 1, self.policy)
        self.leave(consumer_id)
        self.handle(ConsumerDetached(consumer_id, is_lost=True))

    @precondition(lambda self: self.attached())
    @rule(data=st.data())
    def pause_or_resume(self, data: st.DataObject) -> None:
        consumer_id = data.draw(st.sampled_from(self.attached()))
        member = self.members[consumer_id]
        member.is_paused = not member.is_paused
        self.handle(ConsumerPaused(consumer_id) if member.is_paused else ConsumerResumed(consumer_id))

    @precondition(lambda self: self.in_state("in flight"))
    @rule(data=st.data())
    def acknowledge_one_in_flight(self, data: st.DataObject) -> None:
        offset = data.draw(st.sampled_from(self.in_state("in flight")))
        self.acknowledge(offset, offset + 1)

    @rule(back=BACK, length=st.integers(0, 20))
    def acknowledge_anything(self, back: int, length: int) -> None:
        start = self.engine.next_offset + 5 - back
        self.acknowledge(start, start + length)

    @precondition(lambda self: self.in_state("in flight"))
    @rule(data=st.data(), delay=st.none() | st.sampled_from([0.0, 3.0]))
    def nack_one_in_flight(self, data: st.DataObject, delay: float | None) -> None:
        offset = data.draw(st.sampled_from(self.in_state("in flight")))
        self.answered(self.messages[offset])
        self.fail(offset, delay)
        self.handle(Nacked(offset, delay))

    @rule(seconds=st.sampled_from([0.0, 1.0, 4.0, 5.0, 11.0]))
    def time_passes(self, seconds: float) -> None:
        until_s = self.now_s + seconds
        while self.timer_s is not None and self.timer_s <= until_s:
            self.now_s = max(self.now_s, self.timer_s)
            self.fire_timer()
        self.now_s = until_s

    @precondition(lambda self: self.wanted)
    @rule(count=st.sampled_from([1, 3, 100]))
    def keys_come(self, count: int) -> None:
        assert self.wanted is not None
        start, end = self.wanted.start, min(self.wanted.end, self.wanted.start + count)
        self.wanted = None
        self.handle(KeysRead(tuple(KeyRun(at, at + 1, self.messages[at].key) for at in range(start, end))))

    @rule(policy=POLICIES)
    def policy_changes(self, policy: RedeliveryPolicy) -> None:
        self.policy = policy
        for offset, message in enumerate(self.messages):
            if message.state == "blocked" or (message.state == "letter" and not message.is_asked):
                self.judge_anew(offset)
        self.handle(PolicyChanged(policy))

    @rule(window=WINDOWS)
    def window_changes(self, window: int) -> None:
        for consumer_id in self.attached():
            self.members[consumer_id].window = window
        self.handle(WindowChanged(window))

    @precondition(lambda self: self.in_state("blocked"))
    @rule(retried=st.booleans())
    def operator_deals_with_blocked_messages(self, retried: bool) -> None:
        for offset in self.in_state("blocked"):
            self.messages[offset].state = "open" if retried else "done"
        self.handle(RetryBlocked() if retried else SkipBlocked())

    @precondition(lambda self: self.in_state("letter"))
    @rule(data=st.data(), failed=st.booleans())
    def dead_letter_is_answered(self, data: st.DataObject, failed: bool) -> None:
        self.answer(data.draw(st.sampled_from(self.in_state("letter"))), failed=failed)

    @rule(back=BACK)
    def operator_seeks(self, back: int) -> None:
        position = max(0, min(self.engine.next_offset + 5 - back, len(self.messages)))
        self.start_over(Cursor(position))
        self.handle(Seek(position))

    @rule(back=BACK, length=st.integers(0, 8))
    def operator_skips(self, back: int, length: int) -> None:
        start = max(0, self.engine.next_offset + 10 - back)
        end = min(start + length, len(self.messages))
        for offset in range(start, end):
            self.finish(offset)
        self.handle(SkipRange(start, start + length))

    @rule(lost=st.sampled_from([0, 0, 1, 5]))
    def broker_restarts(self, lost: int) -> None:
        del self.cursors[max(1, len(self.cursors) - lost) :]
        self.members.clear()
        self.start_over(self.cursors[-1])
        self.unclaimed = 0
        self.timer_s = None
        self.engine = self.new_engine(self.cursors[-1])

    @invariant()
    def engine_is_sound(self) -> None:
        self.engine.validate()

    @invariant()
    def engine_knows_what_the_model_knows(self) -> None:
        assert self.engine.in_flight == len(self.in_state("in flight"))
        assert self.engine.waiting == len(self.in_state("waiting"))
        assert sum(end - start for start, end in self.engine.blocked) == len(self.in_state("blocked"))
        assert self.engine.dead_letters == len(self.in_state("letter"))
        assert self.engine.lag == len(self.messages) - len(self.in_state("done"))
        assert self.engine.unclaimed == self.unclaimed
        assert self.engine.cursor == self.cursors[-1] == self.cursor()
        assert self.engine.next_offset <= max(self.engine.position + LOOKAHEAD, self.cursor_end())

    @invariant()
    def nothing_that_can_be_sent_is_left(self) -> None:
        """Fairness: an open message whose turn it is, and whose consumer has room, is with it."""
        taken_up = self.engine.next_offset
        heads: dict[str, int] = {}
        for offset, message in enumerate(self.messages):
            if message.state != "done":
                heads.setdefault(message.key, offset)
        for offset in heads.values():
            if self.messages[offset].state == "open" and offset < taken_up and self.members:
                consumer_id = self.owner(offset)
                assert consumer_id is not None
                assert not self.has_room(consumer_id)
        can_take_up = taken_up < min(len(self.messages), self.engine.position + LOOKAHEAD)
        assert not (can_take_up and self.wanted is None and any(map(self.has_room, self.members)))

    @invariant()
    def timer_is_early_enough(self) -> None:
        dues = [each.at_s for each in self.messages if each.state in {"in flight", "waiting"}]
        dues += [member.leaves_at_s for member in self.members.values() if not member.is_attached]
        assert not dues or (self.timer_s is not None and self.timer_s <= min(dues))

    def teardown(self) -> None:
        """Whatever happened before, a consumer that acknowledges gets everything in the end, key by key in order."""
        self.are_keys_at_hand = True
        for consumer_id in list(self.members):
            self.detach(consumer_id)
        self.attach(9, 7, ())
        for _ in range(3 * len(self.messages) + 10):
            if self.wanted is not None:
                self.keys_come(100)
            for offset in self.in_state("blocked"):
                self.messages[offset].state = "open"
            self.handle(RetryBlocked())
            for offset in self.in_state("letter"):
                self.answer(offset, failed=False)
            for offset in self.in_state("in flight"):
                self.acknowledge(offset, offset + 1)
            if not self.engine.lag:
                break
            self.time_passes(11.0)
        self.patched.stop()
        assert self.cursors[-1] == Cursor(len(self.messages))

    def new_engine(self, cursor: Cursor) -> DispatchEngine:
        end = len(self.messages)
        return DispatchEngine(SubscriptionType.KEY_SHARED, cursor, end, self.policy, grace_s=GRACE_S)

    def owner(self, offset: int) -> int | None:
        """Who may have this message now."""
        message = self.messages[offset]
        for consumer_id, member in self.members.items():
            if member is message.keeper:
                return consumer_id
        hashed = ring_hash(message.key)
        takers = [each for each, member in self.members.items() if takes(member.filters, message.key)]
        return min(((point < hashed, point, each) for each in takers for point in points(each)), default=(0, 0, None))[
            2
        ]

    def has_room(self, consumer_id: int) -> bool:
        member = self.members[consumer_id]
        held = sum(message.holder == consumer_id for message in self.messages)
        return member.is_attached and not member.is_paused and held < member.window

    def attached(self) -> list[int]:
        return [consumer_id for consumer_id, member in self.members.items() if member.is_attached]

    def in_state(self, state: str) -> list[int]:
        return [offset for offset, message in enumerate(self.messages) if message.state == state]

    def leave(self, consumer_id: int) -> None:
        member = self.members.get(consumer_id)
        if member is None or not member.is_attached:
            return
        member.is_attached, member.leaves_at_s = False, self.now_s + GRACE_S
        for message in self.messages:
            if message.holder == consumer_id:
                message.state, message.holder, message.keeper = "open", None, member

    def acknowledge(self, start: int, end: int) -> None:
        for offset in range(max(start, 0), min(end, len(self.messages))):
            if self.messages[offset].attempt:
                self.finish(offset)
        self.handle(Acknowledged(start, end))

    def finish(self, offset: int) -> None:
        message = self.messages[offset]
        self.answered(message)
        message.state, message.holder, message.is_asked = "done", None, False

    def answered(self, message: Message) -> None:
        """Its holder got as far as this."""
        if message.holder is not None:
            member = self.members[message.holder]
            member.front, member.answered_s = max(member.front, message.number + 1), self.now_s

    def fail(self, offset: int, delay: float | None) -> None:
        message = self.messages[offset]
        message.holder = None
        message.failures += 1
        message.state, message.at_s = "waiting", self.now_s + delay_s(message.failures, self.policy, delay)
        if message.failures > self.policy.max_redelivery_count:
            self.poison(offset)

    def poison(self, offset: int) -> None:
        if self.policy.poison is PoisonPolicy.DROP:
            self.finish(offset)
        else:
            self.messages[offset].state = "blocked" if self.policy.poison is PoisonPolicy.BLOCK else "letter"

    def judge_anew(self, offset: int) -> None:
        self.messages[offset].is_asked = False
        if self.messages[offset].failures > self.policy.max_redelivery_count:
            self.poison(offset)
        else:
            self.messages[offset].state = "open"

    def answer(self, offset: int, *, failed: bool) -> None:
        message = self.messages[offset]
        if message.is_asked and not failed:
            self.finish(offset)
        elif message.is_asked:
            message.is_asked = False
            if self.policy.poison is not PoisonPolicy.DEAD_LETTER:
                self.judge_anew(offset)
        self.handle(DeadLetterFailed(offset) if failed else DeadLettered(offset))

    def fire_timer(self) -> None:
        self.timer_s = None
        for offset, message in enumerate(self.messages):
            if message.state == "in flight" and message.at_s <= self.now_s:
                assert message.holder is not None
                member, timeout_s = self.members[message.holder], self.policy.ack_timeout_s
                message.at_s = member.answered_s + timeout_s if message.number >= member.front else self.now_s
                if message.at_s <= self.now_s:
                    self.fail(offset, None)
            if message.state == "waiting" and message.at_s <= self.now_s:
                message.state = "open"
        for consumer_id in [each for each, member in self.members.items() if member.leaves_at_s <= self.now_s]:
            del self.members[consumer_id]
        self.handle(TimerFired())

    def start_over(self, cursor: Cursor) -> None:
        acknowledged = RangeSet([OffsetRange(0, cursor.position), *cursor.beyond])
        self.messages = [
            Message(message.key, "done" if offset in acknowledged else "open")
            for offset, message in enumerate(self.messages)
        ]
        for start, end, failures in cursor.failed:
            for message in self.messages[start:end]:
                message.failures, message.is_recalled = failures, True
        self.wanted = None

    def cursor(self) -> Cursor:
        done = RangeSet([OffsetRange(offset, offset + 1) for offset in self.in_state("done")])
        spans = list(done)
        position = spans.pop(0).end if spans and spans[0].start == 0 else 0
        return Cursor(position, tuple(spans), self.failed())

    def failed(self) -> tuple[FailedRange, ...]:
        found: list[FailedRange] = []
        for offset, message in enumerate(self.messages):
            if not message.failures or message.state == "done":
                continue
            if found and (found[-1].end, found[-1].failures) == (offset, message.failures):
                found[-1] = found[-1]._replace(end=offset + 1)
            else:
                found.append(FailedRange(offset, offset + 1, message.failures))
        return tuple(found)

    def cursor_end(self) -> int:
        """What is acknowledged already is passed without being taken up."""
        cursor = self.cursor()
        return max([cursor.position, *(end for _, end in cursor.beyond)])

    def handle(self, event: Event) -> None:
        instructions = self.engine.handle(event, self.now_s)
        self.withheld()
        for instruction in instructions:
            match instruction:
                case Send():
                    self.sent(instruction)
                case SaveCursor():
                    self.saved(instruction.cursor)
                case SetTimer():
                    self.timer_s = instruction.at_s
                case DeadLetter():
                    message = self.messages[instruction.offset]
                    assert (message.state, message.is_asked) == ("letter", False)
                    message.is_asked = True
                case ReadKeys():
                    assert instruction.start == self.engine.next_offset
                    self.wanted = instruction
        if self.wanted is not None and self.are_keys_at_hand:
            self.keys_come(100)

    def sent(self, send: Send) -> None:
        """Each message goes to who has its key, when all before it of that key are done with."""
        for offset in range(send.start, send.end):
            message = self.messages[offset]
            assert message.state == "open"
            assert not (message.is_recalled and message.failures > self.policy.max_redelivery_count)
            message.is_recalled = False
            assert send.attempt == message.attempt + 1
            assert all(each.state == "done" for each in self.messages[:offset] if each.key == message.key)
            assert self.owner(offset) == send.consumer_id
            assert self.has_room(send.consumer_id)
            message.state, message.attempt, message.holder = "in flight", send.attempt, send.consumer_id
            self.sends += 1
            message.number = self.sends
            message.keeper, message.at_s = None, self.now_s + self.policy.ack_timeout_s

    def withheld(self) -> None:
        """What failed too often before a restart is not sent again, when its turn comes."""
        waiting = RangeSet([OffsetRange(self.engine.position, self.engine.next_offset)])
        for done in self.engine.cursor.beyond:
            waiting.remove(*done)
        for exhausted in self.engine._deliveries.spans(DeliveryState.EXHAUSTED):
            waiting.remove(*exhausted)
        for offset, message in enumerate(self.messages[: self.engine.next_offset]):
            is_exhausted = message.is_recalled and message.failures > self.policy.max_redelivery_count
            if is_exhausted and message.state == "open" and offset not in waiting and self.owner(offset) is not None:
                assert all(each.state == "done" for each in self.messages[:offset] if each.key == message.key)
                self.poison(offset)
                message.is_recalled = False

    def saved(self, cursor: Cursor) -> None:
        """What is acknowledged and was not by us was passed over, because nobody takes its key."""
        acknowledged = RangeSet([OffsetRange(0, cursor.position), *cursor.beyond])
        for offset in range(len(self.messages)):
            if offset in acknowledged and self.messages[offset].state != "done":
                assert self.messages[offset].state == "open"
                assert self.members
                assert self.owner(offset) is None
                self.messages[offset].state = "done"
                self.unclaimed += 1
        self.cursors.append(cursor)


TestKeyShared = KeyedMachine.TestCase
