"""What every carrier promises of streams: order, credit both ways and every way to end."""

import asyncio
import logging
from contextlib import suppress

import pytest

from danube.model import errors
from danube.rpc.carrier import ClientStream
from danube.rpc.options import CarrierOptions
from tests.contracts.carrier_network import CarrierNetwork
from tests.contracts.stream_recorder import PATH, SOON_S, Reaction, Recorder, Watched

BLOCKED_S = 0.3
"""For what must not happen; either carrier has moved long before what it would move."""
KIB = 1024


async def receive(stream: ClientStream) -> bytes | None:
    async with asyncio.timeout(SOON_S):
        return await stream.receive()


async def receive_all(stream: ClientStream) -> list[bytes]:
    messages = []
    while (message := await receive(stream)) is not None:
        messages.append(message)
    return messages


async def opened(stream: ClientStream) -> None:
    async with asyncio.timeout(SOON_S):
        await stream.opened()


async def stays_blocked(task: "asyncio.Task[None]") -> bool:
    """Whether `task` is still under way after a while; it goes on."""
    _, left = await asyncio.wait([task], timeout=BLOCKED_S)
    return bool(left)


async def is_not_told(recorder: Recorder, event: str, times: int = 1) -> bool:
    with suppress(TimeoutError):
        async with asyncio.timeout(BLOCKED_S):
            await recorder.until(event, times)
    return recorder.told.count(event) < times


async def send_until_it_fails(stream: ClientStream) -> None:
    async with asyncio.timeout(SOON_S):
        while True:
            await stream.send(bytes(KIB))
            await asyncio.sleep(0)


def answers(*messages: bytes) -> Reaction:
    def react(recorder: Recorder) -> None:
        for message in messages:
            recorder.stream.write(message)
        recorder.stream.finish()

    return react


def raises(error: Exception) -> Reaction:
    def react(recorder: Recorder) -> None:
        raise error

    return react


def opens(recorder: Recorder) -> None:
    recorder.stream.open()


def echoes(recorder: Recorder) -> None:
    recorder.stream.write(recorder.messages[-1])


def finishes(recorder: Recorder) -> None:
    recorder.stream.finish()


# Server streams


async def test_answers_of_a_server_stream_arrive_in_order_then_the_end(network: CarrierNetwork) -> None:
    messages = [b"%d" % number for number in range(100)]
    stream = (await network.channel_to(Watched(message=answers(*messages)).service)).server_stream(PATH, b"")
    assert await receive_all(stream) == messages
    assert await receive(stream) is None


async def test_server_stream_is_told_of_its_request_then_of_the_half_close(network: CarrierNetwork) -> None:
    watched = Watched(half_close=answers(b"a"))
    stream = (await network.channel_to(watched.service)).server_stream(PATH, b"request")
    assert await receive_all(stream) == [b"a"]
    recorder = await watched.recorder()
    assert (recorder.messages, recorder.told) == ([b"request"], ["message", "half_close"])


async def test_empty_messages_are_messages(network: CarrierNetwork) -> None:
    watched = Watched(message=answers(b"", b"a", b""))
    stream = (await network.channel_to(watched.service)).server_stream(PATH, b"")
    assert await receive_all(stream) == [b"", b"a", b""]
    assert (await watched.recorder()).messages == [b""]


async def test_opened_returns_before_the_first_message_when_the_server_opens(network: CarrierNetwork) -> None:
    watched = Watched(open=opens)
    stream = (await network.channel_to(watched.service)).server_stream(PATH, b"")
    await opened(stream)
    answers(b"a")(await watched.recorder())
    assert await receive_all(stream) == [b"a"]


async def test_headers_leave_with_the_first_message_when_the_server_does_not_open(network: CarrierNetwork) -> None:
    watched = Watched()
    stream = (await network.channel_to(watched.service)).server_stream(PATH, b"")
    waiting = asyncio.create_task(opened(stream))
    assert await stays_blocked(waiting)
    (await watched.recorder()).stream.write(b"a")
    await waiting


async def test_opened_returns_for_a_stream_that_ended_without_a_message(network: CarrierNetwork) -> None:
    stream = (await network.channel_to(Watched(message=answers()).service)).server_stream(PATH, b"")
    await opened(stream)
    assert await receive_all(stream) == []


@pytest.mark.parametrize("moment", ["open", "message"])
async def test_refusal_before_the_first_message_reaches_opened_and_receive(
    network: CarrierNetwork, moment: str
) -> None:
    watched = Watched(reactions={moment: raises(errors.ConsumerNotFoundError("no such consumer"))})
    stream = (await network.channel_to(watched.service)).server_stream(PATH, b"")
    with pytest.raises(errors.ConsumerNotFoundError, match="no such consumer"):
        await opened(stream)
    with pytest.raises(errors.ConsumerNotFoundError, match="no such consumer"):
        await receive(stream)


async def test_refusals_always_reach_opened(network: CarrierNetwork) -> None:
    channel = await network.channel_to(Watched(open=raises(errors.NotFoundError("no"))).service)
    for _ in range(100):
        with pytest.raises(errors.NotFoundError):
            await opened(channel.server_stream(PATH, b""))


async def test_failure_after_delivered_messages_ends_the_stream_with_its_class(network: CarrierNetwork) -> None:
    watched = Watched()
    stream = (await network.channel_to(watched.service)).server_stream(PATH, b"")
    recorder = await watched.recorder()
    recorder.stream.write(b"a")
    assert await receive(stream) == b"a"
    recorder.stream.fail(errors.TopicNotServedError("moved"))
    for _ in range(2):
        with pytest.raises(errors.TopicNotServedError, match="moved"):
            await receive(stream)


@pytest.mark.parametrize("moment", ["open", "message", "half_close"])
async def test_exception_in_a_handler_is_opaque_and_logged(
    network: CarrierNetwork, moment: str, caplog: pytest.LogCaptureFixture
) -> None:
    watched = Watched(reactions={moment: raises(ValueError("a secret"))})
    stream = (await network.channel_to(watched.service)).server_stream(PATH, b"")
    with pytest.raises(errors.InternalError) as caught:
        await receive(stream)
    assert "secret" not in str(caught.value)
    assert [record.exc_info is not None for record in caplog.records if record.levelno >= logging.ERROR] == [True]


async def test_many_streams_at_once_get_each_their_own_messages(network: CarrierNetwork) -> None:
    def react(recorder: Recorder) -> None:
        answers(*recorder.messages * 3)(recorder)

    channel = await network.channel_to(Watched(message=react).service)
    streams = [channel.server_stream(PATH, b"%d" % number) for number in range(50)]
    assert await asyncio.gather(*map(receive_all, streams)) == [[b"%d" % number] * 3 for number in range(50)]


# Credit for answers


async def test_writing_without_room_is_refused(network: CarrierNetwork) -> None:
    network.use(CarrierOptions(queue_bytes_max=1000))
    watched = Watched()
    stream = (await network.channel_to(watched.service)).server_stream(PATH, b"")
    writer = (await watched.recorder()).stream
    rooms = [writer.room]
    for _ in range(2):
        writer.write(bytes(600))
        rooms.append(writer.room)
    with pytest.raises(errors.OverloadedError):
        writer.write(b"")
    assert rooms == [1000, 400, -200]
    assert [await receive(stream), await receive(stream)] == [bytes(600)] * 2


async def test_queue_is_bounded_in_messages_too(network: CarrierNetwork) -> None:
    network.use(CarrierOptions(queue_messages_max=2))
    watched = Watched()
    stream = (await network.channel_to(watched.service)).server_stream(PATH, b"")
    writer = (await watched.recorder()).stream
    writer.write(b"a")
    writer.write(b"b")
    assert writer.room == 0
    with pytest.raises(errors.OverloadedError):
        writer.write(b"c")
    writer.finish()
    assert await receive_all(stream) == [b"a", b"b"]


async def test_message_larger_than_the_queue_passes_and_then_there_is_room(network: CarrierNetwork) -> None:
    network.use(CarrierOptions(queue_bytes_max=1000))
    watched = Watched()
    stream = (await network.channel_to(watched.service)).server_stream(PATH, b"")
    recorder = await watched.recorder()
    recorder.stream.write(bytes(50_000))
    assert await receive(stream) == bytes(50_000)
    await recorder.until("ready")
    assert recorder.stream.room == 1000


async def test_writer_that_always_had_room_is_not_told_of_it(network: CarrierNetwork) -> None:
    watched = Watched()
    stream = (await network.channel_to(watched.service)).server_stream(PATH, b"")
    recorder = await watched.recorder()
    for _ in range(10):
        recorder.stream.write(bytes(KIB))
        assert await receive(stream) == bytes(KIB)
    assert recorder.told == ["message", "half_close"]


async def test_client_that_does_not_read_stops_the_writer_and_reading_again_lets_it_go_on(
    network: CarrierNetwork,
) -> None:
    network.use(CarrierOptions(queue_bytes_max=256 * KIB))
    total = 1000
    written = 0

    def fill(recorder: Recorder) -> None:
        nonlocal written
        while recorder.stream.room > 0 and written < total:
            recorder.stream.write(written.to_bytes(4, "big") + bytes(64 * KIB))
            written += 1
        if written == total:
            recorder.stream.finish()

    watched = Watched(message=fill, ready=fill)
    stream = (await network.channel_to(watched.service)).server_stream(PATH, b"")
    await opened(stream)
    recorder = await watched.recorder()
    assert await is_not_told(recorder, "ready", total // 3)
    fill(recorder)
    assert (recorder.stream.room <= 0, written < total // 3) == (True, True)
    numbers = [int.from_bytes(message[:4], "big") for message in await receive_all(stream)]
    assert numbers == list(range(total))


# Both ways


async def test_echo_keeps_the_order_both_ways_and_half_close_ends_it(network: CarrierNetwork) -> None:
    channel = await network.channel_to(Watched(both_ways=True, message=echoes, half_close=finishes).service)
    stream = channel.stream(PATH)
    received = asyncio.create_task(receive_all(stream))
    messages = [b"%d" % number for number in range(300)]
    for message in messages:
        await stream.send(message)
    await stream.half_close()
    assert await received == messages


async def test_conversation_alternates(network: CarrierNetwork) -> None:
    watched = Watched(both_ways=True, message=echoes)
    stream = (await network.channel_to(watched.service)).stream(PATH)
    for message in (b"a", b"", b"c"):
        await stream.send(message)
        assert await receive(stream) == message
    assert (await watched.recorder()).told == ["message"] * 3


async def test_server_goes_on_sending_after_the_half_close(network: CarrierNetwork) -> None:
    watched = Watched(both_ways=True)
    stream = (await network.channel_to(watched.service)).stream(PATH)
    await stream.half_close()
    recorder = await watched.recorder()
    await recorder.until("half_close")
    answers(b"a", b"b")(recorder)
    assert await receive_all(stream) == [b"a", b"b"]


async def test_stream_opens_before_either_end_sent_a_message(network: CarrierNetwork) -> None:
    stream = (await network.channel_to(Watched(both_ways=True, open=opens).service)).stream(PATH)
    await opened(stream)


@pytest.mark.parametrize("both_ways", [True, False])
async def test_nothing_can_be_sent_after_the_half_close(network: CarrierNetwork, both_ways: bool) -> None:
    channel = await network.channel_to(Watched(both_ways=both_ways).service)
    stream = channel.stream(PATH) if both_ways else channel.server_stream(PATH, b"")
    if both_ways:
        await stream.half_close()
    with pytest.raises(errors.InvalidRequestError):
        await stream.send(b"a")


async def test_paused_handler_gets_nothing_slows_the_sender_and_then_gets_all(network: CarrierNetwork) -> None:
    watched = Watched(both_ways=True, open=lambda recorder: recorder.stream.pause_reading())
    stream = (await network.channel_to(watched.service)).stream(PATH)
    messages = [number.to_bytes(4, "big") + bytes(64 * KIB) for number in range(400)]

    async def send_all() -> None:
        for message in messages:
            await stream.send(message)
        await stream.half_close()

    sending = asyncio.create_task(send_all())
    recorder = await watched.recorder()
    assert await stays_blocked(sending)
    assert recorder.told == []
    recorder.stream.resume_reading()
    await recorder.until("half_close")
    assert (recorder.messages == messages, recorder.told[-1]) == (True, "half_close")
    await sending


async def test_pause_takes_effect_after_the_message_in_which_it_was_asked_for(network: CarrierNetwork) -> None:
    watched = Watched(both_ways=True, message=lambda recorder: recorder.stream.pause_reading())
    stream = (await network.channel_to(watched.service)).stream(PATH)
    for message in (b"a", b"b", b"c"):
        await stream.send(message)
    recorder = await watched.recorder()
    await recorder.until("message")
    assert await is_not_told(recorder, "message", 2)
    recorder.stream.resume_reading()
    await recorder.until("message", 2)
    assert recorder.messages == [b"a", b"b"]


async def test_cancelled_receive_loses_nothing(network: CarrierNetwork) -> None:
    watched = Watched(both_ways=True, message=echoes)
    stream = (await network.channel_to(watched.service)).stream(PATH)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05):
            await stream.receive()
    await stream.send(b"a")
    assert await receive(stream) == b"a"


# Ends that come early


async def test_cancelled_stream_tells_the_handler_once_and_fails_the_client(network: CarrierNetwork) -> None:
    watched = Watched(open=opens)
    stream = (await network.channel_to(watched.service)).server_stream(PATH, b"")
    await opened(stream)
    stream.cancel()
    stream.cancel()
    recorder = await watched.recorder()
    await recorder.until("cancel")
    with pytest.raises(errors.CancelledError):
        await receive(stream)
    assert await is_not_told(recorder, "cancel", 2)


async def test_cancelled_conversation_is_never_taken_for_a_half_close(network: CarrierNetwork) -> None:
    watched = Watched(both_ways=True)
    channel = await network.channel_to(watched.service)
    for number in range(50):
        stream = channel.stream(PATH)
        await stream.send(b"")
        recorder = await watched.recorder(number)
        await recorder.until("message")
        stream.cancel()
        await recorder.until("cancel")
        assert recorder.told == ["message", "cancel"]


async def test_answers_to_a_client_that_left_are_ignored(
    network: CarrierNetwork, caplog: pytest.LogCaptureFixture
) -> None:
    watched = Watched(open=opens)
    stream = (await network.channel_to(watched.service)).server_stream(PATH, b"")
    await opened(stream)
    stream.cancel()
    recorder = await watched.recorder()
    await recorder.until("cancel")
    recorder.stream.open()
    recorder.stream.write(b"late")
    recorder.stream.fail(errors.NotFoundError("late"))
    recorder.stream.finish()
    assert (caplog.records, recorder.told[-1]) == ([], "cancel")


async def test_client_that_leaves_while_the_writer_is_stopped_is_noticed(
    network: CarrierNetwork, caplog: pytest.LogCaptureFixture
) -> None:
    def fill(recorder: Recorder) -> None:
        while recorder.stream.room > 0:
            recorder.stream.write(bytes(64 * KIB))

    watched = Watched(message=fill, ready=fill)
    stream = (await network.channel_to(watched.service)).server_stream(PATH, b"")
    await opened(stream)
    recorder = await watched.recorder()
    assert await is_not_told(recorder, "ready", 300)
    stream.cancel()
    await recorder.until("cancel")
    assert (recorder.told.count("cancel"), caplog.records) == (1, [])


async def test_passed_deadline_ends_both_ends_of_a_stream(network: CarrierNetwork) -> None:
    watched = Watched()
    stream = (await network.channel_to(watched.service)).server_stream(PATH, b"", timeout_s=0.1)
    with pytest.raises(errors.DeadlineExceededError):
        await receive(stream)
    recorder = await watched.recorder()
    await recorder.until("cancel")
    assert recorder.told == ["message", "half_close", "cancel"]


async def test_finished_stream_is_told_nothing_more(network: CarrierNetwork) -> None:
    watched = Watched(both_ways=True, message=answers(b"bye"))
    stream = (await network.channel_to(watched.service)).stream(PATH)
    await stream.send(b"")
    assert await receive_all(stream) == [b"bye"]
    stream.cancel()
    assert await is_not_told(await watched.recorder(), "cancel")
    assert (await watched.recorder()).told == ["message"]


async def test_sending_on_a_stream_that_the_server_finished_asks_for_a_new_one(network: CarrierNetwork) -> None:
    watched = Watched(both_ways=True, message=finishes)
    channel = await network.channel_to(watched.service)
    for _ in range(20):
        with pytest.raises(errors.UnavailableError, match="open a new one"):
            await send_until_it_fails(channel.stream(PATH))


async def test_sending_on_a_stream_that_the_server_failed_raises_its_error(network: CarrierNetwork) -> None:
    watched = Watched(both_ways=True, message=raises(errors.TopicNotServedError("moved")))
    channel = await network.channel_to(watched.service)
    for _ in range(20):
        stream = channel.stream(PATH)
        with pytest.raises(errors.TopicNotServedError, match="moved"):
            await send_until_it_fails(stream)
        with pytest.raises(errors.TopicNotServedError, match="moved"):
            await receive(stream)


async def test_sender_that_waits_for_credit_learns_that_the_stream_failed(network: CarrierNetwork) -> None:
    watched = Watched(both_ways=True, open=lambda recorder: recorder.stream.pause_reading())
    stream = (await network.channel_to(watched.service)).stream(PATH)

    async def send_for_ever() -> None:
        while True:
            await stream.send(bytes(64 * KIB))

    sending = asyncio.create_task(send_for_ever())
    assert await stays_blocked(sending)
    (await watched.recorder()).stream.fail(errors.TopicNotServedError("moved"))
    with pytest.raises(errors.TopicNotServedError):
        await asyncio.wait_for(sending, SOON_S)


async def test_message_above_the_receive_limit_ends_the_stream_and_the_server_goes_on(network: CarrierNetwork) -> None:
    network.use(CarrierOptions(receive_bytes_max=10_000))
    watched = Watched(both_ways=True, open=opens, message=echoes)
    channel = await network.channel_to(watched.service)
    stream = channel.stream(PATH)
    await opened(stream)
    await stream.send(bytes(10_001))
    with pytest.raises(errors.LimitReachedError):
        await receive(stream)
    await (await watched.recorder()).until("cancel")
    again = channel.stream(PATH)
    await again.send(bytes(10_000))
    assert await receive(again) == bytes(10_000)


async def test_answer_above_the_receive_limit_ends_the_stream(network: CarrierNetwork) -> None:
    network.use(CarrierOptions(receive_bytes_max=10_000))
    watched = Watched(message=lambda recorder: recorder.stream.write(bytes(10_001)))
    stream = (await network.channel_to(watched.service)).server_stream(PATH, b"")
    with pytest.raises(errors.LimitReachedError):
        await receive(stream)
    await (await watched.recorder()).until("cancel")


async def test_failing_cancel_callback_is_logged(network: CarrierNetwork, caplog: pytest.LogCaptureFixture) -> None:
    watched = Watched(open=opens, cancel=raises(ValueError("in the callback")))
    stream = (await network.channel_to(watched.service)).server_stream(PATH, b"")
    await opened(stream)
    stream.cancel()
    await (await watched.recorder()).until("cancel")
    assert [record.exc_info is not None for record in caplog.records] == [True]


async def test_stopping_server_lets_a_stream_finish(network: CarrierNetwork) -> None:
    watched = Watched(open=opens)
    server = await network.serve(watched.service)
    stream = network.connect(server).server_stream(PATH, b"")
    await opened(stream)
    stopping = asyncio.create_task(server.stop(SOON_S))
    await asyncio.sleep(0)  # so that stopping has begun
    answers(b"last")(await watched.recorder())
    assert await receive_all(stream) == [b"last"]
    await stopping


@pytest.mark.parametrize("both_ways", [True, False])
async def test_stopping_server_ends_streams_that_outlive_the_grace(network: CarrierNetwork, both_ways: bool) -> None:
    watched = Watched(both_ways=both_ways, open=opens)
    server = await network.serve(watched.service)
    channel = network.connect(server)
    stream = channel.stream(PATH) if both_ways else channel.server_stream(PATH, b"")
    await opened(stream)
    await server.stop(0.05)
    with pytest.raises(errors.BrokerUnreachableError):
        await receive(stream)
    recorder = await watched.recorder()
    await recorder.until("cancel")
    assert recorder.told.count("cancel") == 1


async def test_closing_the_channel_ends_its_streams(network: CarrierNetwork) -> None:
    watched = Watched(both_ways=True, open=opens)
    channel = await network.channel_to(watched.service)
    stream = channel.stream(PATH)
    await opened(stream)
    receiving = asyncio.create_task(receive(stream))
    await asyncio.sleep(0)  # so that it waits
    await channel.close()
    with pytest.raises(errors.CancelledError):
        await receiving
    with pytest.raises(errors.CancelledError):
        await stream.send(b"")
    with pytest.raises(errors.CancelledError):
        channel.stream(PATH)
    await (await watched.recorder()).until("cancel")


async def test_stream_to_nobody_is_unreachable(network: CarrierNetwork) -> None:
    server = await network.serve()
    await server.stop(0)
    stream = network.connect(server).stream(PATH)
    for work in (stream.opened, stream.receive, lambda: send_until_it_fails(stream)):
        with pytest.raises(errors.BrokerUnreachableError, match=server.address):
            await work()


async def test_stream_of_an_unknown_method_is_unsupported(network: CarrierNetwork) -> None:
    stream = (await network.channel_to()).stream(PATH)
    for work in (stream.opened, stream.receive, lambda: send_until_it_fails(stream)):
        with pytest.raises(errors.UnsupportedError):
            await work()
