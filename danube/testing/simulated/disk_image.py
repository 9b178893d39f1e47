"""Images of files and folders, and the rules by which a power cut loses what was not synced.

A file is its synced bytes and a list of changes since. At a power cut each change that was not synced may have reached
the platter or not, whole or in sectors, whatever became of the ones before it; nothing that was synced is lost.
"""

import itertools
import random
from dataclasses import dataclass, field
from enum import Enum, auto

SECTOR_BYTES = 512
"""The unit that a drive writes whole or not at all."""

_ALL_KEPT = 0.15  # of the power cuts: the cache was written back just in time
_ALL_LOST = 0.25  # nothing was
_LENGTH_KEPT = 0.2  # of the files whose end was lost: the length reached the disk before the bytes, which read as zeros


class Standing(Enum):
    """The durability of one change."""

    VOLATILE = auto()
    """Not synced yet."""
    FAILED = auto()
    """A sync of it failed: the system takes it for written and never tries again."""
    SYNCED = auto()
    """Survives everything."""


@dataclass(slots=True)
class Written:
    """Bytes put at a position."""

    position: int
    data: bytes
    standing: Standing = Standing.VOLATILE


@dataclass(slots=True)
class Cut:
    """The file's length set."""

    size: int
    standing: Standing = Standing.VOLATILE


@dataclass(slots=True)
class Flipped:
    """Bits of one byte turned over by the medium."""

    position: int
    mask: int
    standing: Standing = Standing.SYNCED


Change = Written | Cut | Flipped


@dataclass(slots=True)
class FileImage:
    """The bytes of one file: as programs see them, and as the disk may keep them."""

    visible: bytearray = field(default_factory=bytearray)
    _synced: bytearray = field(default_factory=bytearray)
    _changes: list[Change] = field(default_factory=list)

    def write(self, data: bytes) -> None:
        """Put `data` at the end."""
        self._change(Written(len(self.visible), data))

    def write_again(self, position: int, chance: random.Random | None = None) -> None:
        """Put what is there from `position` on there again; with `chance`, only a part of it."""
        end = (
            len(self.visible) if chance is None else chance.randint(min(position, len(self.visible)), len(self.visible))
        )
        if position < end:
            self._change(Written(position, bytes(self.visible[position:end])))

    def cut(self, size: int) -> None:
        """Set the length; what is missing reads as zeros."""
        self._change(Cut(size))

    def flip(self, position: int, mask: int) -> None:
        """Turn over the bits of `mask` in one byte, for good."""
        self._change(Flipped(position, mask))

    def sync(self) -> None:
        """Make durable what still can be: not what an earlier sync failed on."""
        self._settle_volatile(Standing.SYNCED)
        while self._changes and self._changes[0].standing is Standing.SYNCED:
            _apply(self._synced, self._changes.pop(0))

    def fail_sync(self) -> None:
        """Forget that the unsynced changes are unsynced, as a page cache does after an I/O error."""
        self._settle_volatile(Standing.FAILED)

    def lose_power(self, chance: random.Random) -> None:
        """Keep what was synced and, of the rest, whatever chance leaves."""
        length_before = len(self.visible)
        kept = _kept_share(chance)
        for change in self._changes:
            if change.standing is Standing.SYNCED:
                _apply(self._synced, change)
            elif chance.random() < kept:
                _apply_torn(self._synced, change, chance, whole=kept == 1.0)
        if 0.0 < kept < 1.0 and len(self._synced) < length_before and chance.random() < _LENGTH_KEPT:
            _resize(self._synced, chance.randint(len(self._synced), length_before))
        self._changes.clear()
        self.visible[:] = self._synced

    def _change(self, change: Change) -> None:
        _apply(self.visible, change)
        self._changes.append(change)

    def _settle_volatile(self, standing: Standing) -> None:
        for change in self._changes:
            if change.standing is Standing.VOLATILE:
                change.standing = standing


class FolderImage:
    """The entries of one folder: as programs see them, and as the disk may keep them."""

    def __init__(self) -> None:
        self.visible: dict[str, FileImage] = {}
        self._synced: dict[str, FileImage] = {}
        self._changes: list[dict[str, FileImage | None]] = []

    def change(self, entries: dict[str, FileImage | None]) -> None:
        """Set or (None) remove entries, all of them or none."""
        _set_entries(self.visible, entries)
        self._changes.append(entries)

    def sync(self) -> None:
        """Make the entries durable."""
        self._synced = dict(self.visible)
        self._changes.clear()

    def lose_power(self, chance: random.Random) -> None:
        """Keep the synced entries and whatever chance leaves of the changes since; files lose theirs on their own."""
        kept = _kept_share(chance)
        for entries in self._changes:
            if chance.random() < kept:
                _set_entries(self._synced, entries)
        self._changes.clear()
        self.visible = dict(self._synced)


class FolderTree:
    """All folders of a disk: as programs see them, and as the disk may keep them. The root is always there."""

    def __init__(self, root: str) -> None:
        self._root = root
        self.visible: dict[str, FolderImage] = {root: FolderImage()}
        self._synced = dict(self.visible)

    def make(self, name: str) -> None:
        """Add a folder, unless it is there; volatile until its parent is synced."""
        self.visible.setdefault(name, FolderImage())

    def remove(self, name: str) -> None:
        """Take a folder away; until its parent is synced it may come back as it was."""
        del self.visible[name]

    def sync(self, name: str) -> None:
        """Make the entries of a folder durable, the folders in it among them."""
        self.visible[name].sync()
        for child in {*self.visible, *self._synced}:
            if child != self._root and child.rpartition("/")[0] == name:
                _set_folder(self._synced, child, self.visible.get(child))

    def lose_power(self, chance: random.Random) -> None:
        """Keep what was synced and whatever chance leaves of the rest."""
        kept = _kept_share(chance)
        for name in sorted({*self.visible, *self._synced}):
            visible, synced = self.visible.get(name), self._synced.get(name)
            if visible is not synced and chance.random() < kept:
                _set_folder(self._synced, name, visible)
        self._synced = {name: image for name, image in self._synced.items() if self._is_reached(name)}
        self.visible = dict(self._synced)
        for name in sorted(self.visible):
            self.visible[name].lose_power(chance)

    def _is_reached(self, name: str) -> bool:
        return name == self._root or ((parent := name.rpartition("/")[0]) in self._synced and self._is_reached(parent))


def _set_folder(folders: dict[str, FolderImage], name: str, image: FolderImage | None) -> None:
    if image is None:
        folders.pop(name, None)
    else:
        folders[name] = image


def _kept_share(chance: random.Random) -> float:
    """Probability that an unsynced change was written back before this power cut."""
    kind = chance.random()
    if kind < _ALL_KEPT:
        return 1.0
    return 0.0 if kind < _ALL_KEPT + _ALL_LOST else chance.uniform(0.2, 0.8)


def _set_entries(folder: dict[str, FileImage], entries: dict[str, FileImage | None]) -> None:
    for name, image in entries.items():
        if image is None:
            folder.pop(name, None)
        else:
            folder[name] = image


def _apply(data: bytearray, change: Change) -> None:
    match change:
        case Written(position, written):
            _put(data, position, written)
        case Cut(size):
            _resize(data, size)
        case Flipped(position, mask):
            if position < len(data):
                data[position] ^= mask


def _apply_torn(data: bytearray, change: Change, chance: random.Random, *, whole: bool) -> None:
    if whole or not isinstance(change, Written) or chance.random() < 0.5:
        _apply(data, change)
        return
    for start, end in _surviving_sectors(change.position, change.position + len(change.data), chance):
        _put(data, start, change.data[start - change.position : end - change.position])


def _surviving_sectors(start: int, end: int, chance: random.Random) -> list[tuple[int, int]]:
    """The sectors of `[start, end)` that were written: those before a point, those after it, or any."""
    edges = [start, *range((start // SECTOR_BYTES + 1) * SECTOR_BYTES, end, SECTOR_BYTES), end]
    sectors = list(itertools.pairwise(edges))
    point = chance.randint(0, len(sectors))
    match chance.randrange(3):
        case 0:
            return sectors[:point]
        case 1:
            return sectors[point:]
        case _:
            return [sector for sector in sectors if chance.random() < 0.5]


def _put(data: bytearray, position: int, written: bytes) -> None:
    if position > len(data):
        _resize(data, position)
    data[position : position + len(written)] = written


def _resize(data: bytearray, size: int) -> None:
    del data[size:]
    data.extend(bytes(size - len(data)))
