"""A stream of logical replication on asyncio: the messages of a slot, and how far they may be forgotten."""

import asyncio
import struct
import time
from collections.abc import AsyncGenerator
from typing import Any

import psycopg
from psycopg import pq, sql

from danube.connect.failures import OtherSideError
from danube.model.errors import SettingsError
from danube.model.limits.faces import POSTGRES_FEEDBACK_S

_EPOCH_S = 946_684_800
"""The epoch of Postgres, 2000, in seconds of Unix."""
_GONE = {"42704", "55000"}
"""SQLSTATE of a slot that is not there, and of one that lost its log."""


class ReplicationStream:
    """Messages of one slot."""

    def __init__(self, connection: psycopg.AsyncConnection[Any], slot: str, publication: str) -> None:
        """The connection was opened with `replication=database`."""
        self._pgconn = connection.pgconn
        self._slot = slot
        self._publication = publication
        self._stored_lsn = 0
        self._readable = asyncio.Event()

    async def messages(self, lsn: int) -> AsyncGenerator[bytes, None]:
        """Messages of transactions whose commit is at `lsn` or later. Raises SettingsError without the slot."""
        self._start(lsn)
        loop, socket = asyncio.get_running_loop(), self._pgconn.socket
        loop.add_reader(socket, self._readable.set)
        try:
            while True:
                size, data = self._pgconn.get_copy_data(1)
                if size > 0:
                    if (message := self._message(bytes(data))) is not None:
                        yield message
                elif size == 0:
                    await self._wait()
                else:
                    result = self._pgconn.get_result()
                    text = result.error_message.decode() if result else "the stream has ended"
                    raise OtherSideError(f"Postgres: {text.strip()}")
        except psycopg.Error as error:
            raise OtherSideError(f"Postgres: {error}") from None
        finally:
            loop.remove_reader(socket)

    def confirm(self, lsn: int) -> None:
        """Tell that all that is committed before `lsn` is stored: the server may forget it."""
        self._stored_lsn = max(self._stored_lsn, lsn)
        self._tell()

    def _start(self, lsn: int) -> None:
        command = sql.SQL("START_REPLICATION SLOT {} LOGICAL {} (proto_version '1', publication_names {})").format(
            sql.Identifier(self._slot),
            sql.SQL(f"{lsn >> 32:X}/{lsn & 0xFFFFFFFF:X}"),
            sql.Literal(self._publication),
        )
        result = self._pgconn.exec_(command.as_string(None).encode())
        if result.status == pq.ExecStatus.COPY_BOTH:
            return
        state = (result.error_field(pq.DiagnosticField.SQLSTATE) or b"").decode()
        reason = (result.error_field(pq.DiagnosticField.MESSAGE_PRIMARY) or b"no reason was given").decode()
        if state in _GONE and "active" not in reason:
            raise SettingsError(
                f"Postgres: {reason}. Changes since then are lost: give the connector a new name and a new topic, and "
                "it begins with a snapshot"
            )
        raise OtherSideError(f"Postgres: {reason}")

    async def _wait(self) -> None:
        self._readable.clear()
        try:
            async with asyncio.timeout(POSTGRES_FEEDBACK_S):
                await self._readable.wait()
        except TimeoutError:
            self._tell()
        self._pgconn.consume_input()

    def _message(self, data: bytes) -> bytes | None:
        """The message of a frame; None for one that only asks whether this end lives."""
        if data[:1] == b"w":
            return data[25:]
        if data[17:18] == b"\1":
            self._tell()
        return None

    def _tell(self) -> None:
        lsn, now_us = self._stored_lsn, round((time.time() - _EPOCH_S) * 1_000_000)
        try:
            self._pgconn.put_copy_data(struct.pack("!cqqqqb", b"r", lsn, lsn, lsn, now_us, 0))
            self._pgconn.flush()
        except psycopg.Error as error:
            raise OtherSideError(f"Postgres: {error}") from None
