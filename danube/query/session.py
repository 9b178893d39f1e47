"""One query: find its tables, register them, run it within its bounds. Nothing outside of the topics can be read."""

import re
import threading
from collections.abc import Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from html import escape
from itertools import count
from pathlib import Path
from typing import Any, Final, TypeAlias

import duckdb
import pyarrow as pa  # type: ignore[import-untyped]

from danube.model.calls.stream import FetchFrom, FetchTime
from danube.model.errors import DanubeError, InvalidRequestError, LimitReachedError
from danube.model.text import size_text
from danube.model.topic import TopicName
from danube.objects.place import ObjectPlace
from danube.query.bounds import NARROWER, QUERY_ANSWER_BYTES_MAX, QUERY_CHARS_MAX, QueryBounds, Usage
from danube.query.topic_table import Source, TopicTable
from danube.runtime.blocking import LoopThread
from danube.runtime.clock import Clock, SystemClock
from danube.tables.link import Endpoint, Link
from danube.tables.planning import Positions

Table: TypeAlias = Any  # pyarrow has no types
DuckDb: TypeAlias = duckdb.DuckDBPyConnection
Name: TypeAlias = tuple[str, ...]

_BATCH_ROWS: Final = 2_048
_ALLOWED: Final = (duckdb.StatementType.SELECT, duckdb.StatementType.EXPLAIN)
_OF_DUCKDB: Final = frozenset({"information_schema", "pg_catalog"})
_PART: Final = re.compile(r'(?:"((?:[^"]|"")*)"|([^."\s]+))(\.|)')


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A query, and the part of its topics that it is about."""

    sql: str
    since_ms: int | None = None
    """Only messages that were appended then or later."""
    until_ms: int | None = None
    """Only messages that were appended before."""
    folder: Path | ObjectPlace | None = None
    """Shared folder or bucket of the brokers, whose segments are read in their place."""
    bounds: QueryBounds = field(default_factory=QueryBounds)


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """Rows of a query, and what it cost."""

    table: Table
    """Of Arrow; of columns that the query gives one name, the later ones have a number behind it."""
    is_cut: bool
    """True if there are more rows than the bound."""
    topics: tuple[str, ...]
    messages: int
    """Read for it."""
    read_bytes: int
    elapsed_s: float

    @property
    def names(self) -> list[str]:
        """Names of the columns."""
        return list(self.table.column_names)

    def rows(self) -> list[dict[str, Any]]:
        """The rows, as values of Python."""
        columns = [column.to_pylist() for column in self.table.columns]
        return [dict(zip(self.names, row, strict=True)) for row in zip(*columns, strict=True)]

    def to_pandas(self) -> Any:  # noqa: ANN401 - pandas may be absent
        """The rows as a DataFrame of pandas."""
        return self.table.to_pandas()

    def _repr_html_(self) -> str:
        """A table in a notebook."""
        head = "".join(f"<th>{escape(name)}</th>" for name in self.names)
        lines = ("".join(f"<td>{escape(str(value))}</td>" for value in row.values()) for row in self.rows())
        return f"<table><tr>{head}</tr>{''.join(f'<tr>{line}</tr>' for line in lines)}</table>"


class Query:
    """One query under way. `run` blocks: call it where no event loop runs, or in a thread."""

    def __init__(self, endpoint: Endpoint, question: Question, clock: Clock | None = None) -> None:
        self.usage = Usage(question.bounds, clock or SystemClock())
        self._endpoint = endpoint
        self._question = question
        self._duckdb: DuckDb | None = None
        self._is_ended = False

    def run(self) -> Answer:
        """The answer. Raises InvalidRequestError for SQL that is none, LimitReachedError at a bound, DanubeError."""
        if len(self._question.sql) > QUERY_CHARS_MAX:
            raise InvalidRequestError(f"the query has more than {QUERY_CHARS_MAX:,} characters")
        with closing(LoopThread("danube-query")) as thread, closing(Link(self._endpoint, thread)) as link:
            return self._answer(link)

    def end(self) -> None:
        """End the query, from another thread: `run` raises."""
        self._is_ended = True
        connection = self._duckdb
        if connection is not None:
            with suppress(duckdb.Error):
                connection.interrupt()

    def _answer(self, link: Link) -> Answer:
        bounds = self._question.bounds
        connection = self._duckdb = _connect(bounds)
        timer = threading.Timer(bounds.timeout_s, self.end)
        timer.daemon = True
        timer.start()
        try:
            names = _tables(connection, self._question.sql)
            topics = self._register(connection, link, names)
            table, is_cut = self._rows(connection)
        except duckdb.Error as error:
            raise self._told(error) from None
        finally:
            timer.cancel()
            self._duckdb = None
            connection.close()
        usage = self.usage
        return Answer(
            table=table,
            is_cut=is_cut,
            topics=topics,
            messages=usage.messages,
            read_bytes=usage.read_bytes,
            elapsed_s=usage.elapsed_s,
        )

    def _register(self, connection: DuckDb, link: Link, names: dict[Name, TopicName]) -> tuple[str, ...]:
        question = self._question
        source = Source(
            link=link,
            usage=self.usage,
            start=Positions(FetchFrom.EARLIEST if question.since_ms is None else FetchTime(question.since_ms)),
            end=Positions(FetchFrom.LATEST if question.until_ms is None else FetchTime(question.until_ms)),
            folder=question.folder,
        )
        topics = {str(topic): topic for topic in names.values()}
        for whole, topic in topics.items():
            connection.register(whole, TopicTable(source, topic))
        for name, topic in names.items():
            if len(name) > 1:
                connection.execute(f"CREATE SCHEMA IF NOT EXISTS {_quoted(name[:1])}")
            if name != (str(topic),):
                view, table = _quoted(name), _quoted((str(topic),))
                connection.execute(f"CREATE VIEW {view} AS SELECT * FROM {table}")  # noqa: S608 - quoted
        connection.execute("SET lock_configuration = true")
        return tuple(sorted(topics))

    def _rows(self, connection: DuckDb) -> tuple[Table, bool]:
        if self._is_ended:
            raise self.usage.late()
        rows_max = self._question.bounds.rows_max
        reader = connection.sql(self._question.sql).to_arrow_reader(_BATCH_ROWS)
        batches, rows, size_bytes = [], 0, 0
        for batch in reader:
            batches.append(batch)
            rows += batch.num_rows
            size_bytes += batch.nbytes
            if rows > rows_max or size_bytes > QUERY_ANSWER_BYTES_MAX:
                break
        table = pa.Table.from_batches(batches, schema=reader.schema).rename_columns(_distinct(reader.schema.names))
        return table.slice(0, rows_max), rows > rows_max or size_bytes > QUERY_ANSWER_BYTES_MAX

    def _told(self, error: duckdb.Error) -> DanubeError:
        """The cause of an error of DuckDB, which wraps what readers raise."""
        failure = self.usage.failure
        if isinstance(failure, DanubeError):
            return failure
        if isinstance(error, duckdb.InterruptException):
            return self.usage.late()
        if isinstance(error, duckdb.OutOfMemoryException):
            bound = size_text(self._question.bounds.memory_bytes_max)
            return LimitReachedError(f"the query needs more memory than its bound of {bound}: {NARROWER}")
        return InvalidRequestError(_sentence(str(error)))


def _connect(bounds: QueryBounds) -> DuckDb:
    """A database in memory that reaches no file, no network and no variable of Python."""
    connection = duckdb.connect(
        ":memory:",
        config={
            "enable_external_access": "false",
            "memory_limit": f"{bounds.memory_bytes_max}B",
            "threads": "2",
            "python_enable_replacements": "false",
        },
    )
    connection.execute("SET TimeZone = 'UTC'")
    return connection


def _tables(connection: DuckDb, sql: str) -> dict[Name, TopicName]:
    """Topics by the names that stand for them in a query. Raises InvalidRequestError."""
    statements = connection.extract_statements(sql)
    if len(statements) != 1 or statements[0].type not in _ALLOWED:
        raise InvalidRequestError("a query is one SELECT: it reads topics and changes nothing")
    names = {_parts(name) for name in connection.get_table_names(sql, qualified=True)}
    return {name: _topic_of(name) for name in sorted(names) if name[0] not in _OF_DUCKDB}


def _topic_of(name: Name) -> TopicName:
    """The topic of a table: `orders`, `shop.orders` or `"/shop/orders"`."""
    if len(name) == 1:
        return TopicName.parse(name[0] if name[0].startswith("/") else f"/default/{name[0]}")
    if len(name) == 2:
        return TopicName.parse(f"/{name[0]}/{name[1]}")
    raise InvalidRequestError(f'{".".join(name)} is no topic: write shop.orders or "/shop/orders"')


def _parts(text: str) -> Name:
    """The parts of a name as DuckDB writes it; what follows, such as an alias, is not of it."""
    parts: list[str] = []
    position, goes_on = 0, "."
    while goes_on and (found := _PART.match(text, position)):
        parts.append(found[2] or found[1].replace('""', '"'))
        position, goes_on = found.end(), found[3]
    return tuple(parts)


def _distinct(names: Sequence[str]) -> list[str]:
    """The names, each once: `key`, `key_1`."""
    found: dict[str, None] = {}
    for name in names:
        numbered = (f"{name}_{number}" for number in count(1))
        found[name if name not in found else next(each for each in numbered if each not in (*found, *names))] = None
    return list(found)


def _quoted(name: Name) -> str:
    return ".".join('"' + part.replace('"', '""') + '"' for part in name)


def _sentence(text: str) -> str:
    """An error of DuckDB in one line, with a hint for its commonest cause."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    said = lines[0] if lines else "the query failed"
    shown = " ".join([said, *(line for line in lines[1:] if line.startswith("Did you mean"))])
    if '"offset"' not in text and re.search(r"\boffset\b", text, re.IGNORECASE):
        shown += '; the column offset is written in quotes: "offset"'
    return f"the query cannot be run: {shown}"
