"""Fork server of our programs: it has imported them already, which is a second of a processor less for each process.

One that is forked is otherwise the same: command line, environment, output, signals and exit code are those of the
program, and so is its end. (The fork server of `multiprocessing` ends its children without theirs.) A program is
started anew where its interpreter would start in another way: a launcher, other `PYTHON...` variables.
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
from danube.testing.processes.child import ChildProcess, Started

_COMMANDS: Final = {"danube-broker": "danube.broker", "danube-admin": "danube.admin", "danube": "danube.cli"}
_MAINS: Final = {
    **{package: f"{package}.__main__" for package in _COMMANDS.values()},
    "tests.unit.admin.cli.memory_program": "tests.unit.admin.cli.memory_program",
}
"""For each module of `python -m`, the one with its function `main`."""
_PRELOADED: Final = (
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
"""Every module of these packages is imported: programs import some only once they know what they are to do."""
_READ_AT_START: Final = ("PYTHON", "LD_", "MALLOC", "GLIBC")
_ALIKE: Final = {"PYTHONUNBUFFERED", "PYTHONDONTWRITEBYTECODE"}
_MESSAGE_BYTES_MAX: Final = 1 << 20
_FILES: Final = 3  # standard input, output and error


@pytest.fixture(scope="session", autouse=True)
def _brokers_are_forked() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ChildProcess, "starter", staticmethod(_start))
        yield
    _SERVER.close()


def run(
    command: Sequence[str],
    *,
    stdin: bytes = b"",
    folder: Path | None = None,
    variables: Mapping[str, str],
    timeout_s: float,
) -> subprocess.CompletedProcess[bytes]:
    """Run a program to its end, as `subprocess.run` does. Raises TimeoutExpired."""
    with TemporaryFile() as given, TemporaryFile() as output, TemporaryFile() as errors:
        given.write(stdin)
        given.seek(0)
        files = [file.fileno() for file in (given, output, errors)]
        program = start(command, files=files, folder=folder or Path.cwd(), variables=variables)
        try:
            code = program.wait(timeout_s)
        finally:
            program.kill()
        output.seek(0)
        errors.seek(0)
        return subprocess.CompletedProcess(list(command), code, output.read(), errors.read())


def run_text(
    command: Sequence[str], *, folder: Path | None = None, variables: Mapping[str, str], timeout_s: float
) -> subprocess.CompletedProcess[str]:
    """The same with text for output, and nothing to read."""
    ended = run(command, folder=folder, variables=variables, timeout_s=timeout_s)
    return subprocess.CompletedProcess(ended.args, ended.returncode, ended.stdout.decode(), ended.stderr.decode())


def start(command: Sequence[str], *, files: Sequence[int], folder: Path, variables: Mapping[str, str]) -> Started:
    """A program in a session of its own; `files` are its standard input, output and error."""
    program = _program(command)
    if program is not None and _at_start(variables) == _at_start(os.environ):
        return _SERVER.fork(program, files, folder, variables)
    given, output, errors = files
    return subprocess.Popen(
        command, stdin=given, stdout=output, stderr=errors, cwd=folder, env=variables, start_new_session=True
    )


def _start(command: Sequence[str], output: BinaryIO, variables: dict[str, str]) -> Started:
    with Path(os.devnull).open("rb") as nothing:
        files = [nothing.fileno(), output.fileno(), output.fileno()]
        return start(command, files=files, folder=Path.cwd(), variables=variables)


def _program(command: Sequence[str]) -> tuple[str, list[str]] | None:
    """Module and arguments of a command that is one of our programs."""
    first = Path(command[0])
    if first.parent == Path(sys.executable).parent and first.name in _COMMANDS:
        return _COMMANDS[first.name], list(command[1:])
    if command[0] == sys.executable and command[1] == "-m" and command[2] in _MAINS:
        return command[2], list(command[3:])
    return None


def _at_start(variables: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in variables.items() if name.startswith(_READ_AT_START) and name not in _ALIKE}


class _ForkServer:
    """The server, seen from a test; it starts with the first process that it is to fork."""

    def __init__(self) -> None:
        self._socket: socket.socket | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._one_call = threading.Lock()
        self._numbers = itertools.count()

    def fork(
        self, program: tuple[str, list[str]], files: Sequence[int], folder: Path, variables: Mapping[str, str]
    ) -> "_Forked":
        request = {"program": program, "variables": dict(variables), "folder": str(folder)}
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
        """The server ends; its processes go on."""
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


_SERVER: Final = _ForkServer()


class _Forked:
    """Process of the server, which knows of its end, with the methods of `subprocess.Popen`."""

    def __init__(self, server: _ForkServer, pid: int) -> None:
        self.pid = pid
        self._server = server
        self._code: int | None = None

    def poll(self) -> int | None:
        if self._code is None:
            self._code = self._server.call({"ended": self.pid})
        return self._code

    def wait(self, timeout: float | None = None) -> int:
        if self.poll() is None:
            ended, watch = os.pidfd_open(self.pid), select.poll()
            try:
                watch.register(ended, select.POLLIN)
                watch.poll(None if timeout is None else timeout * 1_000)
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
    """Run the server, and each process that it forks, which becomes the program that was asked for."""
    for module in _MAINS.values():
        importlib.import_module(module)
    for package in _PRELOADED:
        folder = Path(danube.__file__).parent.joinpath(*package.split("."))
        for found in pkgutil.walk_packages([str(folder)], f"danube.{package}."):
            importlib.import_module(found.name)
    gc.collect()
    gc.freeze()
    program = _serve(socket.socket(fileno=int(sys.argv[1])))
    sys.modules[_MAINS[program]].main()


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
