"""Where in a topic to begin, on the wire: the same four fields in a FetchRequest and in a StartPosition."""

from danube.model.calls.stream import FetchFrom, FetchStart, FetchTime
from danube.wire.gen import DanubeControl_pb2, DanubeStream_pb2

StartMessage = DanubeStream_pb2.FetchRequest | DanubeControl_pb2.StartPosition


def set_start(message: StartMessage, start: FetchStart) -> None:
    """Write where to begin into a message."""
    match start:
        case FetchFrom.EARLIEST:
            message.earliest = True
        case FetchFrom.LATEST:
            message.latest = True
        case FetchTime(append_time_ms):
            message.append_time_ms = append_time_ms
        case int(offset):
            message.offset = offset


def start_of(message: StartMessage, absent: FetchFrom) -> FetchStart:
    """Where a message says to begin; `absent` when it says nothing, or what only a later Danube knows."""
    match message.WhichOneof("start"):
        case "offset":
            return message.offset
        case "append_time_ms":
            return FetchTime(message.append_time_ms)
        case "earliest":
            return FetchFrom.EARLIEST
        case "latest":
            return FetchFrom.LATEST
    return absent
