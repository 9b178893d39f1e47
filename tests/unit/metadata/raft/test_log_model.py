"""Random operations of a journal against a list, with restarts between."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from danube.metadata.raft.folder import log_files
from danube.metadata.raft.folder.folder import RaftFolder
from danube.metadata.raft.folder.format import Entry
from danube.runtime.rng import SystemRng
from danube.testing.simulated.disk import SimDisk
from tests.unit.metadata.raft.raft_files import opened, snapshot_at

numbers = st.integers(0, 40)
operations = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.integers(1, 8)),
        st.tuples(st.just("add"), st.integers(1, 8)),
        st.tuples(st.just("term"), st.integers(1, 2)),
        st.tuples(st.just("cut"), numbers),
        st.tuples(st.just("snapshot"), numbers),
        st.tuples(st.just("sync"), st.just(0)),
        st.tuples(st.just("commit"), numbers),
        st.tuples(st.just("narrow"), numbers),
        st.tuples(st.just("clear"), numbers),
        st.tuples(st.just("timer"), st.just(0)),
        st.tuples(st.just("close"), st.just(0)),
        st.tuples(st.just("kill"), st.just(0)),
    ),
    max_size=40,
)


def entry(index: int, term: int) -> Entry:
    return b"\0entry %d of term %d" % (index, term), index, term


class Lives:
    """The log, and a list that should be the same."""

    def __init__(self) -> None:
        self.disk = SimDisk()
        self.folder: RaftFolder = opened(self.disk)
        self.list: list[Entry] = []
        self.snapshot = 0
        self.term = 0

    def do(self, kind: str, number: int) -> None:
        getattr(self, f"do_{kind}")(number)
        log = self.folder.log
        assert (len(log), log[:], log[2:5]) == (len(self.list), self.list, self.list[2:5])
        assert (log.getCurrentTerm(), log.size_bytes) == (self.term, sum(52 + len(each[0]) for each in self.list))
        if self.list:
            assert (log[-1], log[0], log.first_index) == (self.list[-1], self.list[0], self.list[0][1])

    def do_add(self, number: int) -> None:
        for _ in range(number):
            index = self.list[-1][1] + 1 if self.list else 1
            self.list.append(entry(index, self.term))
            self.folder.log.add(*self.list[-1])

    def do_term(self, number: int) -> None:
        self.term += number
        self.folder.log.setCurrentTerm(self.term, None)

    def do_cut(self, number: int) -> None:
        kept = max(number, 2 if self.snapshot else 1)  # a snapshot covers the first two
        self.folder.log.deleteEntriesFrom(kept)
        del self.list[kept:]

    def do_snapshot(self, number: int) -> None:
        """As a compaction does: a snapshot after some entry, and the log goes up to the one before it."""
        if not 1 <= number < len(self.list) or self.list[number][1] <= self.snapshot:
            return
        self.folder.log.setRaftCommitIndex(self.list[number][1])
        snapshot = snapshot_at(self.list[number][1], self.list[number][2])
        prev, last = self.list[number - 1 : number + 1]
        self.folder.save_snapshot(
            type(snapshot)(prev=prev, last=last, members=snapshot.members, payload=snapshot.payload)
        )
        self.snapshot = last[1]
        self.folder.log.deleteEntriesTo(number - 1)
        del self.list[: number - 1]

    def do_sync(self, _: int) -> None:
        self.folder.log.sync()
        assert not self.folder.log.unsynced

    def do_commit(self, number: int) -> None:
        self.folder.log.setRaftCommitIndex(number)

    def do_narrow(self, number: int) -> None:
        if not self.list:
            return
        log, last = self.folder.log, self.list[min(number, len(self.list) - 1)][1]
        log.narrow(last)
        assert log[:] == [each for each in self.list if each[1] <= last]
        assert (log.last_index, log.term_of(last), log.term_of(last + 1)) == (last, log[-1][2], None)
        log.widen()

    def do_clear(self, number: int) -> None:
        """As a snapshot that is received does: the log begins anew behind what it had."""
        index = max(self.snapshot, self.list[-1][1] if self.list else 0) + number + 2
        self.do_term(1)
        self.list = [entry(index - 1, self.term), entry(index, self.term)]
        snapshot = snapshot_at(index, self.term)
        self.folder.save_snapshot(
            type(snapshot)(prev=self.list[0], last=self.list[1], members=snapshot.members, payload=snapshot.payload)
        )
        self.snapshot = index
        self.folder.log.clear()
        for each in self.list:
            self.folder.log.add(*each)

    def do_timer(self, _: int) -> None:
        self.folder.log.onOneSecondTimer()

    def do_close(self, _: int) -> None:
        self.folder.close()
        self.folder = RaftFolder.open(self.disk, SystemRng(9))

    def do_kill(self, _: int) -> None:
        self.folder.log.sync()
        self.disk = self.disk.power_cut()
        self.folder = RaftFolder.open(self.disk, SystemRng(9))


@given(operations, st.sampled_from([200, 1_000, 100_000]))
@settings(max_examples=60)
def test_a_log_is_a_list_that_survives(todo: list[tuple[str, int]], file_bytes_max: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(log_files, "RAFT_LOG_FILE_BYTES_MAX", file_bytes_max)
        lives = Lives()
        for kind, number in todo:
            lives.do(kind, number)
        lives.do("kill", 0)
