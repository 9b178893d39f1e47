"""That pysyncobj still has the places where our parts go in, and that nobody else's pysyncobj is touched."""

import inspect
from typing import Any

import pysyncobj.syncobj
import pytest

from danube.metadata.raft.core import overrides
from danube.metadata.raft.core.overrides import KNOWN_VERSION, OVERRIDES, load_core
from danube.metadata.raft.core.raft_core import RaftCore
from danube.metadata.raft.values import encoding
from danube.model.errors import UnsupportedError

REPLACED = [name for name in vars(RaftCore) if name.startswith(("_SyncObj__", "_checkCommands"))]
READ = [
    "raftCurrentTerm",
    "raftCommitIndex",
    "raftLeader",
    "raftLastApplied",
    "raftLog",
    "raftMatchIndex",
    "raftState",
    "raftElectionDeadline",
    "newAppendEntriesTime",
    "otherNodes",
    "readonlyNodes",
    "connectedNodes",
    "startTime",
    "numOneSecondDumps",
]
"""Private attributes of the core that are read or set."""

SOURCE = inspect.getsource(pysyncobj.syncobj)  # of the copy the same


def test_a_program_that_uses_pysyncobj_for_itself_is_not_disturbed() -> None:
    for name in OVERRIDES:
        assert getattr(overrides.core, name) is not getattr(pysyncobj.syncobj, name)
    assert pysyncobj.syncobj.pickle.__name__ == "pysyncobj.pickle"


def test_the_core_has_no_pickle() -> None:
    assert overrides.core.pickle is encoding
    modules = {name: value for name, value in vars(overrides.core).items() if inspect.ismodule(value)}
    assert "pickle" not in {module.__name__ for module in modules.values()}


@pytest.mark.parametrize("name", REPLACED)
def test_the_core_has_the_method_that_is_taken_over(name: str) -> None:
    ours, theirs = getattr(RaftCore, name), getattr(overrides.SyncObj, name)
    parameters = [list(inspect.signature(method).parameters)[1:] for method in (ours, theirs)]
    assert parameters[0] == parameters[1]


@pytest.mark.parametrize("name", READ)
def test_the_core_has_the_attribute_that_is_read(name: str) -> None:
    assert f"self.__{name} = " in SOURCE


def test_the_core_asks_its_parts_where_we_put_ours() -> None:
    for call in ("createJournal(self.__conf.journalFile)", "createPoller(self.__conf.pollerType)", "monotonicTime()"):
        assert call in SOURCE
    assert "self.__conf.serializeChecker)" in SOURCE
    part: Any = object()
    assert overrides.core.createJournal(part) is part
    assert overrides.core.createPoller(part) is part
    assert overrides.core.Serializer(None, 1, False, None, None, part) is part


def test_another_version_of_pysyncobj_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(overrides, "VERSION", "0.3.18")
    with pytest.raises(UnsupportedError, match=KNOWN_VERSION):
        load_core()


def test_what_is_closed_here_is_still_open_in_the_core() -> None:
    """When one of these fails pysyncobj has mended it, and our remedy can go."""
    assert SOURCE.count("self.__changeClusterIDx = ") == 2  # o: it is set to None only
    assert SOURCE.count("self.__changeClusterIDx = None") == 2
    received = inspect.getsource(overrides.SyncObj._SyncObj__onMessageReceived)
    assert "self.__deleteEntriesFrom(prevLogIdx + 1)" in received  # a: whatever follows
    assert "'term'" not in inspect.getsource(overrides.SyncObj._SyncObj__sendNextNodeIdx)  # c
