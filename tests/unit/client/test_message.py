"""Messages as values, which applications copy, store and send to other processes."""

import copy
import pickle
from collections.abc import Callable

import pytest

from danube.client.message import Message
from danube.model.calls.client import ReceivedMessage

SHARED = ReceivedMessage(1, 2, "/default/jobs", "http://b", 0, b"", 77, "p", {"kind": "small"}, routing_key="k")
ONE = Message.of_batch(SHARED, 5, [b"first", b"work"])[1]


@pytest.mark.parametrize(
    "again", [lambda each: pickle.loads(pickle.dumps(each)), copy.deepcopy, copy.copy], ids=["pickle", "deep", "copy"]
)
@pytest.mark.parametrize("message", [ONE, Message(SHARED), Message(SHARED._replace(attributes={}))])
def test_message_is_the_same_after_pickling_and_copying(again: Callable[[Message], Message], message: Message) -> None:
    made = again(message)
    assert type(made) is Message
    assert (made, made.payload, made.offset, made.msg_id) == (message, message.payload, message.offset, message.msg_id)
    assert (made.attributes, made.routing_key) == (message.attributes, message.routing_key)


def test_pickled_message_leaves_the_decoder_behind_and_a_copy_keeps_it() -> None:
    class Decoder:
        def __reduce__(self) -> str:
            raise TypeError("a decoder is of its process")

        def decode(self, message: ReceivedMessage, payload: bytes) -> bytes:
            return payload * 2

    message = ONE.decoded_by(SHARED._replace(decoder=Decoder()))
    assert copy.copy(message).value == copy.deepcopy(message).value == b"workwork"
    assert pickle.loads(pickle.dumps(message)).payload == b"work"
