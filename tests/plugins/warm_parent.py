"""Our programs, forked from a parent that has imported them already: a second of a processor less for each process.

One that is forked is otherwise the same: command line, environment, output, signals and exit code are those of the
program. It is started anew where its interpreter would start in another way (a launcher, other `PYTHON...` variables).
"""

import gc
import importlib
import itertools
import json
import os
import pkgutil
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, BinaryIO, Final

import pytest

import danube
from danube.testing.processes.child import ChildProcess, Started, start_anew

_MODULES: Final = {"danube-broker": "danube.broker", "danube-admin": "danube.admin", "danube": "danube.cli"}
_WARMED: Final = (
    "admin.cli",
    "admin.grpc_gateway",
    "broker",
    "cli",
    "client",
    "metadata",
    "objects",
    "offline",
    "rpc",
    "storage",
)
"""Packages of which every module is imported: programs import some only once they know what they are to do."""
_TEST_PROGRAM: Final = "tests.unit.admin.cli.memory_program"
_READ_AT_START: Final = ("PYTHON", "LD_", "MALLOC", "GLIBC")
_ALIKE: Final = {"PYTHONUNBUFFERED", "PYTHONDONTWRITEBYTECODE"}
_MESSAGE_BYTES_MAX: Final = 1 << 20
_FILES: Final = 3  # standard input, output and error


@pytest.fixture(scope="session", autouse=True)
def _brokers_are_forked() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ChildProcess, "starter", staticmethod(_start))
        yield
    _PARENT.close()


def run(
    command: Sequence[str],
    *,
    stdin: bytes = b"",
    folder: Path | None = None,
    variables: Mapping[str, str],
    timeout_s: float,
) -> subprocess.CompletedProcess[bytes]:
    """One of our programs, to its end; as `subprocess.run`, which is what runs any other command."""
    with TemporaryFile() as given, TemporaryFile() as output, TemporaryFile() as errors:
        given.write(stdin)
        given.seek(0)
        if not _is_ours(command, variables):
            files: dict[str, Any] = {"stdin": given, "stdout": output, "stderr": errors}
            code = subprocess.run(
                command, **files, cwd=folder, env=variables, timeout=timeout_s, check=False
            ).returncode
        else:
            ours = _PARENT.fork(
                command, variables, folder or Path.cwd(), [each.fileno() for each in (given, output, errors)]
            )
            try:
                code = ours.wait(timeout_s)
            finally:
                ours.kill()
        output.seek(0)
        errors.seek(0)
        return subprocess.CompletedProcess(list(command), code, output.read(), errors.read())


def run_text(
    command: Sequence[str], *, folder: Path | None = None, variables: Mapping[str, str], timeout_s: float
) -> subprocess.CompletedProcess[str]:
    """The same with text for output, and nothing to read."""
    ended = run(command, folder=folder, variables=variables, timeout_s=timeout_s)
    return subprocess.CompletedProcess(ended.args, ended.returncode, ended.stdout.decode(), ended.stderr.decode())


def start_on(terminal: int, command: Sequence[str], *, folder: Path, variables: Mapping[str, str]) -> Started:
    """One of our programs, started in a session of its own with a terminal for its input, output and errors."""
    return _PARENT.fork(command, variables, folder, [terminal] * _FILES)


def _start(command: Sequence[str], output: BinaryIO, variables: dict[str, str]) -> Started:
    if not _is_ours(command, variables):
        return start_anew(command, output, variables)
    with Path(os.devnull).open("rb") as nothing:
        return _PARENT.fork(command, variables, Path.cwd(), [nothing.fileno(), output.fileno(), output.fileno()])


def _is_ours(command: Sequence[str], variables: Mapping[str, str]) -> bool:
    return _program(command) is not None and _at_start(variables) == _at_start(os.environ)


def _program(command: Sequence[str]) -> tuple[str, list[str]] | None:
    """Module and arguments of a command that is one of our programs."""
    first = Path(command[0])
    if first.parent == Path(sys.executable).parent and first.name in _MODULES:
        return _MODULES[first.name], list(command[1:])
    if command[0] == sys.executable and command[1] == "-m" and command[2] in {*_MODULES.values(), _TEST_PROGRAM}:
        return command[2], list(command[3:])
    return None


def _at_start(variables: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in variables.items() if name.startswith(_READ_AT_START) and name not in _ALIKE}


class _Parent:
    """The parent, seen from a test; it starts with the first process that it is to fork."""

    def __init__(self) -> None:
        self._socket: socket.socket | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._one_call = threading.Lock()
        self._numbers = itertools.count()

    def fork(
        self, command: Sequence[str], variables: Mapping[str, str], folder: Path, files: Sequence[int]
    ) -> "_Forked":
        request = {"program": _program(command), "variables": dict(variables), "folder": str(folder)}
        return _Forked(self, self.call(request, files))

    def call(self, request: dict[str, Any], files: Sequence[int] = ()) -> Any:
        with self._one_call:
            if self._socket is None:
                self._socket = self._open()
            number = next(self._numbers)
            socket.send_fds(self._socket, [json.dumps({**request, "number": number}).encode()], files)
            answer: dict[str, Any] = {}
            while answer.get("number") != number:  # else of a call that was interrupted
                answer = json.loads(self._socket.recv(_MESSAGE_BYTES_MAX))
            return answer["answer"]

    def close(self) -> None:
        """The parent ends; what it has forked goes on."""
        if self._socket is not None and self._process is not None:
            self._socket.close()
            self._process.wait()

    def _open(self) -> socket.socket:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", __name__, str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                start_new_session=True,
            )
        return ours


_PARENT: Final = _Parent()


class _Forked:
    """What `subprocess.Popen` says of a child, of one that the parent has forked."""

    def __init__(self, parent: _Parent, pid: int) -> None:
        self.pid = pid
        self._parent = parent
        self._code: int | None = None

    def poll(self) -> int | None:
        if self._code is None:
            self._code = self._parent.call({"ended": self.pid})
        return self._code

    def wait(self, timeout: float | None = None) -> int:
        if self.poll() is None:
            ended = os.pidfd_open(self.pid)
            try:
                select.select([ended], [], [], timeout)
            finally:
                os.close(ended)
        code = self.poll()
        if code is None:
            raise subprocess.TimeoutExpired(str(self.pid), timeout or 0.0)
        return code

    def send_signal(self, sig: int) -> None:
        if self.poll() is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, sig)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


def _main() -> None:
    """The parent itself, and each process that it forks, which becomes the program that was asked for."""
    for module in (*(f"{program}.__main__" for program in _MODULES.values()), _TEST_PROGRAM):
        importlib.import_module(module)
    for package in _WARMED:
        folder = Path(danube.__file__).parent.joinpath(*package.split("."))
        for found in pkgutil.walk_packages([str(folder)], f"danube.{package}."):
            importlib.import_module(found.name)
    gc.collect()
    gc.freeze()
    program = _serve(socket.socket(fileno=int(sys.argv[1])))
    (sys.modules.get(f"{program}.__main__") or sys.modules[program]).main()


def _serve(calls: socket.socket) -> str:
    """Answer until the other end is closed. Returns in forked processes alone, with the module of the program."""
    while True:
        said, files, _, _ = socket.recv_fds(calls, _MESSAGE_BYTES_MAX, _FILES)
        if not said:
            os._exit(0)
        request = json.loads(said)
        if "ended" in request:
            answer = _exit_code(request["ended"])
        elif pid := os.fork():
            answer = pid
        else:
            calls.close()
            return _become(request, files)
        for file in files:
            os.close(file)
        calls.send(json.dumps({"number": request["number"], "answer": answer}).encode())


def _exit_code(pid: int) -> int | None:
    found, status = os.waitpid(pid, os.WNOHANG)
    return os.waitstatus_to_exitcode(status) if found else None


def _become(request: dict[str, Any], files: Sequence[int]) -> str:
    os.setsid()
    for standard, file in enumerate(files):
        os.dup2(file, standard)
        os.close(file)
    _renew_streams()
    os.environ.clear()
    os.environ.update(request["variables"])
    os.chdir(request["folder"])
    program, arguments = request["program"]
    sys.argv = [program, *arguments]
    return str(program)


def _renew_streams() -> None:
    """As an interpreter makes them at its start, for what is behind the descriptors now."""
    encoding = sys.stdout.encoding
    sys.stdin = open(0, encoding=encoding, closefd=False)  # noqa: SIM115 - open to the end
    sys.stdout = open(1, "w", buffering=1 if os.isatty(1) else -1, encoding=encoding, closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", buffering=1, encoding=encoding, errors="backslashreplace", closefd=False)  # noqa: SIM115


if __name__ == "__main__":
    _main()
