"""A small real file system for one test: a tmpfs of its own, wherever a process may have one.

Anybody has it in a namespace of users and mounts where the kernel allows that, root in one of mounts alone. A container
that allows neither has a small folder of shared memory as a rule; of that, as much is taken away as leaves the size
asked for.
"""

import os
import shutil
import subprocess
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

MIB = 1024 * 1024
SHARED_MEMORY = Path("/dev/shm")
SHARED_MEMORY_BYTES_MAX = 512 * MIB
"""A larger one is the machine's, and not for a test to fill."""
_MOUNT = 'mount -t tmpfs -o "size=$1,mode=700" small-disk "$2" && echo mounted && exec cat'


@dataclass(frozen=True, slots=True)
class SmallDisk:
    """The file system."""

    kind: str
    data_dir: Path
    """Where a broker that is started behind `launcher` sees it."""
    seen: Path
    """Where this process sees it."""
    launcher: tuple[str, ...] = ()

    @property
    def free_bytes(self) -> int:
        """What may still be written."""
        return _free_bytes(self.seen)

    def fill(self, leave_bytes: int = 0) -> None:
        """Have a file that is not the broker's take what is free, but for `leave_bytes`."""
        _fill(self.seen / "ballast", leave_bytes)

    def clear(self) -> None:
        """Remove that file."""
        (self.seen / "ballast").unlink()


@contextmanager
def small_disk(data_dir: Path, size_bytes: int) -> Iterator[SmallDisk]:
    """An empty disk of this size. Raises OSError with every reason why there can be none."""
    ways: Sequence[Callable[[], AbstractContextManager[SmallDisk]]] = (
        lambda: _mounted(data_dir, size_bytes, ("--user", "--map-root-user", "--mount"), ("--user", "--mount")),
        lambda: _mounted(data_dir, size_bytes, ("--mount",), ("--mount",)),
        lambda: _shared_memory(data_dir, size_bytes),
    )
    reasons: list[str] = []
    with ExitStack() as stack:
        for way in ways:
            try:
                disk = stack.enter_context(way())
            except OSError as error:
                reasons.append(str(error))
            else:
                yield disk
                return
    raise OSError("this process can have no small disk: " + "; ".join(reasons))


@contextmanager
def _mounted(data_dir: Path, size_bytes: int, apart: Sequence[str], entered: Sequence[str]) -> Iterator[SmallDisk]:
    """A tmpfs in the namespace of a process that does nothing else: it is there until that ends."""
    data_dir.mkdir(exist_ok=True)
    command = ["unshare", *apart, "sh", "-c", _MOUNT, "sh", str(size_bytes), str(data_dir)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=subprocess.STDOUT, text=True) as keeper:
        assert keeper.stdin is not None
        assert keeper.stdout is not None
        said = keeper.stdout.readline().strip()
        if said != "mounted":
            raise OSError(said or "unshare ended without a word")
        enter = ["nsenter", f"--target={keeper.pid}", "--preserve-credentials", f"--wd={Path.cwd()}", *entered, "--"]
        seen = Path(f"/proc/{keeper.pid}/root") / data_dir.absolute().relative_to("/")
        try:
            yield SmallDisk(" ".join(apart), data_dir, seen, tuple(enter))
        finally:
            keeper.stdin.close()


@contextmanager
def _shared_memory(data_dir: Path, size_bytes: int) -> Iterator[SmallDisk]:
    """What a container has as shared memory, with all but `size_bytes` taken away."""
    free_bytes = _free_bytes(SHARED_MEMORY)
    if not size_bytes <= free_bytes <= SHARED_MEMORY_BYTES_MAX:
        raise OSError(f"{SHARED_MEMORY} has {free_bytes // MIB} MiB free, too few or too many")
    folder = SHARED_MEMORY / f"danube-{uuid.uuid4().hex}"
    taken = folder.with_name(f"{folder.name}-taken")
    try:
        folder.mkdir(mode=0o700)
        _fill(taken, size_bytes)
        with suppress(FileNotFoundError):
            data_dir.rmdir()  # one of the other ways got as far as that
        data_dir.symlink_to(folder)
        yield SmallDisk(f"shared memory in {SHARED_MEMORY}", data_dir, folder)
    finally:
        taken.unlink(missing_ok=True)
        shutil.rmtree(folder)


def _fill(path: Path, leave_bytes: int) -> None:
    with path.open("ab", buffering=0) as file, suppress(OSError):
        while (left := _free_bytes(path.parent) - leave_bytes) > 0:
            file.write(bytes(min(left, MIB)))


def _free_bytes(folder: Path) -> int:
    found = os.statvfs(folder)
    return found.f_bavail * found.f_frsize
