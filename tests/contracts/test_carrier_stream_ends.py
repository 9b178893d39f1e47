"""What every carrier promises of streams that end early: who is told, what of, and how often."""

import asyncio

import pytest

from danube.model import errors
from danube.rpc.carrier import CarrierOptions
from tests.contracts.carrier_network import CarrierNetwork
from tests.contracts.stream_recorder import (
    KIB,
    PATH,
    SOON_S,
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
    send_until_it_fails,
    stays_blocked,
)

pytestmark = pytest.mark.slow  # together they take long


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
    channel = await network.channel_to(watched.service)
    for timeout_s in (0.1, 1.0, 10.0):  # on a slow machine the shortest has passed before anybody has heard of it
        stream = channel.server_stream(PATH, b"", timeout_s=timeout_s)
        with pytest.raises(errors.DeadlineExceededError):
            await receive(stream)
        if await watched.is_opened():
            break
    recorder = await watched.recorder()
    await recorder.until("cancel")
    *before, last = recorder.told
    assert (before, last) == (["message", "half_close"][: len(before)], "cancel")


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


async def test_closing_a_channel_that_has_not_connected_ends_its_streams(network: CarrierNetwork) -> None:
    channel = await network.channel_to(Watched(both_ways=True, open=opens).service)
    stream = channel.stream(PATH)
    await channel.close()
    with pytest.raises(errors.CancelledError):
        await receive(stream)


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
