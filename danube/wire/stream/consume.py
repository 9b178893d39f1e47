"""Consume: requests and responses to and from protobuf bytes. Bodies are copied once, into the message."""

from functools import partial

from danube.model.calls.client import Subscribe
from danube.model.calls.consume import (
    ConsumeAsk,
    ConsumeAssigned,
    ConsumeBatches,
    ConsumeConfirmed,
    ConsumeEvent,
    ConsumeFenced,
    ConsumeMoved,
    ConsumeOpen,
    ConsumeOpened,
    ConsumeReport,
    ConsumeResponse,
    ConsumeUpdate,
    NackedRange,
    TakenRange,
)
from danube.model.calls.stream import FetchedBatch, FetchFrom
from danube.model.errors import InvalidRequestError
from danube.model.limits.broker import RPC_STATUS_MESSAGE_CHARS_MAX
from danube.model.limits.stream import CONSUME_RANGES_MAX, CONSUME_SEEN_RANGES_MAX
from danube.model.ranges import OffsetRange
from danube.model.subscription import SubscriptionType
from danube.wire.client_messages import start_fields, start_of
from danube.wire.encode import fetched
from danube.wire.gen import DanubeStream_pb2 as pb
from danube.wire.parsing import member, member_name, parse, topic_name
from danube.wire.raw import varint
from danube.wire.status import StatusCode, error_from, status_of

_GENERATION_TAG = b"\x08"  # ConsumeBatches field 1, a number
_BATCHES_TAG = b"\x12"  # ConsumeResponse field 2, delimited
_consumer_name = partial(member_name, "consumer")
_subscription = partial(member_name, "subscription")


def open_request(call: ConsumeOpen) -> bytes:
    """A ConsumeRequest that opens."""
    wanted = call.subscribe
    opening = pb.ConsumeOpen(
        topic_name=str(wanted.topic),
        subscription=wanted.subscription,
        consumer_name=wanted.consumer_name,
        subscription_type=wanted.type,
        key_filters=wanted.key_filters,
        credit_bytes=call.credit_bytes,
        credit_messages=call.credit_messages,
        reports=call.reports,
        **start_fields(call.start),
    )
    return pb.ConsumeRequest(open=opening).SerializeToString()


def update_request(call: ConsumeUpdate) -> bytes:
    """A ConsumeRequest with credit and answers."""
    update = pb.ConsumeUpdate(
        credit_bytes=call.credit_bytes,
        generation=call.generation,
        acknowledged_below=call.acknowledged_below,
        acknowledged=[pb.ConsumeRange(start=start, end=end) for start, end in call.acknowledged],
        nacked=[_nack(each) for each in call.nacked],
        sequence=call.sequence,
        close=call.close,
        answers_seen=call.answers_seen,
        credit_messages=call.credit_messages,
        report=None if call.report is None else _report(call.report),
    )
    return pb.ConsumeRequest(update=update).SerializeToString()


def _report(report: ConsumeReport) -> pb.ConsumeReport:
    return pb.ConsumeReport(
        taken=[pb.ConsumeTaken(start=start, end=end, age_ms=round(age_s * 1000)) for start, end, age_s in report.held],
        busy=report.is_busy,
        gave_back=report.gave_back,
        returned=[pb.ConsumeRange(start=start, end=end) for start, end in report.returned],
    )


def _report_of(message: pb.ConsumeReport) -> ConsumeReport:
    if len(message.taken) > CONSUME_RANGES_MAX or len(message.returned) > CONSUME_SEEN_RANGES_MAX:
        raise InvalidRequestError(f"a report has at most {CONSUME_RANGES_MAX} ranges that were taken: send the oldest")
    return ConsumeReport(
        tuple(TakenRange(each.start, each.end, each.age_ms / 1000) for each in message.taken),
        message.busy,
        message.gave_back,
        tuple(OffsetRange(each.start, each.end) for each in message.returned),
    )


def _nack(nacked: NackedRange) -> pb.ConsumeNack:
    delay_ms = None if nacked.delay_s is None else round(nacked.delay_s * 1000)
    return pb.ConsumeNack(start=nacked.start, end=nacked.end, delay_ms=delay_ms, reason=nacked.reason)


def request(data: bytes) -> ConsumeOpen | ConsumeUpdate:
    """A ConsumeRequest. Raises InvalidRequestError, InvalidNameError."""
    message = parse(pb.ConsumeRequest, data)
    match message.WhichOneof("request"):
        case "update":
            return _update(message.update)
        case "open":
            return _opening(message.open)
    raise InvalidRequestError("an empty ConsumeRequest says nothing: open the stream or send an update")


def _opening(message: pb.ConsumeOpen) -> ConsumeOpen:
    subscribe = Subscribe(
        request_id=0,
        topic=topic_name(message.topic_name),
        consumer_name=_consumer_name(message.consumer_name),
        subscription=_subscription(message.subscription),
        type=member(SubscriptionType, message.subscription_type),
        key_filters=tuple(message.key_filters),
    )
    start = start_of(message, FetchFrom.LATEST)
    return ConsumeOpen(
        subscribe=subscribe,
        start=start,
        credit_bytes=message.credit_bytes,
        credit_messages=message.credit_messages if message.HasField("credit_messages") else None,
        reports=message.reports,
    )


def _update(message: pb.ConsumeUpdate) -> ConsumeUpdate:
    if max(len(message.acknowledged), len(message.nacked)) > CONSUME_RANGES_MAX:
        raise InvalidRequestError(f"an update answers at most {CONSUME_RANGES_MAX} ranges: send several")
    return ConsumeUpdate(
        credit_bytes=message.credit_bytes,
        generation=message.generation,
        acknowledged_below=message.acknowledged_below if message.HasField("acknowledged_below") else None,
        acknowledged=tuple(OffsetRange(each.start, each.end) for each in message.acknowledged),
        nacked=tuple(
            NackedRange(each.start, each.end, each.delay_ms / 1000 if each.HasField("delay_ms") else None, each.reason)
            for each in message.nacked
        ),
        sequence=message.sequence,
        close=message.close,
        answers_seen=message.answers_seen,
        credit_messages=message.credit_messages,
        report=_report_of(message.report) if message.HasField("report") else None,
    )


def opened(answer: ConsumeOpened) -> bytes:
    """A ConsumeResponse to the opening."""
    return pb.ConsumeResponse(opened=pb.ConsumeOpened(consumer_id=answer.consumer_id)).SerializeToString()


def batches(answer: ConsumeBatches) -> bytes:
    """A ConsumeResponse with batches."""
    head = _GENERATION_TAG + varint(answer.generation)
    # ConsumeBatches has its batches where a FetchResponse would, one field number on
    body = fetched(answer.batches, tag=b"\x12")
    return b"".join((_BATCHES_TAG, varint(len(head) + len(body)), head, body))


def confirmed(answer: ConsumeConfirmed) -> bytes:
    """A ConsumeResponse that confirms updates."""
    return pb.ConsumeResponse(confirmed=pb.ConsumeConfirmed(sequence=answer.sequence)).SerializeToString()


def event(told: ConsumeEvent) -> bytes:
    """A ConsumeResponse with a change of the consumer's place."""
    match told:
        case ConsumeAssigned():
            message = pb.ConsumeEvent(assigned=True)
        case ConsumeAsk(give_back):
            message = pb.ConsumeEvent(report=pb.ConsumeAsk(give_back=give_back))
        case ConsumeFenced(error):
            status = status_of(error)
            message = pb.ConsumeEvent(fenced=pb.ConsumeFenced(code=status.error_code, message=status.message))
        case ConsumeMoved(connect_url, broker_url, proxy):
            message = pb.ConsumeEvent(
                moved=pb.ConsumeMoved(connect_url=connect_url, broker_url=broker_url, proxy=proxy)
            )
    return pb.ConsumeResponse(event=message).SerializeToString()


def response(data: bytes) -> ConsumeResponse | None:
    """A ConsumeResponse; None for an event that only a later Danube knows. Raises InvalidRequestError."""
    message = parse(pb.ConsumeResponse, data)
    match message.WhichOneof("response"):
        case "batches":
            return ConsumeBatches(
                message.batches.generation,
                tuple(
                    FetchedBatch(each.base_offset, each.count, each.append_time_ms, each.body, each.first, each.end)
                    for each in message.batches.batches
                ),
            )
        case "confirmed":
            return ConsumeConfirmed(message.confirmed.sequence)
        case "opened":
            return ConsumeOpened(message.opened.consumer_id)
        case "event":
            return _event(message.event)
    return None


def _event(message: pb.ConsumeEvent) -> ConsumeEvent | None:
    match message.WhichOneof("event"):
        case "assigned":
            return ConsumeAssigned()
        case "report":
            return ConsumeAsk(message.report.give_back)
        case "fenced":
            text = message.fenced.message[:RPC_STATUS_MESSAGE_CHARS_MAX]
            return ConsumeFenced(error_from(StatusCode.FAILED_PRECONDITION, text, message.fenced.code))
        case "moved":
            moved = message.moved
            return ConsumeMoved(moved.connect_url, moved.broker_url, moved.proxy)
    return None
