"""Filter of messages between the transport and pysyncobj's core, so that its rules are Raft's.

`docs/raft.md` lists what the core does with each message, and the remedies. No message reaches the core that would make
it cut entries that it has promised, count what must not count, or believe what was not verified. No promise leaves
before it is durable. `admit` and `trimmed` decide, without effects.
"""

from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any, Protocol

from pysyncobj.node import Node

from danube.metadata.raft.core.overrides import Entry
from danube.metadata.raft.values.entries import REGULAR
from danube.model.limits.metadata import RAFT_ENTRY_BYTES_MAX

Message = dict[str, Any]

OWN_KINDS = frozenset({"ask", "answer", "removed"})
"""Kinds of messages that are ours and not the core's."""

_FROM_MEMBERS = frozenset({"request_vote", "response_vote", "next_node_idx"})
_NUMBERS = {
    "append_entries": ("term", "commit_index"),
    "request_vote": ("term", "last_log_index", "last_log_term"),
    "response_vote": ("term",),
    "next_node_idx": ("term", "next_node_idx"),
    "timeout_now": ("term",),
}


class FilteredLog(Protocol):
    """The log, as the filter needs it."""

    @property
    def last_index(self) -> int: ...
    def term_of(self, index: int) -> int | None: ...
    def sync(self) -> None: ...
    def narrow(self, last_index: int) -> None: ...
    def widen(self) -> None: ...


class View(Protocol):
    """The core, as the filter sees it: `voters` are the others, `learners` those connected."""

    def current_term(self) -> int: ...
    def commit_index(self) -> int: ...
    def leader(self) -> Node | None: ...
    def voters(self) -> AbstractSet[Node]: ...
    def learners(self) -> AbstractSet[Node]: ...
    def send_at_once(self) -> None: ...


class SnapshotPieces(Protocol):
    """The snapshot keeper, as the filter needs it (see `SnapshotKeeper`)."""

    def agreed_index(self, piece: Any) -> int: ...  # noqa: ANN401 - read from a peer
    def received(self) -> tuple[int, int] | None: ...
    def progressed(self, node: Node, index: int, size: int) -> None: ...
    def declined(self, node: Node) -> None: ...


@dataclass(frozen=True, slots=True)
class Trimmed:
    """A message as the core may see it."""

    message: Message
    narrow_to: int | None = None
    """Show the core no entry after this index while it handles the message; None for all."""


def trimmed(message: Message, log: FilteredLog, commit_index: int) -> Trimmed:
    """The new part of an append_entries, so that the core cuts nothing but what truly conflicts.

    The core cuts everything after `prevLogIdx`, whatever follows (Raft, figure 2, AppendEntries 3 and 4, asks for a
    conflict). A snapshot's piece has no `prevLogIdx`, and its commit index says nothing about the entries that are
    here.
    """
    if "prevLogIdx" not in message:
        return Trimmed({**message, "commit_index": min(message["commit_index"], commit_index)})
    entries: Sequence[Entry] = message["entries"]
    index, term = message["prevLogIdx"], message["prevLogTerm"]
    if index is None or log.term_of(index) != term:
        return Trimmed(message)  # the core cuts nothing: it answers where to begin
    known = _known(entries, log)
    if known:
        _, index, term = entries[known - 1]
    handed_on = {**message, "entries": list(entries[known:]), "prevLogIdx": index, "prevLogTerm": term}
    nothing_new = known == len(entries) and index < log.last_index
    return Trimmed(handed_on, index if nothing_new else None)


def first_of_term(index: int, log: FilteredLog, commit_index: int) -> int:
    """The first of the entries of the same term as this one, but none that was agreed on.

    Where one entry of a term is not the leader's, those before it of that term most likely are not either (Ongaro,
    Consensus: Bridging Theory and Practice, 3.5). To be sent more than is needed does no harm.
    """
    term = log.term_of(index)
    while term is not None and index - 1 > commit_index and log.term_of(index - 1) == term:
        index -= 1
    return index


def admit(node: Node, message: object, view: View) -> str:
    """Reason why the core must not see this message; "" if it may.

    Who is connected and neither a voter nor a learner is an unknown peer: a voter that this member has not heard of, or
    one that was removed. It may lead; and while nobody leads, it may ask for a vote (Ongaro, Consensus, 4.2.2, 4.2.3).
    """
    if not isinstance(message, dict) or not _well_formed(message):
        return "it is malformed"
    is_unknown_peer = node not in view.voters() and node not in view.learners()
    return _admit_unknown_peer(node, message, view) if is_unknown_peer else _admit_member(node, message, view)


def _admit_unknown_peer(node: Node, message: Message, view: View) -> str:
    kind, leader = message["type"], view.leader()
    if kind == "append_entries" or (kind == "request_vote" and leader is None):
        return ""
    if node == leader and kind not in _FROM_MEMBERS:
        return _admit_member(node, message, view)
    return "it takes no part here, as far as is known"


def _admit_member(node: Node, message: Message, view: View) -> str:
    match message["type"]:
        case "append_entries":
            return "a learner does not lead" if node in view.learners() - view.voters() else ""
        case "timeout_now":
            from_leader = node == view.leader() and message["term"] == view.current_term()
            return "" if from_leader else "only the leader of this term hands over"
        case "next_node_idx" if message["term"] > view.current_term():
            return ""  # whoever leads, leads no more
        case "next_node_idx" | "response_vote" if message["term"] != view.current_term():
            return "it speaks of another term"
        case "request_vote" | "response_vote":
            return "" if node in view.voters() else "it has no vote here"
        case _:
            return ""


def _known(entries: Sequence[Entry], log: FilteredLog) -> int:
    """Number of first entries that the log has already."""
    return next((n for n, (_, index, term) in enumerate(entries) if log.term_of(index) != term), len(entries))


def _well_formed(message: Message) -> bool:
    kind = message.get("type")
    if kind in OWN_KINDS:
        return True
    if kind == "apply_command":
        command = message.get("command")
        plain_request = isinstance(command, bytes) and command[:1] == REGULAR and len(command) <= RAFT_ENTRY_BYTES_MAX
        return plain_request and "request_id" not in message
    if kind not in _NUMBERS or not all(_is_number(message.get(name)) for name in _NUMBERS[kind]):
        return False
    if kind == "next_node_idx" and not all(type(message.get(name)) is bool for name in ("reset", "success")):
        return False
    return kind != "append_entries" or _well_formed_entries(message)


def _well_formed_entries(message: Message) -> bool:
    """True if entries follow each other from `prevLogIdx` on, and none is sent in parts (the core loses such parts)."""
    if "prevLogIdx" not in message:
        return "entries" not in message and "transmission" not in message
    entries, previous = message.get("entries"), message["prevLogIdx"]
    if previous is None:
        return entries == [] and "transmission" not in message
    if not isinstance(entries, list) or "transmission" in message or not _is_number(previous):
        return False
    return _is_number(message.get("prevLogTerm")) and all(
        _is_entry(entry, index) for index, entry in enumerate(entries, previous + 1)
    )


def _is_entry(entry: object, index: int) -> bool:
    if not isinstance(entry, tuple) or len(entry) != 3:
        return False
    command, own_index, term = entry
    return isinstance(command, bytes) and command != b"" and own_index == index and _is_number(term)


def _is_number(value: object) -> bool:
    return type(value) is int and value >= 0


class MessageFilter:
    """The transport as the core sees it. It checks, trims and dates messages, and syncs before a promise leaves.

    All else of a transport is the inner one's.
    """

    def __init__(self, inner: Any, log: FilteredLog, pieces: SnapshotPieces) -> None:  # noqa: ANN401 - pysyncobj's Transport
        """`attach` has to follow before a message comes."""
        self._inner = inner
        self._log = log
        self._pieces = pieces
        self._view: View
        self._is_attached = False
        self._votes: tuple[int, set[Node]] = (0, set())
        self._to_core: Callable[[Node, Message], None] = lambda _node, _message: None
        self.on_own: Callable[[Node, Message], None] = lambda _node, _message: None
        """Receives the messages of OWN_KINDS."""
        self.failure: BaseException | None = None
        """Error that the core raised at a message: a transport may not let it through."""
        self.refused = 0
        """Messages that did not reach the core."""

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - as the inner transport has it
        return getattr(self._inner, name)

    def attach(self, view: View) -> None:
        """Use the core's view; from here on messages reach the core."""
        self._view, self._is_attached = view, True

    # As the core's transport

    def destroy(self) -> None:
        self._is_attached = False

    def setOnMessageReceivedCallback(self, callback: Any) -> None:  # noqa: N802, ANN401 - pysyncobj's name
        self._to_core = callback
        self._inner.setOnMessageReceivedCallback(self.receive)

    def setOnUtilityMessageCallback(self, message: str, callback: Any) -> None:  # noqa: N802, ANN401 - pysyncobj's name
        """Nobody administers a member by pysyncobj's own messages."""

    def send(self, node: Node, message: Message) -> bool:
        """Send what the core says; a promise only after what it promises is durable. Raises OSError otherwise."""
        if message["type"] == "next_node_idx":
            if message["success"]:
                self._log.sync()
            message = {**message, "term": self._view.current_term()} | self._further_back(message)
        elif message.get("entries") and not self._inner.has_room(node):
            return False  # it is asked for again; more would have the member disconnected
        return bool(self._inner.send(node, message))

    def _further_back(self, message: Message) -> Message:
        """Next index after a conflict: the core goes back by one entry each time, and a long tail takes minutes."""
        if message["success"] or not message["reset"] or "image" in message:
            return {}
        return {"next_node_idx": first_of_term(message["next_node_idx"], self._log, self._view.commit_index())}

    # As the transport's receiver

    def receive(self, node: Node, message: object) -> None:
        if not self._is_attached:
            return
        reason = admit(node, message, self._view)
        if reason or not isinstance(message, dict) or self._is_second_vote(node, message):
            self.refused += 1
            return
        try:
            self._handle(node, message)
        except BaseException as error:
            self.failure = self.failure or error
            raise

    def _handle(self, node: Node, message: Message) -> None:
        if message["type"] in OWN_KINDS:
            self.on_own(node, message)
        elif message["type"] == "append_entries":
            self._append(node, message)
        else:
            self._follow_progress(node, message)
            self._to_core(node, self._bounded(message))

    def _append(self, node: Node, message: Message) -> None:
        view = self._view
        if "prevLogIdx" not in message:
            self._receive_piece(node, message)
            return
        trim = trimmed(message, self._log, view.commit_index())
        if trim.narrow_to is None:
            self._to_core(node, trim.message)
            return
        self._log.narrow(trim.narrow_to)
        try:
            self._to_core(node, trim.message)
        finally:
            self._log.widen()

    def _receive_piece(self, node: Node, message: Message) -> None:
        """Answer a piece of a snapshot, or a sign of life while the leader makes one: the core would not."""
        view = self._view
        agreed = self._pieces.agreed_index(message.get("serialized"))
        if agreed:
            message = {**message, "serialized": None}
        # What a snapshot covers was agreed on; unless that is known, the answer to it would be taken back again.
        self._to_core(node, trimmed(message, self._log, max(agreed, view.commit_index())).message)
        if message["term"] != view.current_term():
            return
        answer = {"type": "next_node_idx", "next_node_idx": agreed + 1, "reset": bool(agreed), "success": False}
        got = self._pieces.received()
        self.send(node, answer if got is None else {**answer, "image": got})

    def _follow_progress(self, node: Node, message: Message) -> None:
        if message.get("reset"):
            self._view.send_at_once()
            self._pieces.declined(node)
        match message.get("image"):
            case (int(index), int(size)):
                self._pieces.progressed(node, index, size)

    def _bounded(self, message: Message) -> Message:
        """A follower goes on behind the last entry at most: beyond it the core would find nothing to begin with."""
        if message["type"] != "next_node_idx":
            return message
        return {**message, "next_node_idx": min(message["next_node_idx"], self._log.last_index + 1)}

    def _is_second_vote(self, node: Node, message: Message) -> bool:
        """True if this voter's answer in this term has been counted; the core counts whatever comes."""
        if message["type"] != "response_vote":
            return False
        if self._votes[0] != message["term"]:
            self._votes = (message["term"], set())
        counted = node in self._votes[1]
        self._votes[1].add(node)
        return counted
