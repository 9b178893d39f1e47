"""Postgres, both ways, against a real server: the contract suite, and what its rows, keys and slots are."""

import json
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import psycopg
import pytest

from danube.connect.batch import Out, Record
from danube.connect.connectors.postgres.sink import PostgresSink
from danube.connect.connectors.postgres.source import PostgresSource
from danube.connect.sdk import Definition, definition_of
from danube.model.records.connectors import Status
from danube.testing.connect import SINK_CASES, SINK_KILLS, SOURCE_CASES, SOURCE_KILLS, Case, SinkSide, SourceSide
from danube.testing.connect.workbench import TOPIC, Workbench, payloads, until, workbench
from tests.unit.connect.postgres_server import INITDB, PostgresServer, running_postgres

pytestmark = pytest.mark.skipif(INITDB is None, reason="needs PostgreSQL (apt-get install postgresql)")
FEW = {
    "all records are written, once",
    "a failure that nobody explains is bisected",
    "killed after a write, before the acknowledgement, the second time",
    "a paused task comes back",
    "all records are sent, once and in order",
    "drained and begun anew",
    "killed after the receipt, before the confirmation, number 1",
    "killed before a record is read, number 13",
}
"""Cases of every run; the others are nightly."""


def cases(every: Sequence[Any]) -> list[Any]:
    return [pytest.param(each, marks=() if each.name in FEW else pytest.mark.nightly, id=str(each)) for each in every]


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    with running_postgres() as server:
        yield server


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Workbench]:
    async with workbench(tmp_path) as bench:
        yield bench


class _Payloads(PostgresSource):
    """Of each change the payload alone, for the contract."""

    async def read(self, after: Any) -> AsyncGenerator[Out[bytes], None]:
        async for change in super().read(after):
            yield replace(change, value=json.loads(change.value)["after"]["payload"].encode())


class _Rows(PostgresSink):
    """A row for any payload, for the contract."""

    def _row(self, record: Record[bytes]) -> dict[str, Any]:
        return {"payload": record.payload.decode()}


def slot_of(dsn: str) -> str:
    """Slots are of the server: each database has another name for its own."""
    return "slot_" + dsn.partition("?")[0].rpartition("/")[2]


class Side:
    """A table with a number and a payload."""

    def __init__(self, dsn: str, definition: Definition) -> None:
        self.dsn = dsn
        self.definition = definition
        self.section = {"dsn": dsn} | (
            {"tables": ["items"], "slot": slot_of(dsn)} if definition.direction == "source" else {}
        )
        self.route = {"to": "items"}
        self.run("CREATE TABLE items (id bigserial PRIMARY KEY, payload text)")

    def run(self, query: str, *values: object) -> list[tuple[Any, ...]]:
        with psycopg.connect(self.dsn, autocommit=True) as connection:
            done = connection.execute(query, values)
            return done.fetchall() if done.description else []

    async def rows(self) -> list[bytes]:
        return [row[0].encode() for row in self.run("SELECT payload FROM items ORDER BY id")]

    async def add(self, payloads: Sequence[bytes]) -> None:
        with psycopg.connect(self.dsn) as connection:
            for payload in payloads:
                connection.execute("INSERT INTO items (payload) VALUES (%s)", (payload.decode(),))


@pytest.mark.parametrize("case", cases(SINK_CASES + SINK_KILLS))
async def test_the_sink_keeps_the_contract(case: Case[SinkSide], server: PostgresServer, tmp_path: Path) -> None:
    await case.run(Side(server.database(), replace(definition_of(PostgresSink), make=_Rows)), tmp_path)


@pytest.mark.parametrize("case", cases([each for each in SOURCE_CASES + SOURCE_KILLS if "partitions" not in each.name]))
async def test_the_source_keeps_the_contract(case: Case[SourceSide], server: PostgresServer, tmp_path: Path) -> None:
    await case.run(Side(server.database(), replace(definition_of(PostgresSource), make=_Payloads)), tmp_path)


async def changes(bench: Workbench, count: int) -> list[dict[str, Any]]:
    async def are_there() -> bool:
        return len(await bench.client.partitions(TOPIC)) == 1 and len(await bench.stored()) >= count

    await until(are_there, f"{count} changes are stored")
    return [json.loads(message.payload) for message in await bench.stored()]


async def test_changes_have_their_operation_and_rows_and_large_columns_that_stayed_are_named(
    server: PostgresServer, bench: Workbench
) -> None:
    side = Side(server.database(), definition_of(PostgresSource))
    side.run("CREATE TABLE kinds (a int, b text, n numeric, f float8, t bool, j jsonb, big text, PRIMARY KEY (a, b))")
    side.run("ALTER TABLE kinds ALTER big SET STORAGE EXTERNAL")
    side.run("INSERT INTO kinds VALUES (1, 'x', 0.10, 1.5, true, '{\"k\": [1]}', repeat('z', 10000))")
    await bench.run(side.definition, {**side.section, "tables": ["kinds"]}, [{"to": TOPIC}])
    (first,) = await changes(bench, 1)
    assert first["after"] == {
        "a": 1,
        "b": "x",
        "n": "0.10",
        "f": 1.5,
        "t": True,
        "j": {"k": [1]},
        "big": "z" * 10_000,
    }
    side.run("UPDATE kinds SET f = NULL")
    side.run("ALTER TABLE kinds ADD COLUMN more int")
    side.run("UPDATE kinds SET a = 2, more = 7, big = 's'")
    side.run("DELETE FROM kinds")
    side.run("TRUNCATE kinds")
    _, updated, moved, deleted, truncated = await changes(bench, 5)
    assert (updated["op"], updated["after"]["f"], updated["unchanged"]) == ("u", None, ["big"])
    assert (moved["before"], moved["after"]["more"]) == ({"a": 1, "b": "x"}, 7)
    assert (deleted["op"], deleted["before"], deleted["after"]) == ("d", {"a": 2, "b": "x"}, None)
    assert (truncated["op"], truncated["table"]) == ("t", "public.kinds")
    keys = [json.loads(message.routing_key) for message in await bench.stored()]
    assert keys[0] == {"table": "public.kinds", "a": 1, "b": "x"}


async def test_a_slot_that_somebody_dropped_is_told_and_ends_the_task(server: PostgresServer, bench: Workbench) -> None:
    side = Side(server.database(), definition_of(PostgresSource))
    await side.add(payloads(2))
    runner = await bench.run(side.definition, side.section, [{"to": TOPIC}])
    await changes(bench, 2)
    await side.add(payloads(1))
    await changes(bench, 3)
    await runner.drain()
    side.run("SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE database = current_database()")
    again = await bench.run(side.definition, side.section, [{"to": TOPIC}])

    async def has_failed() -> bool:
        return [state.status for state in again.states] == [Status.FAILED]

    await until(has_failed, "the task has failed")
    assert "Changes since then are lost" in (again.problem() or "")


async def test_the_server_may_forget_what_is_stored(server: PostgresServer, bench: Workbench) -> None:
    side = Side(server.database(), definition_of(PostgresSource))
    await bench.run(side.definition, side.section, [{"to": TOPIC}])
    where = "SELECT count(*) FROM pg_replication_slots WHERE database = current_database()"

    async def is_streaming() -> bool:
        return side.run(f"{where} AND active") == [(1,)]

    await until(is_streaming, "the slot streams")
    (lsn,) = side.run("SELECT pg_current_wal_lsn()::text")[0]
    await side.add(payloads(3))
    await changes(bench, 3)

    async def is_confirmed() -> bool:
        return side.run(f"{where} AND confirmed_flush_lsn > %s::pg_lsn", lsn) == [(1,)]

    await until(is_confirmed, "the slot is confirmed")


async def test_changes_reach_each_partition_once_through_restarts_and_a_snapshot_asks_for_one(
    server: PostgresServer, bench: Workbench
) -> None:
    side = Side(server.database(), replace(definition_of(PostgresSource), make=_Payloads))
    route = [{"to": TOPIC, "partitions": 3}]
    refused = await bench.run(side.definition, side.section, route)

    async def has_failed() -> bool:
        return [state.status for state in refused.states] == [Status.FAILED]

    await until(has_failed, "the task has failed")
    assert "a snapshot needs a topic without partitions" in (refused.problem() or "")
    await refused.close()
    section = side.section | {"snapshot": False}
    where = "SELECT count(*) FROM pg_replication_slots WHERE database = current_database()"
    for turn in range(4):
        runner = await bench.run(side.definition, section, route)

        async def is_streaming() -> bool:
            return side.run(f"{where} AND active") == [(1,)]

        await until(is_streaming, "the slot streams")
        await side.add(payloads(20, first=20 * turn))
        wanted = payloads(20 * (turn + 1))

        async def has_all(wanted: list[bytes] = wanted) -> bool:
            return set(wanted) <= {message.payload for message in await bench.stored()}

        await until(has_all, f"{len(wanted)} changes are there")
        await runner.close()
        assert sorted(message.payload for message in await bench.stored()) == sorted(wanted)


async def test_rows_are_upserted_by_key_and_what_does_not_fit_goes_to_the_dead_letters(
    server: PostgresServer, bench: Workbench
) -> None:
    side = Side(server.database(), definition_of(PostgresSink))
    side.run("CREATE TABLE orders (id int PRIMARY KEY, item text, paid bool DEFAULT false, at timestamptz)")
    rows = [
        *({"id": 1, "item": "book"}, {"id": 2, "item": "pen", "at": "2026-01-02T03:04:05Z"}, {"id": 1, "paid": True}),
        *({"id": "no number"}, {"id": 3, "colour": "red"}, {"item": "no key"}, [1]),
    ]
    await bench.produce([json.dumps(row).encode() for row in rows])
    await bench.run(side.definition, side.section, [{"from": TOPIC, "to": "public.orders", "key": ["id"]}])

    async def are_written() -> bool:
        return len(side.run("SELECT 1 FROM orders")) == 2 and len(await bench.dead_letters()) == 4

    await until(are_written, "the rows and the dead letters are there")
    assert side.run("SELECT id, item, paid FROM orders ORDER BY id") == [(1, "book", True), (2, "pen", False)]
    reasons = [letter.attributes["x-failure-reason"] for letter in await bench.dead_letters()]
    assert sorted(reason.split(":")[0] for reason in reasons) == [
        "invalid input syntax for type integer",
        "public.orders has no column 'colour'",
        "the payload is no JSON object",
        "the record has no 'id', which is of the key",
    ]


async def test_a_table_that_is_not_there_is_told(server: PostgresServer, bench: Workbench) -> None:
    side = Side(server.database(), definition_of(PostgresSink))
    await bench.produce(payloads(1))
    runner = await bench.run(side.definition, side.section, [{"from": TOPIC, "to": "nowhere"}])

    async def has_failed() -> bool:
        return [state.status for state in runner.states] == [Status.FAILED]

    await until(has_failed, "the task has failed")
    assert "there is no table nowhere" in (runner.problem() or "")
