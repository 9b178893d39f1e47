"""A file in which a process says where it serves, for those who started it: there only while it serves. Blocks.

systemd is told as well, where it started the process and waits for that (`Type=notify`).
"""

import json
import os
import socket
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from danube.model.errors import SettingsError
from danube.runtime.disk import LocalDisk, next_step_of


class ReadyFile:
    """Removes what an earlier process left, on entry, and its own file on exit. No path, no file."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._written: bytes | None = None

    def __enter__(self) -> Self:
        """Raises SettingsError when there is a file that cannot be removed."""
        if self._path is not None:
            try:
                self._path.unlink(missing_ok=True)
            except OSError as error:
                raise self._failed("remove", error) from None
        return self

    def write(self, facts: Mapping[str, object]) -> None:
        """Write the facts as JSON, at once or not at all. Raises SettingsError."""
        _notify(b"READY=1")
        if self._path is None:
            return
        written = json.dumps(facts).encode()
        try:
            LocalDisk(self._path.parent).replace_file(self._path.name, written)
        except OSError as error:
            raise self._failed("write", error) from None
        self._written = written

    def remove(self) -> None:
        """Remove the file, unless another process has written its own in the meantime. Idempotent."""
        written, self._written = self._written, None
        try:
            if self._path is not None and written is not None and self._path.read_bytes() == written:
                self._path.unlink()
        except OSError:
            return  # the process ends; the next one tells about a file that cannot be removed

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.remove()

    def _failed(self, what: str, error: OSError) -> SettingsError:
        return SettingsError(f"cannot {what} the ready file {self._path}: {error.strerror}; {next_step_of(error)}")


def _notify(state: bytes) -> None:
    """Tell the service manager, if there is one: https://www.freedesktop.org/software/systemd/man/sd_notify.html."""
    address = os.environ.get("NOTIFY_SOCKET", "")
    if address:
        with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
            manager.sendto(state, address.replace("@", "\0", 1) if address[0] == "@" else address)
