"""pysyncobj's core with our parts in its place: where it touches the disk, the network, time and chance.

A private copy of its module `syncobj` is changed, so other users of pysyncobj in the process are not disturbed. Each
override is a name in that module; `docs/raft.md` says why. Only one version is known: another has to be read first.
"""

import importlib.util
import logging
import random
import time
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pysyncobj
import pysyncobj.transport
from pysyncobj.version import VERSION

from danube.metadata.raft.values import encoding
from danube.model.errors import UnsupportedError

KNOWN_VERSION = "0.3.17"

OVERRIDES = (
    "pickle",
    "createJournal",
    "createPoller",
    "Serializer",
    "PIPE_NOTIFIER_ENABLED",
    "monotonicTime",
    "random",
)
"""The names that are replaced; a test holds that the core still has them all."""

_NAME = "pysyncobj._danube_core"

Entry = tuple[bytes, int, int]
"""Command, index and term of a log entry."""


def load_core() -> ModuleType:
    """A copy of pysyncobj's core, with the overrides in. Raises UnsupportedError for a version that nobody has read."""
    if VERSION != KNOWN_VERSION:
        raise UnsupportedError(f"pysyncobj {VERSION} is not known here: install pysyncobj {KNOWN_VERSION}")
    core = _copy_of_core()
    for name in OVERRIDES:
        if not hasattr(core, name):
            raise UnsupportedError(f"pysyncobj {VERSION} has no {name}: install it anew")
    _put_in(core)
    return core


def _copy_of_core() -> ModuleType:
    origin = importlib.util.find_spec("pysyncobj.syncobj")
    assert origin is not None  # noqa: S101 - the package was imported above
    spec = importlib.util.spec_from_file_location(_NAME, origin.origin)
    assert spec is not None and spec.loader is not None  # noqa: S101 - a module in a file has both
    core = importlib.util.module_from_spec(spec)
    core.__package__ = pysyncobj.__name__
    spec.loader.exec_module(core)
    return core


def _put_in(core: ModuleType) -> None:
    parts: dict[str, Any] = {
        "pickle": encoding,
        "createJournal": _given,  # conf.journalFile is our log
        "createPoller": _given,  # conf.pollerType is our poller
        "Serializer": _given_last,  # conf.serializeChecker is our keeper of snapshots
        "PIPE_NOTIFIER_ENABLED": False,  # it would leave two descriptors open; our poller can be woken
        "monotonicTime": time.monotonic,
        "random": random.SystemRandom(),
        "logger": logging.getLogger(__name__),
    }
    for name, part in parts.items():
        setattr(core, name, part)


def _given(part: object) -> object:
    return part


def _given_last(*parts: object) -> object:
    return parts[-1]


core = load_core()

SyncObj: Any = core.SyncObj
Transport: Any = pysyncobj.transport.Transport
SyncObjConf: Any = core.SyncObjConf

FOLLOWER: int = core._RAFT_STATE.FOLLOWER  # noqa: SLF001 - the core tells its state by these
CANDIDATE: int = core._RAFT_STATE.CANDIDATE  # noqa: SLF001 - as above
LEADER: int = core._RAFT_STATE.LEADER  # noqa: SLF001 - as above


def now_s() -> float:
    """The core's time: seconds, monotonic; a simulation gives it another one."""
    monotonic: Callable[[], float] = core.monotonicTime
    return monotonic()
