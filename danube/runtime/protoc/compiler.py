"""Compiles untrusted `.proto` text: one short-lived process for each definition, with limits and a time-out.

It blocks for a fifth of a second, so callers with an event loop go through `danube/runtime/blocking.py`. Files are
written to a folder of their own, the compiler's only one beside that of the well-known types: an import finds nothing
else, and protoc itself refuses names with `..` and absolute ones.
"""

import importlib.util
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from danube.model.errors import MissingLibraryError, SchemaInvalidError
from danube.model.limits.schema import (
    SCHEMA_COMPILE_CPU_S,
    SCHEMA_COMPILE_FILE_BYTES,
    SCHEMA_COMPILE_MEMORY_BYTES,
    SCHEMA_COMPILE_TIMEOUT_S,
)
from danube.model.text import install_text
from danube.schema.protobuf.known import with_known

_PROGRAM: Final = Path(__file__).with_name("program.py")
_NAME: Final = re.compile(r"(?!/)[\w.-]+(/[\w.-]+)*", re.ASCII)
_WELL_KNOWN: Final = "google/protobuf/"
_NOISE: Final = re.compile(r": warning: |^WARNING: |^[WI]\d{4} ")
_OUTPUT: Final = "compiled.binpb"
_ERRORS_SHOWN: Final = 5


def compile_protos(root: str, files: Mapping[str, str]) -> bytes:
    """Serialized FileDescriptorSet of the file `root` and all that it imports, imports first. Files that clients take
    for granted are there, unless others of their names are.

    Raises SchemaInvalidError with protoc's place and reason, MissingLibraryError if protoc is not installed.
    """
    if importlib.util.find_spec("grpc_tools") is None:
        raise MissingLibraryError(
            f"Protobuf text needs the library grpcio-tools: install it with {install_text('schema')}, "
            "then start this program again"
        )
    with tempfile.TemporaryDirectory(prefix="danube-protoc-") as folder:
        sources = Path(folder, "sources")
        for name, text in with_known(root, files).items():
            _write(sources, name, text)
        return _run(sources, root, Path(folder, _OUTPUT))


def _write(folder: Path, name: str, text: str) -> None:
    if not _NAME.fullmatch(name) or {".", ".."} & {*name.split("/")}:
        raise SchemaInvalidError(f"{name!r} is no name of a file to import: use letters, digits, _ . - and /", name)
    if name.startswith(_WELL_KNOWN):
        return  # Protobuf's own are what they are
    path = folder / name
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    except OSError as error:
        raise SchemaInvalidError(f"the name collides with another file's: {error.strerror}", name) from None


def _run(sources: Path, root: str, output: Path) -> bytes:
    command = [
        sys.executable,
        "-I",
        str(_PROGRAM),
        *map(str, (SCHEMA_COMPILE_CPU_S, SCHEMA_COMPILE_MEMORY_BYTES, SCHEMA_COMPILE_FILE_BYTES)),
        "--include_imports",
        f"--descriptor_set_out={output}",
        root,
    ]
    try:
        done = subprocess.run(  # noqa: S603 - our own program, and a name that was checked
            command,
            cwd=sources,
            env={},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            timeout=SCHEMA_COMPILE_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise SchemaInvalidError(
            f"it was not compiled within {SCHEMA_COMPILE_TIMEOUT_S:g} s: make it simpler", root
        ) from None
    if done.returncode == 0 and output.is_file():
        return output.read_bytes()
    raise _refused(done.returncode, done.stderr.decode(errors="replace"), root)


def _refused(code: int, printed: str, root: str) -> SchemaInvalidError:
    lines = [line for line in printed.splitlines() if line.strip() and not _NOISE.search(line)]
    if code < 0 or not lines or "Traceback" in printed:
        return SchemaInvalidError(
            "the compiler ended without an answer, at a limit of time or memory: simplify it", root
        )
    found = re.match(r"(?P<place>[^:]+(:\d+:\d+)?): (?P<reason>.*)", lines[0])
    more = "; ".join(lines[1:_ERRORS_SHOWN])
    reason = found["reason"] if found else lines[0]
    return SchemaInvalidError(f"{reason} ({more})" if more else reason, found["place"] if found else root)
