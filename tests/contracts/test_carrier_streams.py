"""What every carrier promises of streams: order, opening, and credit both ways."""

import asyncio
import logging

import pytest

from danube.model import errors
from danube.rpc.carrier import CarrierOptions
from tests.contracts.carrier_network import CarrierNetwork
from tests.contracts.stream_recorder import (
    KIB,
    PATH,
    Recorder,
    Watched,
    answers,
    echoes,
    finishes,
    is_not_told,
    opened,
    opens,
    raises,
    receive,
    receive_all,
    stays_blocked,
)

pytestmark = pytest.mark.slow  # together they take long

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
