"""What a worker does, without Spark: slices of a topic on a broker process, which may go away meanwhile."""

from collections.abc import Iterator

import pytest

from danube.model.calls.stream import FetchedBatch
from danube.model.errors import (
    BrokerUnreachableError,
    InvalidBatchError,
    PreconditionFailedError,
    TopicNotFoundError,
    UnavailableError,
)
from danube.storage.batches.batch import encode_payloads
from danube.tables.link import Endpoint, close_link, link_to
from danube.tables.planning import OffsetRange
from danube.tables.reading import SliceReader, contiguous
from danube.testing.patience import PATIENCE_S
from danube.testing.processes.broker import BrokerProcess
from tests.spark.conftest import Lake

pytestmark = pytest.mark.cluster


@pytest.fixture(autouse=True)
def _closed() -> Iterator[None]:
    yield
    close_link()


def reader(broker: BrokerProcess, *, retry_s: float = PATIENCE_S, fail_on_data_loss: bool = True) -> SliceReader:
    endpoint = Endpoint(service_url=broker.endpoints.service_url, retry_s=retry_s)
    return SliceReader(endpoint=endpoint, columns=("offset",), fail_on_data_loss=fail_on_data_loss)


def whole(lake: Lake, topic_id: int | None = None) -> OffsetRange:
    (state,) = link_to(reader(lake.broker).endpoint).states(lake.topic)
    return OffsetRange(lake.topic, state.topic_id if topic_id is None else topic_id, state.start, state.end)


@pytest.mark.slow
def test_read_goes_on_when_the_broker_comes_back(lake: Lake) -> None:
    lake.publish([bytes(1_000)] * 30_000)
    batches = reader(lake.broker).read(whole(lake))
    found = next(batches).column("offset").to_pylist()
    lake.broker.kill()
    lake.broker.start()
    found += [offset for batch in batches for offset in batch.column("offset").to_pylist()]
    assert found == list(range(30_000))


@pytest.mark.slow
def test_broker_that_was_never_reached_is_given_up_soon() -> None:
    endpoint = Endpoint(service_url="http://127.0.0.1:1", retry_s=0.2)
    with pytest.raises(BrokerUnreachableError):
        link_to(endpoint).states("/default/t")


@pytest.mark.slow
def test_slice_of_a_topic_with_another_id_is_refused(lake: Lake) -> None:
    lake.publish([b"x"] * 3)
    with pytest.raises(PreconditionFailedError, match="created again after this read was planned"):
        next(reader(lake.broker).read(whole(lake, topic_id=1_000_000)))


@pytest.mark.slow
def test_read_that_is_left_early_leaves_the_connection_usable(lake: Lake) -> None:
    lake.publish([bytes(1_000)] * 30_000)
    batches = reader(lake.broker).read(whole(lake))
    next(batches)
    batches.close()  # type: ignore[attr-defined]
    assert sum(batch.num_rows for batch in reader(lake.broker).read(whole(lake))) == 30_000


@pytest.mark.slow
def test_link_to_another_cluster_takes_the_place_of_the_first(lake: Lake) -> None:
    first = link_to(Endpoint(service_url=lake.broker.endpoints.service_url, retry_s=1.0))
    assert link_to(Endpoint(service_url=lake.broker.endpoints.service_url, retry_s=1.0)) is first
    second = link_to(Endpoint(service_url=lake.broker.endpoints.service_url, retry_s=2.0))
    with pytest.raises(TopicNotFoundError):
        second.states(lake.topic)
    assert second is not first


@pytest.mark.parametrize("offsets", [[(0, 3), (4, 9)], [(0, 3), (2, 9)], [(0, 8)], [(1, 9)], []])
def test_answers_that_leave_a_record_out_or_bring_one_twice_are_noticed(offsets: list[tuple[int, int]]) -> None:
    answers = [[FetchedBatch(start, end - start, 0, b"", 0, end - start)] for start, end in offsets]
    with pytest.raises(UnavailableError, match="did not send offset"):
        list(contiguous(OffsetRange("/default/t", 1, 0, 9), iter(answers)))


def test_body_that_was_damaged_on_its_way_stops_the_read(monkeypatch: pytest.MonkeyPatch) -> None:
    body = bytearray(encode_payloads(b"", [b"payload"]))
    body[60] ^= 1
    damaged = FetchedBatch(0, 1, 0, bytes(body), 0, 1)
    link = link_to(Endpoint(service_url="http://127.0.0.1:1", retry_s=0.1))
    monkeypatch.setattr(link, "batches", lambda _: iter([[damaged]]))
    monkeypatch.setattr(SliceReader, "_check", lambda _, wanted: wanted)
    with pytest.raises(InvalidBatchError):
        list(
            SliceReader(endpoint=link.endpoint, columns=("value",), fail_on_data_loss=True).read(
                OffsetRange("/default/t", 1, 0, 1)
            )
        )
