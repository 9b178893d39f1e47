from danube.broker.dispatch.events import KeyRun
from danube.broker.dispatch.outlets import BatchWindow, dispatch_key
from danube.model.calls.client import OutgoingMessage
from danube.model.limits.broker import KEY_CHARS_MAX
from danube.storage.batches.batch import encode_messages, encode_payloads
from danube.storage.batches.stored_batch import StoredBatch
from danube.wire.encode import send_message


def encoded(key: str | None, producer_name: str = "p") -> bytes:
    return send_message(
        OutgoingMessage(
            request_id=1,
            producer_id=1,
            topic="/default/t",
            broker_addr="",
            payload=b"",
            publish_time_ms=1,
            producer_name=producer_name,
            routing_key=key,
        )
    )


def test_a_batch_of_payloads_is_one_run() -> None:
    batch = StoredBatch(10, 5, 1, encode_payloads(encoded("k"), [b"x"] * 5))
    assert BatchWindow().keys(batch, 11, 15) == (KeyRun(11, 15, "k"),)


def test_neighbours_with_the_same_key_are_one_run() -> None:
    records = [encoded("a"), encoded("a"), encoded(None, "q"), encoded(""), encoded("a")]
    batch = StoredBatch(10, 5, 1, encode_messages(records))
    expected = [KeyRun(10, 12, "a"), KeyRun(12, 13, "q"), KeyRun(13, 14, ""), KeyRun(14, 15, "a")]
    assert BatchWindow().keys(batch, 10, 15) == tuple(expected)
    assert BatchWindow().keys(batch, 11, 13) == (KeyRun(11, 12, "a"), KeyRun(12, 13, "q"))


def test_a_record_that_is_no_message_has_an_empty_key() -> None:
    assert dispatch_key(b"\xff\xff\xff") == ""


def test_of_a_long_key_the_beginning_counts() -> None:
    assert dispatch_key(encoded("k" * 5_000)) == "k" * KEY_CHARS_MAX
