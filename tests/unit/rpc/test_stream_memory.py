"""What all streams of a broker have queued: within one bound, in fair shares, and nobody is shut out for good."""

import pytest

from danube.model.errors import DanubeError, LimitReachedError
from danube.model.limits.broker import (
    KIB,
    MIB,
    STREAM_MEMORY_LOOK_S,
    STREAM_MESSAGE_COPIES,
    STREAM_STALL_S,
)
from danube.rpc.carrier import CarrierOptions
from danube.rpc.stream_memory import Outbox, StreamMemory
from danube.testing.simulated.clock import SimClock

BYTES_MAX = 64 * MIB
OPTIONS = CarrierOptions(stream_memory_bytes_max=BYTES_MAX)


class Stream:
    """A stream whose writer fills it with messages of one size whenever it is told of room."""

    def __init__(self, memory: StreamMemory, size: int, *, both_ways: bool = False) -> None:
        self.outbox = Outbox(OPTIONS, memory, self, both_ways=both_ways)
        self.size = size
        self.ended: DanubeError | None = None

    def fill(self) -> "Stream":
        while self.outbox.room > 0:
            self.outbox.put(bytes(self.size))
        return self

    def send(self) -> None:
        if self.outbox.sent():
            self.fill()

    def advance(self) -> None:
        if self.outbox.ready():
            self.fill()

    def fail(self, error: DanubeError) -> None:
        self.ended = error
        self.outbox.close()


@pytest.fixture
def clock() -> SimClock:
    return SimClock()


@pytest.fixture
def memory(clock: SimClock) -> StreamMemory:
    return StreamMemory(BYTES_MAX, clock)


def test_a_stream_queues_what_its_own_bound_allows_and_a_small_share_of_what_is_free(
    memory: StreamMemory,
) -> None:
    alone = StreamMemory(512 * MIB, SimClock())
    assert Stream(alone, 4 * KIB).fill().outbox.bytes == OPTIONS.queue_bytes_max
    assert Stream(memory, KIB).fill().outbox.bytes < OPTIONS.queue_bytes_max


def test_any_number_of_stalled_streams_stays_within_the_bound_and_leaves_room_for_others(memory: StreamMemory) -> None:
    stalled = [Stream(memory, KIB).fill() for _ in range(600)]
    assert memory.used_bytes < BYTES_MAX
    assert all(stream.outbox.bytes for stream in stalled)
    assert Stream(memory, KIB).fill().outbox.bytes > 0


def test_large_messages_pass_the_bound_by_one_at_most(memory: StreamMemory) -> None:
    for _ in range(100):
        Stream(memory, 4 * MIB).fill()
    assert BYTES_MAX <= memory.used_bytes < BYTES_MAX + 4 * MIB * STREAM_MESSAGE_COPIES


def test_a_writer_without_room_is_told_once_another_stream_has_sent(memory: StreamMemory) -> None:
    holders = [Stream(memory, 4 * MIB).fill() for _ in range(8)]
    waiting = [Stream(memory, KIB).fill() for _ in range(2)]
    assert [len(stream.outbox) for stream in waiting] == [0, 0]
    holders[0].outbox.sent()
    assert [len(stream.outbox) > 0 for stream in waiting] == [True, False]
    holders[1].outbox.sent()
    assert len(waiting[1].outbox) > 0


async def test_stalled_streams_give_way_to_who_waits_and_those_that_hold_most_go_first(
    clock: SimClock, memory: StreamMemory
) -> None:
    little = [Stream(memory, KIB).fill() for _ in range(8)]
    much = [Stream(memory, 4 * MIB).fill() for _ in range(7)]
    await clock.run_for(STREAM_STALL_S)
    assert not any(stream.ended for stream in (*little, *much))  # nobody waits
    moving = much.pop()
    moving.outbox.sent()
    moving.outbox.put(bytes(4 * MIB))
    new = Stream(memory, 4 * MIB).fill()
    waiting = Stream(memory, KIB).fill()
    assert len(waiting.outbox) == 0
    await clock.run_for(STREAM_MEMORY_LOOK_S)
    assert waiting.outbox.bytes > 0
    assert [stream.ended for stream in (*little, moving, new, waiting)] == [None] * 11
    ended = [stream for stream in much if stream.ended]
    assert len(ended) == 1
    assert isinstance(ended[0].ended, LimitReachedError)
    assert "stream_memory_bytes_max" in str(ended[0].ended)


def test_acknowledgements_of_batches_wait_for_nobody(memory: StreamMemory) -> None:
    for _ in range(8):
        Stream(memory, 4 * MIB).fill()
    publishing = Stream(memory, KIB, both_ways=True)
    publishing.outbox.put(b"opened")
    assert publishing.outbox.room > 0


def test_a_stream_that_ends_gives_back_all_it_held(memory: StreamMemory, clock: SimClock) -> None:
    streams = [Stream(memory, size).fill() for size in (KIB, 4 * MIB, 4 * MIB, MIB) * 8]
    for stream in streams:
        stream.outbox.close()
    assert memory.used_bytes == 0
    assert clock.next_timer_s() is None
