"""The takeover protocol as one table: the steps of owner, new owner, releaser and restart, in order. Pure.

All parties take their steps from here: the code (`takeover.py`, `release.py`, the journal's writer) and the model that
explores every interleaving of them (`lab/takeover/model.py`). A step that is left out or swapped here is left out or
swapped in both.

Three facts carry it. The new owner writes the fence and syncs it *before* it reads; an owner syncs *before* it looks at
the fence, and looks before it acknowledges. So what was acknowledged was there when the new owner read. And only a
compare-and-set in the metadata makes an owner: of several, one wins, and what the others wrote is void.
That compare-and-set is made on the condition that the journal, in which the epoch begins, was not struck off: so when a
journal was, and after that no topic's record names it, none ever will.
"""

from dataclasses import dataclass, field, replace
from enum import StrEnum


class Step(StrEnum):
    """One step; between any two of them a broker may be paused, killed, or lose its power."""

    WRITE = "write"
    """Append a round to the broker's own journal."""
    SYNC = "sync"
    """Sync all writes, so that they survive a power cut."""
    LOOK = "look at the fence"
    """Open the fence of the own journal afresh; stop when there is one."""
    ACKNOWLEDGE = "acknowledge"
    """Acknowledge to producers and consumers, and show the records."""
    FENCE = "fence"
    """Write the fence of the old owner's journal, and sync it."""
    READ = "read"
    """Read the old journal as far as it is sound, and up to where it is known to be synced: the mark."""
    APPEND_AGAIN = "append again"
    """Write the records above the mark, which may still vanish, into the own journal at the same offsets."""
    COPY_CURSORS = "copy cursors"
    """Write the cursors into the own journal."""
    SEAL = "seal"
    """Compare and set: the old epoch ends at the mark, or where its owner stopped, and the new one begins there."""
    SERVE = "serve"
    """Show what is stored, and take appends."""
    STOP = "stop"
    """Accept no appends of the topic any more, and finish those under way."""
    FLUSH = "flush cursors"
    """Write, sync and look at the fence once more for cursors that were not written yet."""
    READY = "ready"
    """Drop the topic: another broker may open it."""
    BEGIN = "begin"
    """Compare and set: after a sealed epoch a new one begins."""
    TRUNCATE = "truncate"
    """Truncate the torn end of one's own journal."""
    NEW_FILE = "new file"
    """Begin a new journal file: its existence means that the one before is synced to its end."""
    GATHER = "gather"
    """Write the tails of a topic into segments, synced, with a manifest that names them."""
    POINT = "point"
    """Compare and set: the record names that manifest, and no longer the epochs that are all in segments."""
    STRIKE_OFF = "strike off"
    """Take a fenced journal off the metadata's list of those that topics may begin in: no epoch ever begins there."""
    ASK = "ask who needs it"
    """List the records of all topics; go no further when one names the journal."""
    REMOVE = "remove"
    """Remove the journal's folder."""


OWN = (Step.WRITE, Step.SYNC, Step.LOOK, Step.ACKNOWLEDGE)
TAKEOVER = (Step.FENCE, Step.READ, Step.APPEND_AGAIN, Step.COPY_CURSORS, Step.SYNC, Step.SEAL, Step.SERVE)
RELEASE = (Step.STOP, Step.FLUSH, Step.SEAL, Step.READY)
OPEN = (Step.READ, Step.COPY_CURSORS, Step.SYNC, Step.BEGIN, Step.SERVE)
RESTART = (Step.TRUNCATE, Step.SYNC, Step.LOOK, Step.SERVE)
ROTATE = (Step.SYNC, Step.NEW_FILE)
FLUSH_PREVIOUS = (Step.GATHER, Step.POINT)
REMOVE_JOURNAL = (Step.LOOK, Step.STRIKE_OFF, Step.ASK, Step.REMOVE)


class Part(StrEnum):
    """A part of the protocol, by the broker that takes its steps."""

    OWN = "own"
    """An owner's round."""
    TAKEOVER = "takeover"
    """Takeover of topics from an owner that is dead, or believed to be."""
    RELEASE = "release"
    """The old owner's half of a planned move."""
    OPEN = "open"
    """The new owner's half of it, or of opening what was sealed."""
    RESTART = "restart"
    """A broker starts again on its own journal."""
    ROTATE = "rotate"
    """A journal begins a new file."""
    FLUSH = "flush"
    """An owner flushes a topic's tails in former owners' journals."""
    REMOVE_JOURNAL = "remove journal"
    """Any broker removes a journal that is not needed any more."""


def _steps() -> dict[Part, tuple[Step, ...]]:
    return {
        Part.OWN: OWN,
        Part.TAKEOVER: TAKEOVER,
        Part.RELEASE: RELEASE,
        Part.OPEN: OPEN,
        Part.RESTART: RESTART,
        Part.ROTATE: ROTATE,
        Part.FLUSH: FLUSH_PREVIOUS,
        Part.REMOVE_JOURNAL: REMOVE_JOURNAL,
    }


@dataclass(frozen=True, slots=True)
class Protocol:
    """All parts with their steps. The one that is right is `PROTOCOL`; others are for showing that it has to be so."""

    parts: dict[Part, tuple[Step, ...]] = field(default_factory=_steps)

    def __getitem__(self, part: Part) -> tuple[Step, ...]:
        return self.parts[part]

    def without(self, part: Part, step: Step) -> "Protocol":
        """The protocol with one step left out."""
        return self._with(part, tuple(other for other in self.parts[part] if other is not step))

    def swapped(self, part: Part, number: int) -> "Protocol":
        """The protocol with step `number` of a part and the one after it in each other's place."""
        steps = list(self.parts[part])
        steps[number], steps[number + 1] = steps[number + 1], steps[number]
        return self._with(part, tuple(steps))

    def _with(self, part: Part, steps: tuple[Step, ...]) -> "Protocol":
        return replace(self, parts={**self.parts, part: steps})


PROTOCOL = Protocol()
