"""Hostile peers at the Raft port: none of them delivers a message, breaks anything or fills the log or the memory."""

import gc
import itertools
import logging
import random
import socket
import tracemalloc
from collections import Counter
from collections.abc import Callable, Generator, Iterator
from pathlib import Path

import pytest

from danube.metadata.raft.port.handshake import Handshake, Identity, Purpose, Side
from danube.metadata.raft.port.session import Session
from danube.metadata.raft.port.tls import TlsContexts
from danube.model.limits.broker import KIB
from danube.model.limits.metadata import RAFT_FRAME_BYTES_MAX, RAFT_LOG_LINES_MAX, RAFT_UNPROVED_MAX
from danube.testing.simulated.clock import SimClock
from tests.fuzz.judge import ROUNDS
from tests.unit.metadata.raft.handshakes import carry, identity
from tests.unit.metadata.raft.ports import CLUSTER, SECRET, Port, Room, know, room
from tests.unit.metadata.raft.test_transport_tls import MEMBER, UNKNOWN_PEER

Script = Generator[bytes, bytes, None]
"""Yields what a hostile peer sends, and is given what it heard since."""
Attack = Callable[[random.Random], Script]

CHECK_EACH = 250
"""Attacks between two looks at whether the neighbours still talk, time goes on and memory does not grow."""
STEPS_MAX = 6
GROWTH_BYTES_MAX = 512 * KIB
LOITERERS_MAX = 100


def hello(chance: random.Random, secret: bytes | None = SECRET, cluster_id: str = CLUSTER) -> Handshake:
    """A dialer that says it is a member."""
    purpose = Purpose(chance.randrange(2))
    return Handshake(Side.DIALER, identity(2, cluster_id), secret, nonce=chance.randbytes(32), purpose=purpose)


def noise(chance: random.Random) -> Script:
    while True:
        yield chance.randbytes(chance.choice((1, 3, 60, 600, 20_000)))


def length_bomb(chance: random.Random) -> Script:
    yield chance.choice((b"\xff\xff", b"\x00\x00", b"\x00\x02", b"\x01\x02")) + chance.randbytes(
        chance.randrange(2_000)
    )


def other_protocol(chance: random.Random) -> Script:
    yield chance.choice(
        (
            b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
            b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
            b"\x80\x02]q\x00(X\x03\x00\x00\x00addq\x01e.",
            b"SSH-2.0-OpenSSH_9.6\r\n",
            b"",
        )
    )


def mutated(chance: random.Random) -> Script:
    """A handshake with the right secret, of which something is changed, lost or doubled at one place."""
    one, at = hello(chance), chance.randrange(2)
    for number in itertools.count():
        said = bytearray(one.take_output())
        if number == at and said:
            _mutate(said, chance)
        heard = yield bytes(said)
        one.receive(heard)


def _mutate(said: bytearray, chance: random.Random) -> None:
    place = chance.randrange(len(said))
    match chance.randrange(4):
        case 0:
            said[place] ^= 1 << chance.randrange(8)
        case 1:
            del said[place]
        case 2:
            said.insert(place, chance.randrange(256))
        case 3:
            del said[place:]


def wrong_secret(chance: random.Random) -> Script:
    one = hello(chance, secret=chance.choice((chance.randbytes(32), SECRET[:-1], SECRET + b"\0", None)))
    while True:
        heard = yield one.take_output()
        one.receive(heard)


def foreign_cluster(chance: random.Random) -> Script:
    one = hello(chance, cluster_id=f"cluster-{chance.randrange(100)}x")
    heard = yield one.take_output()
    one.receive(heard)


def reflection(_chance: random.Random) -> Script:
    heard = b""
    while True:
        heard = yield heard


def proof_without_a_secret(chance: random.Random) -> Script:
    yield hello(chance).take_output()
    yield b"\x21\x00\x02" + chance.randbytes(32)
    while True:
        yield chance.randbytes(100)


def hello_and_frames(chance: random.Random) -> Script:
    """Frames where the proof should be."""
    frame = chance.choice((b"\x01\x00\x00\x00\xc0", RAFT_FRAME_BYTES_MAX.to_bytes(4, "little"), b"\xff\xff\xff\xff"))
    yield hello(chance).take_output() + frame


def tls_stranger(tls: TlsContexts) -> Attack:
    """TLS with a certificate of another CA, changed on the way or not."""

    def script(chance: random.Random) -> Script:
        pipe, changes = tls.pipe(Side.DIALER), chance.random() < 0.5
        one = hello(chance, secret=None)
        while True:
            pipe.send(one.take_output())
            said = bytearray(pipe.take_output())
            if changes and said:
                _mutate(said, chance)
            heard = yield bytes(said)
            one.receive(pipe.receive(heard))

    return script


def replayed(recorded: list[bytes]) -> Attack:
    """What a real member said in a session that somebody recorded, whole or in part."""

    def script(chance: random.Random) -> Script:
        yield from recorded[: chance.randrange(1, len(recorded) + 1)]

    return script


def recording(target: Identity) -> list[bytes]:
    """A dialer's half of a session with this member: hello, proof and a frame."""
    dialer = Handshake(Side.DIALER, identity(2), SECRET, nonce=bytes(31) + b"r")
    acceptor = Handshake(Side.ACCEPTOR, target, SECRET, nonce=bytes(31) + b"s")
    one, other = (Session(each, None, 0.0, silence_s_max=3.0) for each in (dialer, acceptor))
    said = []
    for _ in range(2):
        said.append(b"".join(one.take_output()))
        other.receive(said[-1], 0.0)
        carry(other, one)
    one.send({"type": "append_entries"}, 0.0)
    return [*said, b"".join(one.take_output())]


class Siege:
    """A member under attack, and a well-behaved neighbour that it goes on talking with."""

    def __init__(self, here: Room, clock: SimClock, target: Port, neighbour: Port) -> None:
        self.here, self.clock, self.target, self.neighbour = here, clock, target, neighbour
        host, port = target.transport.address.split(":")
        self.address = host, int(port)
        self.loiterers: list[socket.socket] = []
        self.said = 0
        know(target, neighbour)
        know(neighbour, target)
        here.all_connected()
        target.transport.addNode(identity(2).node)  # whom the attackers say they are

    def attack(self, attack: Attack, chance: random.Random) -> None:
        """One hostile connection; some are left open."""
        peer = socket.create_connection(self.address, source_address=(f"127.0.{chance.randrange(4)}.7", 0))
        peer.settimeout(0)
        self.here.turn(0)
        self._play(attack(chance), peer)
        if chance.random() < 0.1:
            self.loiterers.append(peer)
        else:
            peer.close()
        while len(self.loiterers) > LOITERERS_MAX:
            self.loiterers.pop(0).close()

    def _play(self, script: Script, peer: socket.socket) -> None:
        heard: bytes | None = None
        for _ in range(STEPS_MAX):
            try:
                said = script.send(heard) if heard is not None else next(script)
                peer.sendall(said)
            except Exception:  # whatever stops the attacker; the judged side must not care
                return
            self.here.turn(0)
            self.here.turn(0)
            heard = listened(peer)

    def drip(self) -> None:
        """Those who hold a connection open send one byte more."""
        for peer in self.loiterers:
            try:
                peer.send(b"\x00")
            except OSError:
                continue

    def judge(self) -> None:
        """The neighbours still talk, nobody else was heard, and what is kept is bounded."""
        self.clock.advance(1.0)
        self.drip()
        self.said += 1
        assert self.neighbour.transport.send(self.target.node, self.said)
        self.here.until(lambda: len(self.target.messages()) == self.said)
        assert self.target.messages() == list(range(1, self.said + 1))
        assert self.target.tells("connected") == [self.neighbour.node]
        assert self.target.tells("learner connected") == []
        assert len(self.target.transport._dialer._open) <= RAFT_UNPROVED_MAX + 2
        assert len(self.target.transport._log_suppressor._last) <= RAFT_LOG_LINES_MAX

    def lift(self) -> None:
        for peer in self.loiterers:
            peer.close()


def listened(peer: socket.socket) -> bytes:
    try:
        return peer.recv(64 * KIB)
    except BlockingIOError:
        return b""


def held_bytes() -> int:
    gc.collect()
    return tracemalloc.get_traced_memory()[0]


def open_files() -> Counter[str]:
    """What the process holds open, each by what it is: what earlier tests left may be closed meanwhile."""
    return Counter(str(link.readlink()) for link in Path("/proc/self/fd").iterdir() if link.is_symlink())


@pytest.fixture
def traced() -> Iterator[None]:
    tracemalloc.start()
    yield
    tracemalloc.stop()


@pytest.mark.slow
@pytest.mark.timeout(max(60, ROUNDS // 20))
@pytest.mark.parametrize("has_tls", [False, True], ids=["secret", "tls"])
@pytest.mark.usefixtures("traced")
def test_a_hostile_peer_delivers_nothing_breaks_nothing_and_costs_one_line(
    has_tls: bool, caplog: pytest.LogCaptureFixture
) -> None:
    clock, rounds, files = SimClock(), ROUNDS // 2, open_files()
    with room(clock) as here:
        how = {"tls": MEMBER, "secret": None} if has_tls else {"secret": SECRET}
        siege = Siege(here, clock, here.port(1, **how), here.port(2, **how))
        attacks = [noise, length_bomb, other_protocol, mutated, wrong_secret, foreign_cluster, reflection]
        attacks += [proof_without_a_secret, hello_and_frames, replayed(recording(identity(1)))]
        attacks += [tls_stranger(TlsContexts(UNKNOWN_PEER))]
        caplog.clear()
        begun_bytes = 0
        for number in range(rounds):
            chance = random.Random(f"raft port {number}")
            siege.attack(chance.choice(attacks), chance)
            if number % CHECK_EACH == CHECK_EACH - 1:
                siege.judge()
                begun_bytes = begun_bytes or held_bytes()
        siege.judge()
        siege.lift()
        assert held_bytes() - begun_bytes < GROWTH_BYTES_MAX
    assert not open_files() - files
    assert 0 < len(caplog.records) <= rounds
    assert [record for record in caplog.records if record.exc_info or record.levelno > logging.WARNING] == []
    assert not any(SECRET.decode() in line or "\x1b" in line or "\n" in line for line in caplog.messages)
