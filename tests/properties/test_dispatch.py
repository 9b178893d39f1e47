"""The dispatch engine agrees with a model that knows each message on its own, whatever happens in whatever order."""

from dataclasses import replace
from itertools import pairwise

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
    Nacked,
    PolicyChanged,
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
from danube.broker.dispatch.redelivery import RedeliveryPolicy
from danube.model.limits.broker import DEAD_LETTERS_AT_ONCE_MAX
from danube.model.policies import BackoffStrategy, PoisonPolicy
from danube.model.subscription import Cursor, SubscriptionType
from tests.properties.dispatch_model import LENIENT, Message, Model

BLOCK = replace(LENIENT, max_redelivery_count=1)
DROP = replace(LENIENT, max_redelivery_count=2, poison=PoisonPolicy.DROP, backoff=BackoffStrategy.FIXED)
LETTER = replace(LENIENT, max_redelivery_count=0, poison=PoisonPolicy.DEAD_LETTER, dead_letter_topic="/default/dead")
POLICIES = st.sampled_from([LENIENT, LENIENT, BLOCK, DROP, LETTER])
CONSUMER_IDS = st.integers(1, 4)
BACK = st.integers(0, 40)
QUANTA = st.sampled_from([1, 1, 3])
WINDOWS = st.sampled_from([1, 2, 5, 30])


class DispatchMachine(RuleBasedStateMachine):
    """Does the same to the engine and to the model, and compares what they say."""

    subscription_type: SubscriptionType

    def __init__(self) -> None:
        super().__init__()
        self.now_s = 100.0
        self.timer_s: float | None = None
        self.cursors = [Cursor(0)]
        """As they were saved; a crash may take the last ones away."""
        self.model = Model(self.subscription_type)
        self.engine = DispatchEngine(self.subscription_type, self.cursors[-1], 0, LENIENT)

    @initialize(count=st.integers(0, 30), windows=st.lists(WINDOWS, max_size=3), quantum=QUANTA, policy=POLICIES)
    def start_with_a_backlog(self, count: int, windows: list[int], quantum: int, policy: RedeliveryPolicy) -> None:
        self.policy_changes(policy)
        self.append(count)
        for consumer_id, window in enumerate(windows, 1):
            self.attach(consumer_id, window, quantum)

    @rule(count=st.integers(0, 15))
    def append(self, count: int) -> None:
        self.model.messages.extend(Message() for _ in range(count))
        self.model.skip_acknowledged()
        self.handle(Appended(len(self.model.messages)))

    @rule(consumer_id=CONSUMER_IDS, window=WINDOWS, quantum=QUANTA)
    def attach(self, consumer_id: int, window: int, quantum: int) -> None:
        self.model.attach(consumer_id, window, quantum)
        self.handle(ConsumerAttached(consumer_id, window, quantum))

    @rule(consumer_id=CONSUMER_IDS)
    def detach(self, consumer_id: int) -> None:
        self.model.detach(consumer_id)
        self.handle(ConsumerDetached(consumer_id))

    @rule(consumer_id=CONSUMER_IDS)
    def lose(self, consumer_id: int) -> None:
        self.model.lose(consumer_id, self.now_s)
        self.handle(ConsumerDetached(consumer_id, is_lost=True))

    @precondition(lambda self: self.model.readers)
    @rule(data=st.data())
    def pause_or_resume(self, data: st.DataObject) -> None:
        consumer_id = data.draw(st.sampled_from(sorted(self.model.readers)))
        reader = self.model.readers[consumer_id]
        reader.paused = not reader.paused
        self.handle(ConsumerPaused(consumer_id) if reader.paused else ConsumerResumed(consumer_id))

    @precondition(lambda self: self.in_flight())
    @rule(data=st.data())
    def acknowledge_one_in_flight(self, data: st.DataObject) -> None:
        offset = data.draw(st.sampled_from(self.in_flight()))
        self.acknowledge(offset, offset + 1)

    @rule(back=BACK, length=st.integers(0, 12))
    def acknowledge_anything(self, back: int, length: int) -> None:
        start = self.model.taken_up + 5 - back
        self.acknowledge(start, start + length)

    @precondition(lambda self: self.in_flight())
    @rule(data=st.data(), delay=st.none() | st.sampled_from([0.0, 3.0, 100.0]))
    def nack_one_in_flight(self, data: st.DataObject, delay: float | None) -> None:
        self.nack(data.draw(st.sampled_from(self.in_flight())), delay)

    @rule(back=BACK)
    def nack_anything(self, back: int) -> None:
        self.nack(self.model.taken_up + 5 - back, None)

    @rule(seconds=st.sampled_from([0.0, 0.25, 1.0, 4.0, 11.0]))
    def time_passes(self, seconds: float) -> None:
        until_s = self.now_s + seconds
        while self.timer_s is not None and self.timer_s <= until_s:
            self.now_s = self.model.now_s = max(self.now_s, self.timer_s)
            self.fire_timer()
        self.now_s = self.model.now_s = until_s

    @rule(policy=POLICIES)
    def policy_changes(self, policy: RedeliveryPolicy) -> None:
        self.model.policy = policy
        for offset, message in enumerate(self.model.messages):
            if message.state == "blocked" or (message.state == "letter" and not message.is_asked):
                self.model.judge_anew(offset)
        self.handle(PolicyChanged(policy))

    @rule(window=WINDOWS)
    def window_changes(self, window: int) -> None:
        for reader in self.model.readers.values():
            reader.window = window
        self.handle(WindowChanged(window))

    @precondition(lambda self: self.in_state("blocked"))
    @rule(data=st.data(), retried=st.booleans(), everything=st.booleans())
    def operator_deals_with_blocked_messages(self, data: st.DataObject, retried: bool, everything: bool) -> None:
        blocked = self.in_state("blocked")
        offset = None if everything else data.draw(st.sampled_from(blocked))
        for each in blocked if offset is None else [offset]:
            if retried:
                self.model.messages[each].state = "ready"
            else:
                self.model.finish(each)
        self.handle(RetryBlocked(offset) if retried else SkipBlocked(offset))

    @precondition(lambda self: self.in_state("letter"))
    @rule(data=st.data(), failed=st.booleans())
    def dead_letter_is_answered(self, data: st.DataObject, failed: bool) -> None:
        self.answer(data.draw(st.sampled_from(self.in_state("letter"))), failed=failed)

    @rule(back=BACK)
    def operator_seeks(self, back: int) -> None:
        position = self.model.taken_up + 5 - back
        self.model.seek(position)
        self.handle(Seek(position))

    @rule(back=BACK, length=st.integers(0, 12))
    def operator_skips(self, back: int, length: int) -> None:
        start = self.model.taken_up + 15 - back
        self.model.skip(start, start + length)
        self.handle(SkipRange(start, start + length))

    @rule()
    def timer_fires_for_nothing(self) -> None:
        self.fire_timer()

    @rule(lost=st.sampled_from([0, 0, 1, 5]))
    def broker_restarts(self, lost: int) -> None:
        del self.cursors[max(1, len(self.cursors) - lost) :]
        self.engine = DispatchEngine(
            self.subscription_type, self.cursors[-1], len(self.model.messages), self.model.policy
        )
        self.timer_s = None
        self.model.restart(self.cursors[-1])

    @invariant()
    def engine_is_sound(self) -> None:
        self.engine.validate()

    @invariant()
    def engine_knows_what_the_model_knows(self) -> None:
        states = [message.state for message in self.model.messages]
        assert self.engine.in_flight == states.count("in flight")
        assert self.engine.waiting == states.count("waiting")
        assert self.engine.ready == states.count("ready")
        assert sum(end - start for start, end in self.engine.blocked) == states.count("blocked")
        assert self.engine.dead_letters == states.count("letter")
        assert self.engine.lag == len(states) - states.count("acknowledged")
        assert self.engine.next_offset == self.model.taken_up
        assert self.engine.cursor == self.cursors[-1] == self.model.cursor()
        assert [each.consumer_id for each in self.engine.consumers] == list(self.model.readers)

    @invariant()
    def timer_is_early_enough(self) -> None:
        due_s = self.model.next_due_s()
        assert due_s is None or (self.timer_s is not None and self.timer_s <= due_s)

    def teardown(self) -> None:
        """Whatever happened before, consumers that acknowledge get everything in the end."""
        for consumer_id in list(self.model.readers):
            self.detach(consumer_id)
        self.attach(1, 7, 1)
        for _ in range(2 * len(self.model.messages) + 2):
            self.retry_and_answer_everything()
            for offset in self.in_flight():
                self.acknowledge(offset, offset + 1)
            self.time_passes(11.0)
        assert self.engine.lag == 0
        assert self.cursors[-1] == Cursor(len(self.model.messages))

    def acknowledge(self, start: int, end: int) -> None:
        self.model.now_s = self.now_s
        self.model.acknowledge(start, end)
        self.handle(Acknowledged(start, end))

    def nack(self, offset: int, delay: float | None) -> None:
        self.model.now_s = self.now_s
        self.model.nack(offset, delay, self.now_s)
        self.handle(Nacked(offset, delay))

    def retry_and_answer_everything(self) -> None:
        for offset in self.in_state("blocked"):
            self.model.messages[offset].state = "ready"
        self.handle(RetryBlocked())
        for offset in self.in_state("letter"):
            self.answer(offset, failed=False)

    def answer(self, offset: int, *, failed: bool) -> None:
        """An answer to a letter that is not under way does nothing."""
        message = self.model.messages[offset]
        if message.is_asked and not failed:
            self.model.finish(offset)
        elif message.is_asked:
            message.is_asked = False
            if self.model.policy.poison is not PoisonPolicy.DEAD_LETTER:
                self.model.judge_anew(offset)
        self.handle(DeadLetterFailed(offset) if failed else DeadLettered(offset))

    def fire_timer(self) -> None:
        self.timer_s = None
        self.model.pass_time(self.now_s)
        self.handle(TimerFired())

    def in_flight(self) -> list[int]:
        return self.in_state("in flight")

    def in_state(self, state: str) -> list[int]:
        return [offset for offset, message in enumerate(self.model.messages) if message.state == state]

    def handle(self, event: Event) -> None:
        instructions = self.engine.handle(event, self.now_s)
        sends = [each for each in instructions if isinstance(each, Send)]
        saves = [each.cursor for each in instructions if isinstance(each, SaveCursor)]
        timers = [each.at_s for each in instructions if isinstance(each, SetTimer)]
        dead_letters = [each for each in instructions if isinstance(each, DeadLetter)]
        assert instructions == [*sends, *dead_letters, *map(SaveCursor, saves), *map(SetTimer, timers)]
        assert all(send.start < send.end for send in sends)
        assert one_by_one(sends) == self.model.expected_sends(self.now_s)
        assert not any(are_one(before, after) for before, after in pairwise(sends))
        assert len(saves) <= 1
        assert saves != self.cursors[-1:] or isinstance(event, Seek | SkipRange)
        self.cursors += saves
        self.check_dead_letters(dead_letters)
        self.set_timer(timers)

    def check_dead_letters(self, dead_letters: list[DeadLetter]) -> None:
        for dead_letter in dead_letters:
            message = self.model.messages[dead_letter.offset]
            attempt = max(message.attempt, message.failures)
            assert (message.state, message.is_asked, attempt) == ("letter", False, dead_letter.attempt)
            message.is_asked = True
        assert sum(message.is_asked for message in self.model.messages) <= DEAD_LETTERS_AT_ONCE_MAX

    def set_timer(self, timers: list[float | None]) -> None:
        assert len(timers) <= 1
        for at_s in timers:
            assert at_s is not None
            assert self.timer_s is None or at_s < self.timer_s
            self.timer_s = at_s


def one_by_one(sends: list[Send]) -> list[tuple[int, int, int]]:
    return [(send.consumer_id, offset, send.attempt) for send in sends for offset in range(send.start, send.end)]


def are_one(before: Send, after: Send) -> bool:
    """Whether two sends could have been one."""
    return after == Send(before.consumer_id, before.end, after.end, before.attempt)


class ExclusiveMachine(DispatchMachine):
    subscription_type = SubscriptionType.EXCLUSIVE


class SharedMachine(DispatchMachine):
    subscription_type = SubscriptionType.SHARED


class FailoverMachine(DispatchMachine):
    subscription_type = SubscriptionType.FAILOVER


TestFailover = FailoverMachine.TestCase
TestExclusive = ExclusiveMachine.TestCase
TestShared = SharedMachine.TestCase
