"""The process that checks payloads which may hold an event loop up: libraries of schemas keep the interpreter.

One for a broker, started at the first need and again after a check that it did not survive.
"""

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from multiprocessing import Pipe
from multiprocessing.connection import Connection

from danube.model.errors import ShuttingDownError, UnavailableError
from danube.model.limits.registry import SCHEMA_VALIDATORS_MAX
from danube.model.limits.schema import SCHEMA_CHECK_WALL_S
from danube.model.untrusted_json import decode_json
from danube.runtime.blocking import BlockingThread
from danube.schema.validation import Judgement, Validator

_COMMAND = (sys.executable, "-s", "-P", "-m", "danube.runtime.payload_checks.program")


class CheckProcess:
    """The process, and the thread that waits for it."""

    def __init__(self) -> None:
        self._thread = BlockingThread("payload-checks")
        self._process: subprocess.Popen[bytes] | None = None
        self._connection: Connection | None = None
        self._known: set[int] = set()
        """Numbers of the definitions that the process has."""
        self._closed = False

    async def judge(
        self, number: int, checks: Validator, payloads: Sequence[bytes], *, with_reason: bool
    ) -> Judgement | None:
        """As `schema.validation.judge`, by the definition of that number; None for a check that took too much.

        Raises UnavailableError where that says nothing of the payloads, ShuttingDownError.
        """
        return await self._thread.run(lambda: self._judge(number, checks, payloads, with_reason))

    async def aclose(self) -> None:
        """End the process, and what it checks."""
        self._closed = True
        if self._process is not None:
            self._process.kill()  # the thread has the connection
        await self._thread.aclose()
        with contextlib.suppress(ShuttingDownError):
            self._end()

    def _judge(self, number: int, checks: Validator, payloads: Sequence[bytes], with_reason: bool) -> Judgement | None:  # noqa: FBT001 - as above
        connection = self._running()
        forget = len(self._known) >= SCHEMA_VALIDATORS_MAX
        if forget:
            self._known.clear()
        given = None if number in self._known else checks
        try:
            connection.send((number, forget, given, payloads, with_reason))
            answer = connection.recv_bytes() if connection.poll(SCHEMA_CHECK_WALL_S) else b""
        except (EOFError, OSError):
            answer = b""
        if answer:
            self._known.add(number)
            return Judgement(*decode_json(answer, any_text=True))
        if self._end() == -signal.SIGKILL:  # by us after the wall time, or by somebody else: no limit of its own
            raise UnavailableError("the process that checks large messages was stopped: send the message again")
        return None

    def _running(self) -> Connection:
        if self._connection is not None and self._process is not None and self._process.poll() is None:
            return self._connection
        self._end()
        self._connection, theirs = Pipe()
        nothing, number = subprocess.DEVNULL, theirs.fileno()
        try:
            self._process = subprocess.Popen(  # noqa: S603 - our own program
                (*_COMMAND, str(number)), env={"PYTHONPATH": os.pathsep.join(sys.path)}, pass_fds=[number],
                stdin=nothing, stdout=nothing, stderr=nothing, start_new_session=True,
            )  # fmt: skip
            theirs.close()
            if self._connection.poll(SCHEMA_CHECK_WALL_S) and self._connection.recv_bytes():
                return self._connection
            reason = "it says nothing"
        except (EOFError, OSError) as error:
            reason = str(error) or "it ended"
        theirs.close()
        self._end()
        raise UnavailableError(f"the process that checks large messages does not start: {reason}: try again")

    def _end(self) -> int | None:
        """End the process and answer how it ended. Raises ShuttingDownError once closed: its answer is unknown then."""
        process, self._process = self._process, None
        connection, self._connection = self._connection, None
        self._known.clear()
        if process is not None:
            process.kill()
            process.wait()
        if connection is not None:
            connection.close()
        if self._closed:
            raise ShuttingDownError("the broker ends: send the message again, to another one or later")
        return process.returncode if process is not None else None
