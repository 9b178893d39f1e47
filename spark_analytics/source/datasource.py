"""The data source `danube` as Spark sees it.

Neither reader has `pushFilters`: from Spark 4.1 to 4.3 the plan of the first filtered query would serve all later ones.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import wraps
from typing import Literal, ParamSpec, TypeVar

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from danube.model.errors import DanubeError, InvalidRequestError
from danube.tables.decoding import DECODED, TopicSchema
from danube.tables.link import close_link, link_to
from danube.tables.planning import OffsetRange, TopicState, batch_ranges, slices
from danube.tables.reading import RecordBatch, SliceReader
from spark_analytics.options import SourceOptions, parse_options
from spark_analytics.source.ddl import columns_ddl, type_ddl
from spark_analytics.source.offsets import OffsetJson, StreamOffsets
from spark_analytics.source.sink import DanubeStreamWriter

P = ParamSpec("P")
R = TypeVar("R")


def _in_a_sentence(method: Callable[P, R]) -> Callable[P, R]:
    """Drop the traceback of an error whose message says everything: Spark prints tracebacks in full."""

    @wraps(method)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return method(*args, **kwargs)
        except DanubeError as error:
            raise error.with_traceback(None) from None

    return run


class DanubeDataSource(DataSource):
    """Reads the stored messages of reliable topics, in batches and as a stream. Made by Spark, on the driver.

    Name: `danube`

    Options: `docs/spark.md` and `spark_analytics.options.SourceOptions`; only `topic` is required.

    Examples:
        >>> register(spark)
        >>> spark.read.format("danube").option("topic", "/default/orders").load()
        >>> spark.readStream.format("danube").option("topic", "/default/orders").load()
    """

    @_in_a_sentence
    def __init__(self, options: Mapping[str, str]) -> None:
        # Spark's own constructor would keep the texts, and one of them may be a token.
        self.source_options = parse_options(options)

    @classmethod
    def name(cls) -> str:
        """Name of the format."""
        return "danube"

    def schema(self) -> str:
        """The chosen columns, as DDL."""
        columns = columns_ddl(self.source_options.columns)
        decoding = self._decoding()
        return f"{columns}, `{DECODED}` {type_ddl(decoding.shape().arrow)}" if decoding else columns

    @_in_a_sentence
    def reader(self, schema: StructType) -> "DanubeReader":
        """A batch reader. Runs on the driver."""
        self._check("batch", schema)
        return DanubeReader(self.source_options, self._decoding())

    @_in_a_sentence
    def streamReader(self, schema: StructType) -> "DanubeStreamReader":  # noqa: N802 - Spark's name
        """A reader of a stream. Runs on the driver, in one process for each query."""
        self._check("stream", schema)
        return DanubeStreamReader(self.source_options, self._decoding())

    @_in_a_sentence
    def streamWriter(self, schema: StructType, overwrite: bool) -> DanubeStreamWriter:  # noqa: FBT001, N802 - Spark's
        """A writer of a stream, which stores each row once. Runs on the driver."""
        if overwrite:
            raise InvalidRequestError("a topic cannot be overwritten: use outputMode append")
        checkpoint = self.source_options.checkpointlocation
        if checkpoint is None:
            raise InvalidRequestError("option checkpointLocation is missing: the sink tells repeated batches by it")
        return DanubeStreamWriter(self.source_options.endpoint, self.source_options.topic, checkpoint, schema)

    @_in_a_sentence
    def _decoding(self) -> TopicSchema | None:
        options = self.source_options
        if not options.decode:
            return None
        try:
            return TopicSchema.of(link_to(options.endpoint), options.topic)
        finally:
            close_link()

    def _check(self, kind: Literal["batch", "stream"], schema: StructType) -> None:
        self.source_options.refuse_for(kind)
        decoded = (DECODED,) if self.source_options.decode else ()
        if tuple(schema.fieldNames()) != (*self.source_options.columns, *decoded):
            raise InvalidRequestError("the data source danube has its own schema: choose with the option columns")


class DanubeReader(DataSourceReader):
    """One batch read: planned once per DataFrame on the driver, read slice by slice on the workers."""

    def __init__(self, options: SourceOptions, decoding: TopicSchema | None = None) -> None:
        self._options = options
        self._slice_reader = _slice_reader(options, decoding)

    @_in_a_sentence
    def partitions(self) -> Sequence[InputPartition]:
        """The slices. Runs on the driver, once per DataFrame: later actions read the same offsets again."""
        options = self._options
        times_ms = (*options.start.times_ms, *options.end.times_ms)
        try:
            states = link_to(options.endpoint).states(options.topic, times_ms)
        finally:
            close_link()
        ranges = batch_ranges(states, options.start, options.end, fail_on_data_loss=options.fail_on_data_loss)
        return _input_partitions(slices(ranges, options.rows_per_partition))

    def read(self, partition: InputPartition) -> Iterator[RecordBatch]:
        """One slice. Runs on a worker."""
        return _read(self._slice_reader, partition)


class DanubeStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """One stream: its offsets are its checkpoint, and no broker knows of it.

    All but `read` runs on the driver, in one process of its own for the life of the query.
    """

    def __init__(self, options: SourceOptions, decoding: TopicSchema | None = None) -> None:
        self._options = options
        self._slice_reader = _slice_reader(options, decoding)
        self._target: StreamOffsets | None = None
        """Where a query ends that reads what was there when it began."""
        self._seen: StreamOffsets | None = None

    @_in_a_sentence
    def initialOffset(self) -> OffsetJson:  # noqa: N802 - Spark's name
        """Start of a query without a checkpoint."""
        options = self._options
        states = self._states(options.start.times_ms)
        start = StreamOffsets.initial(states, options.start, fail_on_data_loss=options.fail_on_data_loss)
        return start.to_json()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        """Row limit of one micro-batch."""
        rows_max = self._options.max_rows_per_trigger
        return ReadAllAvailable() if rows_max is None else ReadMaxRows(rows_max)

    @_in_a_sentence
    def latestOffset(self, start: OffsetJson, limit: ReadLimit) -> OffsetJson:  # noqa: N802 - Spark's name
        """End of the next micro-batch."""
        since = StreamOffsets.from_json(start)
        states = [*self._states(), *since.states_of(link_to(self._options.endpoint).unreached)]
        self._seen = StreamOffsets.ends(states)
        rows_max = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        end = since.advanced(states, rows_max, fail_on_data_loss=self._options.fail_on_data_loss)
        return (end if self._target is None else end.capped(self._target, since)).to_json()

    def reportLatestOffset(self) -> OffsetJson | None:  # noqa: N802 - Spark's name
        """End of the topics at the last poll, for the query's metrics."""
        return self._seen.to_json() if self._seen else None

    @_in_a_sentence
    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """Read no further than what is there now."""
        self._target = StreamOffsets.ends(self._states())

    @_in_a_sentence
    def partitions(self, start: OffsetJson, end: OffsetJson) -> Sequence[InputPartition]:
        """The slices of one micro-batch: decided by the two offsets alone, so a repeated batch reads the same."""
        ranges = StreamOffsets.from_json(start).ranges_to(StreamOffsets.from_json(end))
        return _input_partitions(slices(ranges, self._options.rows_per_partition))

    def read(self, partition: InputPartition) -> Iterator[RecordBatch]:
        """One slice. Runs on a worker."""
        return _read(self._slice_reader, partition)

    def commit(self, end: OffsetJson) -> None:
        """Nothing to do: only the checkpoint holds the position."""

    def stop(self) -> None:
        """Disconnect."""
        close_link()

    def _states(self, times_ms: Sequence[int] = ()) -> list[TopicState]:
        return link_to(self._options.endpoint).states(self._options.topic, times_ms)


def _slice_reader(options: SourceOptions, decoding: TopicSchema | None) -> SliceReader:
    return SliceReader(
        endpoint=options.endpoint,
        columns=options.columns,
        fail_on_data_loss=options.fail_on_data_loss,
        decoding=decoding,
        folder=options.segments,
    )


def _input_partitions(planned: Sequence[OffsetRange]) -> list[InputPartition]:
    return [InputPartition(one) for one in planned]


def _read(reader: SliceReader, partition: InputPartition) -> Iterator[RecordBatch]:
    """Read one slice; Spark passes a partition without a slice where none was planned."""
    if partition.value is None:
        return iter(())
    if not isinstance(partition.value, OffsetRange):
        raise InvalidRequestError("this partition was planned by another data source")
    return _with_sentences(reader.read(partition.value))


def _with_sentences(batches: Iterator[RecordBatch]) -> Iterator[RecordBatch]:
    try:
        yield from batches
    except DanubeError as error:
        raise error.with_traceback(None) from None
