"""Slices of a topic that a condition leaves out hold no row for which it is true."""

from datetime import UTC, datetime, timedelta

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]
import pytest
from hypothesis import given
from hypothesis import strategies as st

from danube.query.pruning import Slice, kept, sliced, times_in
from danube.tables.planning import OffsetRange
from danube.tables.rows import COLUMN_NAMES, arrow_schema

SCHEMA = arrow_schema(COLUMN_NAMES)
BEGAN = datetime(2026, 1, 1, tzinfo=UTC)
ROWS = 60
SLICE = 7


def moment(ms: float) -> pa.Scalar:
    return pa.scalar(BEGAN + timedelta(milliseconds=ms), pa.timestamp("us", tz="UTC"))


def appended_ms(offset: int) -> int:
    """Three messages share a time."""
    return 10 * (offset // 3)


def rows_of(topic: str) -> list[tuple[int, int, int | None]]:
    partition = int(topic[-1]) if topic[-1].isdigit() else None
    return [(offset, appended_ms(offset), partition) for offset in range(ROWS)]


def table(topic: str) -> pa.Table:
    rows = rows_of(topic)
    columns = {
        "offset": pa.array([offset for offset, _, _ in rows], pa.int64()),
        "append_time": pa.array([moment(ms).as_py() for _, ms, _ in rows], pa.timestamp("us", tz="UTC")),
        "partition": pa.array([partition for _, _, partition in rows], pa.int32()),
        "key": pa.array([f"k{offset % 4}" for offset, _, _ in rows]),
    }
    return pa.table(columns)


def offset_at(time_ms: int) -> int:
    began_ms = round(BEGAN.timestamp() * 1_000)
    return next((offset for offset in range(ROWS) if began_ms + appended_ms(offset) >= time_ms), ROWS)


COMPARISONS = st.sampled_from(["<", "<=", ">", ">=", "=="])
OFFSETS = st.tuples(st.just("offset"), COMPARISONS, st.integers(-3, ROWS + 3).map(pa.scalar))
MOMENTS = st.integers(-30, 250).map(lambda ms: moment(ms + 0.5 * (ms % 2)))
TIMES = st.tuples(st.just("append_time"), COMPARISONS, MOMENTS)
KEYS = st.tuples(st.just("key"), COMPARISONS, st.sampled_from(["k0", "k9"]).map(pa.scalar))
PARTITIONS = st.tuples(st.just("partition"), COMPARISONS, st.integers(-1, 3).map(lambda n: pa.scalar(n, pa.int32())))
LEAVES = st.one_of(OFFSETS, TIMES, KEYS, PARTITIONS).map(
    lambda leaf: {
        "<": pc.field(leaf[0]) < leaf[2],
        "<=": pc.field(leaf[0]) <= leaf[2],
        ">": pc.field(leaf[0]) > leaf[2],
        ">=": pc.field(leaf[0]) >= leaf[2],
        "==": pc.field(leaf[0]) == leaf[2],
    }[leaf[1]]
)
CONDITIONS = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.tuples(inner, inner).map(lambda both: both[0] & both[1]),
        st.tuples(inner, inner).map(lambda both: both[0] | both[1]),
        inner.map(lambda one: ~one),
    ),
    max_leaves=5,
)


def ranges(condition: pa.compute.Expression | None, topics: list[str]) -> list[OffsetRange]:
    slices: list[Slice] = []
    for topic in topics:
        wanted = OffsetRange(topic, 1, 0, ROWS)
        offsets_at = {time_ms: offset_at(time_ms) for time_ms in times_in(condition)}
        slices += sliced(wanted, offsets_at, int(topic[-1]) if topic[-1].isdigit() else None, SLICE)
    return kept(slices, condition, SCHEMA)


@given(CONDITIONS)
def test_every_row_that_a_condition_wants_is_in_a_slice_that_is_read(condition: pa.compute.Expression) -> None:
    topics = ["/default/a", "/default/b-part-0", "/default/b-part-1"]
    found = ranges(condition, topics)
    for topic in topics:
        wanted = table(topic).filter(condition)["offset"].to_pylist()
        read = {offset for each in found if each.topic == topic for offset in range(each.start, each.end)}
        assert set(wanted) <= read


def test_without_a_condition_a_topic_is_read_in_one_piece() -> None:
    assert ranges(None, ["/default/a"]) == [OffsetRange("/default/a", 1, 0, ROWS)]


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        (pc.field("offset") == 30, [(28, 35)]),
        ((pc.field("offset") >= 20) & (pc.field("offset") < 22), [(14, 28)]),
        (pc.field("append_time") >= moment(100), [(30, 60)]),
        ((pc.field("append_time") >= moment(50)) & (pc.field("append_time") < moment(60)), [(15, 18)]),
        (pc.field("append_time") > moment(10_000), []),
        (pc.field("offset") < 0, []),
    ],
)
def test_offsets_and_times_of_a_condition_bound_what_is_read(
    condition: pa.compute.Expression, expected: list[tuple[int, int]]
) -> None:
    assert [(each.start, each.end) for each in ranges(condition, ["/default/a"])] == expected


def test_other_partitions_are_not_read() -> None:
    found = ranges(pc.field("partition") == pa.scalar(1, pa.int32()), ["/default/b-part-0", "/default/b-part-1"])
    assert [each.topic for each in found] == ["/default/b-part-1"]
