"""A real Postgres for tests: one server, and a database for each test."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import psycopg

_PROGRAMS = [shutil.which("initdb"), *map(str, Path("/usr/lib/postgresql").glob("*/bin/initdb"))]
INITDB = next((each for each in _PROGRAMS if each), None)
_OPTIONS = "-c wal_level=logical -c fsync=off -c max_replication_slots=100 -c max_wal_senders=50 -c listen_addresses=''"
_USER = "postgres" if os.geteuid() == 0 else None
"""The server refuses to run as root."""


@dataclass
class PostgresServer:
    """A server that runs."""

    folder: Path
    numbers: "count[int]"

    def database(self) -> str:
        """The address of a new database."""
        name = f"test{next(self.numbers)}"
        with psycopg.connect(self._dsn("postgres"), autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name}")
        return self._dsn(name)

    def _dsn(self, database: str) -> str:
        return f"postgresql://postgres@/{database}?host={self.folder}"


@contextmanager
def running_postgres() -> Iterator[PostgresServer]:
    """A server in a folder of its own; it is stopped at the end."""
    assert INITDB is not None
    tool = Path(INITDB).with_name("pg_ctl")
    folder = Path(tempfile.mkdtemp(prefix="pg", dir="/tmp"))  # a short path: sockets have few characters
    if _USER is not None:
        shutil.chown(folder, _USER)
    data = folder / "data"

    def run(*command: str) -> None:
        subprocess.run(command, check=True, user=_USER, capture_output=True, timeout=60, cwd=folder)

    try:
        run(INITDB, "-D", str(data), "-U", "postgres", "-A", "trust", "--no-sync", "-E", "UTF8", "--locale=C")
        options = f"{_OPTIONS} -c unix_socket_directories={folder}"
        run(str(tool), "-D", str(data), "-w", "-l", str(folder / "log"), "-o", options, "start")
        yield PostgresServer(folder, count(1))
    finally:
        if (data / "postmaster.pid").exists():
            run(str(tool), "-D", str(data), "-m", "immediate", "stop")
        shutil.rmtree(folder, ignore_errors=True)
