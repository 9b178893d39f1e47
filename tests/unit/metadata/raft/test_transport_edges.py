"""What the Raft port stands on: waiting for sockets, looking names up, accepting, and how often it complains."""

import errno
import socket
import threading
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from danube.metadata.raft.core.poller import READ, Poller
from danube.metadata.raft.port.addresses import Listener, Names, Target, is_loopback, listen, split
from danube.metadata.raft.port.connection import Acceptor
from danube.metadata.raft.port.refusals import LogSuppressor
from danube.model.errors import SettingsError
from danube.model.limits.metadata import (
    RAFT_LOG_LINE_S,
    RAFT_LOG_LINES_MAX,
    RAFT_NAME_RETRY_S,
    RAFT_NAME_TTL_S,
    RAFT_UNPROVED_MAX,
)
from danube.rpc.address import join_address
from danube.testing.patience import PATIENCE_S
from tests.unit.metadata.raft.ports import room

WAIT_S = PATIENCE_S


def test_the_poller_calls_who_is_subscribed_and_nobody_else() -> None:
    poller, (one, other) = Poller(), socket.socketpair()
    called: list[int] = []
    poller.subscribe(one.fileno(), lambda descr, _events: called.append(descr), READ)
    other.send(b"x")
    poller.poll(WAIT_S)
    poller.unsubscribe(one.fileno())
    poller.unsubscribe(one.fileno())
    poller.poll(0)
    assert called == [one.fileno()]
    close(poller, one, other)


def test_an_event_of_a_socket_that_was_closed_is_not_told_to_the_next_one_with_its_number() -> None:
    poller, pairs = Poller(), [socket.socketpair() for _ in range(2)]
    called: list[str] = []

    def replace(which: int) -> Callable[[int, int], None]:
        """The callback of one pair, that puts an unknown peer in the place of the other pair."""

        def callback(_descr: int, _events: int) -> None:
            called.append("of its own")
            poller.subscribe(pairs[1 - which][0].fileno(), lambda _descr, _events: called.append("stranger"), READ)

        return callback

    for number, (one, other) in enumerate(pairs):
        poller.subscribe(one.fileno(), replace(number), READ)
        other.send(b"x")
    poller.poll(WAIT_S)
    assert called == ["of its own"]
    close(poller, *(end for pair in pairs for end in pair))


def test_a_poller_is_woken_from_another_thread_and_only_once() -> None:
    poller = Poller()

    def wake_often() -> None:
        for _ in range(100_000):
            poller.wake()

    waker = threading.Thread(target=wake_often)
    waker.start()
    poller.poll(WAIT_S)
    waker.join()
    poller.poll(0)
    poller.poll(0)
    poller.close()
    poller.wake()
    poller.close()


def close(poller: Poller, *ends: socket.socket) -> None:
    poller.close()
    for end in ends:
        end.close()


class Looked:
    """Names with look-ups that end when the test says so."""

    def __init__(self, *answers: Sequence[str] | OSError) -> None:
        self.answers = list(answers)
        self.woken = threading.Semaphore(0)
        self.names = Names(self.woken.release, self.look_up)

    def look_up(self, host: str, port: int, **_more: Any) -> Sequence[Any]:
        answer = self.answers.pop(0)
        if isinstance(answer, OSError):
            raise answer
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (found, port)) for found in answer]

    def found(self, now_s: float) -> str:
        """What the name means after the look-up that this begins."""
        assert self.names.target("broker-1:7650", now_s) is None
        assert self.woken.acquire(timeout=WAIT_S)
        return self.again(now_s)

    def again(self, now_s: float) -> str:
        target = self.names.target("broker-1:7650", now_s)
        assert target is not None
        return str(target.address[0])


def test_a_name_is_looked_up_elsewhere_and_each_of_its_addresses_is_tried_in_turn() -> None:
    looked = Looked(["10.0.0.1", "10.0.0.2"])
    assert {looked.found(0.0), looked.again(1.0)} == {"10.0.0.1", "10.0.0.2"}
    looked.names.close()


def test_a_name_is_looked_up_again_when_what_is_known_is_old() -> None:
    looked = Looked(["10.0.0.1"], OSError("gone"), ["10.0.0.2"])
    assert looked.found(0.0) == "10.0.0.1"
    assert looked.again(RAFT_NAME_TTL_S) == "10.0.0.1"
    with pytest.raises(OSError, match="gone"):
        looked.found(RAFT_NAME_TTL_S + 1)
    assert looked.found(RAFT_NAME_TTL_S + 2 + RAFT_NAME_RETRY_S) == "10.0.0.2"
    looked.names.close()


def test_a_name_that_means_nothing_is_an_error() -> None:
    answers: list[list[str] | OSError] = [[], OSError("unknown")]
    for answer in answers:
        looked = Looked(answer)
        with pytest.raises(OSError, match=r"no address|unknown"):
            looked.found(0.0)
        looked.names.close()


@pytest.mark.parametrize("address", ["127.0.0.1:80", "[::1]:80"])
def test_a_number_is_no_name_and_nobody_is_asked(address: str) -> None:
    names = Names(lambda: None, lambda *_args, **_more: pytest.fail("it was looked up"))
    target = names.target(address, 0.0)
    assert isinstance(target, Target)
    assert join_address(*target.address[:2]) == address
    names.close()


@pytest.mark.parametrize("address", ["", "7650", ":7650", "host:", "host:65536", "host:-1", "host:٣", "[::1]"])
def test_what_is_no_address_is_refused(address: str) -> None:
    with pytest.raises(SettingsError, match="must look like"):
        split(address)


def test_loopback_is_told_from_the_rest() -> None:
    own = ["127.0.0.1", "127.8.8.8", "::1", "::ffff:127.0.0.1"]
    rest = ["10.0.0.1", "0.0.0.0", "::", "fe80::1%eth0", "::ffff:10.0.0.1"]
    assert [is_loopback(host) for host in own + rest] == [True] * len(own) + [False] * len(rest)


class Exhausted(Listener):
    """A listener of a process that has no descriptor left."""

    def accept(self) -> tuple[socket.socket, str] | None:
        raise OSError(errno.EMFILE, "Too many open files")


def test_a_door_without_descriptors_rests_and_says_so_instead_of_spinning() -> None:
    with room() as here:
        listener = listen("127.0.0.1:0")
        told: list[str] = []
        door = Acceptor(
            Exhausted(listener._socket),
            here.poller,
            lambda *_: pytest.fail("let in"),
            lambda _who, what: told.append(what),
        )
        peer = socket.create_connection(listener._socket.getsockname())
        here.poller.poll(WAIT_S)
        here.poller.poll(0)
        assert told == ["nobody can connect for 1 s: Too many open files. Raise the limit of open files"]
        door.tick(1.1)
        here.poller.poll(WAIT_S)
        assert len(told) == 2
        door.close()
        peer.close()


def test_strangers_of_many_addresses_hold_a_bounded_number_of_connections() -> None:
    with room() as here:
        host, port = here.port(1).transport.address.split(":")
        unknown_peers = []
        for number in range(RAFT_UNPROVED_MAX + 20):
            source = f"127.0.1.{number % 20}"
            unknown_peers.append(socket.create_connection((host, int(port)), source_address=(source, 0)))
            here.turn()
        here.turns(5)
        assert [is_closed(each) for each in unknown_peers] == [True] * 20 + [False] * RAFT_UNPROVED_MAX
        for each in unknown_peers:
            each.close()


def is_closed(peer: socket.socket) -> bool:
    peer.settimeout(0)
    try:
        return peer.recv(1) == b""
    except BlockingIOError:
        return False


def test_the_same_trouble_is_told_once_a_minute_with_how_often_it_was_not() -> None:
    troubles = LogSuppressor()
    told = [troubles.due("10.0.0.1", "secret", second) for second in range(int(RAFT_LOG_LINE_S))]
    assert told == [""] + [None] * 59
    assert troubles.due("10.0.0.1", "secret", RAFT_LOG_LINE_S) == " (59 more times since the last such line)"
    assert troubles.due("10.0.0.1", "cluster", 1.0) == ""
    assert troubles.due("10.0.0.2", "secret", 1.0) == ""


def test_strangers_from_ever_new_addresses_do_not_fill_the_log() -> None:
    troubles = LogSuppressor()
    told = [troubles.due(f"10.0.{number}.1", "secret", 0.0) for number in range(10_000)]
    assert len([line for line in told if line is not None]) == RAFT_LOG_LINES_MAX
    assert len(troubles._last) == RAFT_LOG_LINES_MAX
    assert troubles.due("10.9.9.9", "secret", RAFT_LOG_LINE_S) == ""


def test_a_trouble_that_does_not_come_back_is_forgotten() -> None:
    troubles = LogSuppressor()
    for second in (0.0, 1.0):
        troubles.due("10.0.0.1", "secret", second)
    assert troubles.due("10.0.0.2", "secret", 2 * RAFT_LOG_LINE_S) == ""
    assert list(troubles._last) == [("10.0.0.2", "secret")]
