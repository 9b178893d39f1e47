"""The Postgres source: the rows of tables as they are, then each change in the order of commits."""

import logging
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import replace
from typing import Any

import msgspec
import psycopg
from psycopg import sql
from pydantic import Field, SecretStr, field_validator

from danube.connect.batch import Out
from danube.connect.config.routes import SourceSettings
from danube.connect.connectors.postgres.connection import connect, other_side
from danube.connect.connectors.postgres.pgoutput import Begin, Change, Column, Commit, Decoder, Relation, Row, value_of
from danube.connect.connectors.postgres.stream import ReplicationStream
from danube.connect.sdk import Context, Source, source
from danube.model.errors import SettingsError
from danube.model.limits.faces import POSTGRES_CHUNK_ROWS, POSTGRES_SLOT_LAG_BYTES

_encode = msgspec.json.Encoder().encode
_log = logging.getLogger(__name__)
_COLUMNS = """
SELECT a.attname, a.atttypid::int8, coalesce(a.attnum = ANY(i.indkey), false)
FROM pg_attribute a LEFT JOIN pg_index i ON i.indrelid = a.attrelid AND i.indisprimary
WHERE a.attrelid = to_regclass(%s) AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum"""
_SLOT = """
SELECT coalesce(pg_wal_lsn_diff(pg_current_wal_lsn(), confirmed_flush_lsn), 0)::int8, wal_status
FROM pg_replication_slots WHERE slot_name = %s"""
_SNAPSHOT = "snapshot"


class PostgresSettings(SourceSettings):
    """`[postgres]`."""

    dsn: SecretStr = Field(description="postgresql://user:password@host/database; POSTGRES_DSN replaces it.")
    tables: tuple[str, ...] = Field(min_length=1, description="Tables with primary keys; `public.` is left out or not.")
    slot: str = Field(default="", pattern=r"^[a-z0-9_]{0,63}$", description="Slot and publication; made if need be.")
    snapshot: bool = Field(default=True, description="False: only changes from the first start on.")

    @field_validator("tables")
    @classmethod
    def _with_schema(cls, tables: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(sorted(table if "." in table else f"public.{table}" for table in tables))


@source(settings=PostgresSettings)
class PostgresSource(Source[bytes]):
    """Change data capture. Positions are `["snapshot", table, key]`, and `[LSN of the commit, number in it]` after."""

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._settings: PostgresSettings = context.settings
        name = "".join(char if char.isalnum() else "_" for char in context.connector.lower())
        self._slot = self._settings.slot or f"danube_{name}"[:63]
        self._connection: psycopg.AsyncConnection[Any] | None = None
        self._replication: psycopg.AsyncConnection[Any] | None = None
        self._stream: ReplicationStream | None = None

    async def open(self) -> None:
        self._connection = await connect(self._settings.dsn)
        self._replication = await connect(self._settings.dsn, replication="database")

    async def close(self) -> None:
        for connection in (self._connection, self._replication):
            if connection is not None:
                await connection.close()

    async def read(self, after: Any) -> AsyncGenerator[Out[bytes], None]:  # noqa: ANN401 - JSON
        if self._connection is None or self._replication is None:
            raise SettingsError("the source is not open")
        if self._settings.snapshot and self.partitions > 1:
            raise SettingsError(
                "a snapshot needs a topic without partitions, since its rows may differ when they are read again: "
                "take another topic, or set snapshot = false"
            )
        if after is None:
            async with other_side():
                await self._make_slot(self._connection)
        if after is None or after[0] == _SNAPSHOT:
            if self._settings.snapshot:
                async with aclosing(self._snapshot(self._connection, after)) as rows:
                    async for row in rows:
                        yield row
            after = None
        self._stream = ReplicationStream(self._replication, self._slot, self._slot)
        async with aclosing(self._changes(self._stream, after)) as changes:
            async for change in changes:
                yield change

    async def confirm(self, position: Any) -> None:  # noqa: ANN401 - JSON
        if self._stream is not None and position[0] != _SNAPSHOT:
            self._stream.confirm(position[0])

    async def check(self) -> str:
        async with await connect(self._settings.dsn) as connection, other_side():
            level = await _one(connection, "SHOW wal_level")
            if level != "logical":
                raise SettingsError(f"wal_level is {level}: set it to logical and restart the server")
            for table in self._settings.tables:
                await self._relation(connection, table)
            return f"{len(self._settings.tables)} tables; {await self._slot_text(connection)}"

    async def _make_slot(self, connection: psycopg.AsyncConnection[Any]) -> None:
        """The publication and the slot, before anything is read: no change falls between snapshot and stream."""
        tables = sql.SQL(", ").join(sql.Identifier(*table.split(".", 1)) for table in self._settings.tables)
        for table in self._settings.tables:
            await self._relation(connection, table)
        if not await _one(connection, "SELECT 1 FROM pg_publication WHERE pubname = %s", self._slot):
            await connection.execute(
                sql.SQL("CREATE PUBLICATION {} FOR TABLE {}").format(sql.Identifier(self._slot), tables)
            )
        query = "SELECT database = current_database() FROM pg_replication_slots WHERE slot_name = %s"
        is_here = await _one(connection, query, self._slot)
        if is_here is False:
            raise SettingsError(f"the slot {self._slot} is of another database: name another `slot`")
        if is_here is None:
            await connection.execute("SELECT pg_create_logical_replication_slot(%s, 'pgoutput')", (self._slot,))
        _log.info("%s: %s", self.context.connector, await self._slot_text(connection))

    async def _slot_text(self, connection: psycopg.AsyncConnection[Any]) -> str:
        found = await (await connection.execute(_SLOT, (self._slot,))).fetchone()
        if found is None:
            return f"the slot {self._slot} will be made"
        lag, status = found
        if lag > POSTGRES_SLOT_LAG_BYTES or status in {"unreserved", "lost"}:
            _log.warning("slot %s holds %d MB of the server's log (%s)", self._slot, lag // 1_000_000, status)
        return f"the slot {self._slot} holds {lag // 1_000_000} MB of the server's log, which is {status}"

    async def _relation(self, connection: psycopg.AsyncConnection[Any], table: str) -> Relation:
        found = await (await connection.execute(_COLUMNS, (table,))).fetchall()
        columns = tuple(Column(name, type_id, is_key) for name, type_id, is_key in found)
        if not columns:
            raise SettingsError(f"there is no table {table}: create it, or mend `tables`")
        if not any(column.is_key for column in columns):
            raise SettingsError(f"{table} has no primary key: add one, since changes and chunks are told by it")
        return Relation(table, columns)

    async def _snapshot(self, connection: psycopg.AsyncConnection[Any], after: Any) -> AsyncGenerator[Out[bytes], None]:  # noqa: ANN401 - JSON
        """Rows in chunks by primary key, as they are when they are read; the stream repeats what changed since."""
        held: Out[bytes] | None = None
        _, first, last = after or (_SNAPSHOT, self._settings.tables[0], None)
        for table in (each for each in self._settings.tables if each >= first):
            async with other_side():
                relation = await self._relation(connection, table)
            key = last if table == first else None
            while True:
                async with other_side():
                    rows = await self._chunk(connection, relation, key)
                for texts in rows:
                    row = {
                        column.name: value_of(text, column.type_id)
                        for column, text in zip(relation.columns, texts, strict=True)
                    }
                    key = [text for column, text in zip(relation.columns, texts, strict=True) if column.is_key]
                    if held is not None:
                        yield held
                    held = _out(Change("r", relation, after=row), [_SNAPSHOT, table, key], 0)
                if len(rows) < POSTGRES_CHUNK_ROWS:
                    break
        if held is not None:  # with it the snapshot is complete: what comes after a restart comes by the stream alone
            yield replace(held, position=[0, 0])

    async def _chunk(
        self, connection: psycopg.AsyncConnection[Any], relation: Relation, key: list[str] | None
    ) -> list[tuple[str | None, ...]]:
        keys = sql.SQL(", ").join(sql.Identifier("t", column.name) for column in relation.columns if column.is_key)
        texts = sql.SQL(", ").join(sql.SQL("{}::text").format(sql.Identifier(each.name)) for each in relation.columns)
        begin = (
            sql.SQL("WHERE ({}) > ({})").format(keys, sql.SQL(", ").join(map(sql.Literal, key))) if key else sql.SQL("")
        )
        query = sql.SQL("SELECT {} FROM {} t {} ORDER BY {} LIMIT {}").format(
            texts, sql.Identifier(*relation.name.split(".", 1)), begin, keys, sql.Literal(POSTGRES_CHUNK_ROWS)
        )
        return await (await connection.execute(query)).fetchall()

    async def _changes(self, stream: ReplicationStream, after: list[int] | None) -> AsyncGenerator[Out[bytes], None]:
        """Changes after a position: the transaction that it is in comes whole, and its first part is passed over."""
        decoder, begin, number = Decoder(), Begin(0, 0), 0
        seen_lsn, seen = after or (0, 0)
        async with aclosing(stream.messages(seen_lsn)) as messages:
            async for message in messages:
                for event in decoder.decode(message):
                    if isinstance(event, Begin):
                        begin, number = event, 0
                    elif not isinstance(event, Commit):
                        number += 1
                        if (begin.lsn, number) > (seen_lsn, seen):
                            yield _out(event, [begin.lsn, number], begin.time_us // 1_000 + 946_684_800_000)


def _out(change: Change, position: list[Any], time_ms: int) -> Out[bytes]:
    """The record of a change: JSON of operation, table, rows; its key is the row's."""
    relation, row = change.relation, change.after or change.before or {}
    value: Row = {"op": change.operation, "table": relation.name, "before": change.before, "after": change.after}
    if change.unchanged:
        value["unchanged"] = list(change.unchanged)
    if position[0] != _SNAPSHOT:
        value |= {"lsn": position[0], "time_ms": time_ms}
    key = _encode({"table": relation.name, **relation.key_of(row)}).decode()
    return Out(
        _encode(value),
        position,
        key=key,
        attributes={"content-type": "application/json", "x-postgres-table": relation.name},
    )


async def _one(connection: psycopg.AsyncConnection[Any], query: str, *values: object) -> Any:  # noqa: ANN401 - a value
    row = await (await connection.execute(query, values)).fetchone()
    return None if row is None else row[0]
