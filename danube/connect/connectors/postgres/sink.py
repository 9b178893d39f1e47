"""The Postgres sink: rows of JSON objects, inserted or upserted by key, with the offset in the same transaction."""

import json
from typing import Any, Literal

import psycopg
from psycopg import sql
from pydantic import Field, SecretStr

from danube.connect.batch import Batch, Partition, Record
from danube.connect.config.routes import SinkRoute, SinkSettings
from danube.connect.connectors.postgres.connection import connect, other_side
from danube.connect.failures import RefusedError
from danube.connect.sdk import Context, ExactSink, sink
from danube.model.errors import SettingsError

_MAKE_POSITIONS = """
CREATE TABLE IF NOT EXISTS danube_positions (
    connector text, partition text, position bigint NOT NULL, PRIMARY KEY (connector, partition)
)"""
_COLUMNS = "SELECT attname FROM pg_attribute WHERE attrelid = to_regclass(%s) AND attnum > 0 AND NOT attisdropped"
Row = dict[str, Any]


class PostgresOutRoute(SinkRoute):
    """A topic, and the table of its records."""

    to: str = Field(min_length=1, description="Table, with its schema where that is not `public`.")
    key: tuple[str, ...] = Field(
        default=(), description="Columns of a unique index; of one key the last record counts."
    )


class PostgresOutSettings(SinkSettings):
    """`[postgres_out]`."""

    dsn: SecretStr = Field(description="postgresql://user:password@host/database; POSTGRES_OUT_DSN replaces it.")
    unknown_fields: Literal["refuse", "ignore"] = Field(default="refuse", description="Of fields without a column.")
    routes: tuple[PostgresOutRoute, ...] = Field(min_length=1)


@sink(settings=PostgresOutSettings)
class PostgresSink(ExactSink[bytes]):
    """Writes JSON objects as rows. The server converts each field to the type of its column."""

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._settings: PostgresOutSettings = context.settings
        self._route: PostgresOutRoute = context.route
        self._connection: psycopg.AsyncConnection[Any] | None = None
        self._columns: frozenset[str] = frozenset()
        self._table = sql.Identifier(*self._route.to.split("."))

    async def open(self) -> None:
        self._connection = await connect(self._settings.dsn)
        async with other_side():
            await self._connection.execute(_MAKE_POSITIONS)
            self._columns = await self._columns_of(self._connection)

    async def position(self, partition: Partition) -> int | None:
        async with other_side():
            return await self._saved(self._open, partition.key)

    async def write(self, batch: Batch[bytes]) -> None:
        async with other_side():
            await self._write(batch)

    async def close(self) -> None:
        if self._connection is not None:
            await self._connection.close()

    async def check(self) -> str:
        async with await connect(self._settings.dsn) as connection, other_side():
            return f"table {self._route.to} has the columns {', '.join(sorted(await self._columns_of(connection)))}"

    @property
    def _open(self) -> psycopg.AsyncConnection[Any]:
        if self._connection is None:
            raise SettingsError("the sink is not open")
        return self._connection

    async def _write(self, batch: Batch[bytes]) -> None:
        key = batch.partition.key
        async with self._open.transaction():
            await self._open.execute(
                "INSERT INTO danube_positions VALUES (%s, %s, 0) ON CONFLICT DO NOTHING", (self.context.connector, key)
            )
            fresh = batch.after(await self._saved(self._open, key, locked=True))
            if rows := self._rows(fresh):
                await self._open.execute(self._statement(rows), (json.dumps(rows),))
            await self._open.execute(
                "UPDATE danube_positions SET position = greatest(position, %s) WHERE connector = %s AND partition = %s",
                (batch.end, self.context.connector, key),
            )

    async def _saved(self, connection: psycopg.AsyncConnection[Any], key: str, *, locked: bool = False) -> int | None:
        query = "SELECT position FROM danube_positions WHERE connector = %s AND partition = %s"
        found = await connection.execute(query + (" FOR UPDATE" if locked else ""), (self.context.connector, key))
        row = await found.fetchone()
        return None if row is None else int(row[0])

    def _rows(self, batch: Batch[bytes]) -> list[Row]:
        """The rows of a batch; of one key the last. Raises RefusedError."""
        found: dict[object, Row] = {}
        for record in batch.records:
            row = self._row(record)
            identity = tuple(json.dumps(row.get(column)) for column in self._route.key) or record.offset
            found.pop(identity, None)
            found[identity] = row
        return list(found.values())

    def _row(self, record: Record[bytes]) -> Row:
        row = record.json()
        if not isinstance(row, dict):
            raise RefusedError("the payload is no JSON object", [record.offset])
        unknown = row.keys() - self._columns
        if unknown and self._settings.unknown_fields == "refuse":
            raise RefusedError(f"{self._route.to} has no column {min(unknown)!r}", [record.offset])
        if lacking := [column for column in self._route.key if row.get(column) is None]:
            raise RefusedError(f"the record has no {lacking[0]!r}, which is of the key", [record.offset])
        return row

    def _statement(self, rows: list[Row]) -> sql.Composed:
        """Columns that no row has keep their defaults, and on an upsert their values."""
        columns = sorted({column for row in rows for column in row} & self._columns)
        names = sql.SQL(", ").join(map(sql.Identifier, columns))
        statement = sql.SQL("INSERT INTO {0} ({1}) SELECT {1} FROM jsonb_populate_recordset(NULL::{0}, %s)").format(
            self._table, names
        )
        if not self._route.key:
            return statement
        changed = [sql.SQL("{0} = EXCLUDED.{0}").format(sql.Identifier(name)) for name in columns]
        key = sql.SQL(", ").join(map(sql.Identifier, self._route.key))
        update = sql.SQL(" ON CONFLICT ({}) DO UPDATE SET {}").format(key, sql.SQL(", ").join(changed))
        return statement + update

    async def _columns_of(self, connection: psycopg.AsyncConnection[Any]) -> frozenset[str]:
        found = await connection.execute(_COLUMNS, (self._route.to,))
        columns = frozenset(row[0] for row in await found.fetchall())
        if not columns:
            raise SettingsError(f"there is no table {self._route.to}: create it, or mend `to`")
        if lacking := set(self._route.key) - columns:
            raise SettingsError(f"{self._route.to} has no column {min(lacking)!r}: mend `key`")
        return columns
