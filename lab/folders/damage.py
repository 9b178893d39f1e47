"""Damages of the files of a stopped broker's data folder: flipped bits, cut ends, missing and older files."""

import random
import re
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from lab.kernel.chance import weighted

_SECTOR_BYTES = 512
_TELLING = re.compile(rb'"(?:topic_id|last|generation)":[0-9]|/(?:topics|subscriptions)/default/[a-z]+')
_TWICE = 0.2  # of the folders

TARGETS: Mapping[str, int] = {
    "journal/*.journal": 6,
    "journal/*.index": 1,
    "journal/first": 1,
    "journal/mark": 1,
    "segments/*/*.segment": 4,
    "segments/*/*.manifest": 3,
    "raft/log-*": 8,
    "raft/image-*": 2,
    "raft/identity": 1,
    "raft/mark": 1,
    "raft/vote": 1,
    "broker.json": 2,
}
"""Files within a data folder, and how often one of each kind is hit. Kinds that are not there are passed over."""


@dataclass(frozen=True, slots=True)
class Damage:
    """A damage of one file."""

    name: str  # within the data folder
    what: str

    def __str__(self) -> str:
        return f"{self.name}: {self.what}"


@dataclass(frozen=True, slots=True)
class _Target:
    path: Path
    older: Path  # the same file in the older copy of the folder, where it was there
    chance: random.Random


def damage_some(folder: Path, older: Path, chance: random.Random) -> list[Damage]:
    """Damage one file of a folder, or now and then two; `older` is a copy of the folder from before.

    Of two neither is a mark: those are the second witness of what is missing, and stand in for nothing else.
    """
    if chance.random() < _TWICE:
        return [_damage(folder, older, chance, [one for one in TARGETS if not one.endswith("mark")]) for _ in range(2)]
    return [_damage(folder, older, chance, TARGETS)]


def _damage(folder: Path, older: Path, chance: random.Random, patterns: Iterable[str]) -> Damage:
    found = {pattern: sorted(folder.glob(pattern)) for pattern in patterns}
    pattern = weighted(chance, {pattern: TARGETS[pattern] for pattern, paths in found.items() if paths})
    path = chance.choice(found[pattern])
    name = str(path.relative_to(folder))
    damages = [_flip, _flip, _flip, _cut, _zero, _empty, _remove, _put_back]
    if name.startswith("raft/log-"):
        damages += [_flip_text] * 3
    target = _Target(path, older / name, chance)
    while not (what := chance.choice(damages)(target)):
        continue
    return Damage(name, what)


def _flip(target: _Target) -> str | None:
    content = bytearray(target.path.read_bytes())
    if not content:
        return None
    at, bit = target.chance.randrange(len(content)), target.chance.randrange(8)
    content[at] ^= 1 << bit
    target.path.write_bytes(content)
    return f"bit {bit} of byte {at} is flipped"


def _flip_text(target: _Target) -> str | None:
    """Flip a bit that tells one topic, or its messages, from another."""
    content = bytearray(target.path.read_bytes())
    found = list(_TELLING.finditer(content))
    if not found:
        return None
    at = target.chance.choice(found).end() - 1
    content[at] ^= 1
    target.path.write_bytes(content)
    return f"bit 0 of byte {at} is flipped, which is in a record"


def _cut(target: _Target) -> str | None:
    size = target.path.stat().st_size
    end = target.chance.randrange(size) if size else 0
    with target.path.open("r+b") as file:
        file.truncate(end)
    return f"only {end} of {size} bytes are left" if size else None


def _zero(target: _Target) -> str | None:
    content = bytearray(target.path.read_bytes())
    at = target.chance.randrange(len(content) // _SECTOR_BYTES + 1) * _SECTOR_BYTES
    end = min(at + _SECTOR_BYTES, len(content))
    if not any(content[at:end]):
        return None
    content[at:end] = bytes(end - at)
    target.path.write_bytes(content)
    return f"bytes {at} to {end} are zeros"


def _empty(target: _Target) -> str:
    target.path.write_bytes(b"")
    return "it is empty"


def _remove(target: _Target) -> str:
    target.path.unlink()
    return "it is not there any more"


def _put_back(target: _Target) -> str | None:
    if not target.older.exists() or target.older.read_bytes() == target.path.read_bytes():
        return None
    shutil.copyfile(target.older, target.path)
    return "an older copy of it was put back"
