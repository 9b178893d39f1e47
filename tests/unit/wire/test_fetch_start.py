"""Where to begin, on the wire: each message has its own meaning of none."""

import pytest

from danube.model.calls.stream import FetchFrom, FetchStart, FetchTime
from danube.wire.client_messages import StartMessage, start_fields, start_of
from danube.wire.gen import DanubeControl_pb2, DanubeStream_pb2

MESSAGES = (DanubeStream_pb2.FetchRequest, DanubeControl_pb2.StartPosition)


@pytest.mark.parametrize("kind", MESSAGES)
@pytest.mark.parametrize("start", [0, 7, FetchTime(0), FetchTime(5), FetchFrom.EARLIEST, FetchFrom.LATEST], ids=str)
def test_a_start_comes_out_as_it_went_in(kind: type[StartMessage], start: FetchStart) -> None:
    message = kind(**start_fields(start))
    for absent in FetchFrom:
        assert start_of(message, absent) == start


@pytest.mark.parametrize("kind", MESSAGES)
@pytest.mark.parametrize("absent", list(FetchFrom))
def test_a_message_that_says_nothing_has_the_start_that_none_means(kind: type[StartMessage], absent: FetchFrom) -> None:
    assert start_of(kind(), absent) is absent
