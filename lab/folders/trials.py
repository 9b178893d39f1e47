"""Random damages of a data folder, and what the broker, `storage verify` and `storage repair` make of each.

A folder is made and damaged; then it is verified, a broker starts on it, and it is repaired and started again. No
consumer gets a wrong byte, no acknowledged message or topic is gone without a word, what verify says and what the start
says agree, and after a repair that says "Repaired" the broker starts and has all that the report does not call lost.

As a command: `python -m lab.simulation --kind folders --seeds 500`.
"""

import asyncio
import json
import re
import shutil
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from danube.broker.__main__ import app
from danube.model.calls.stream import Fetch
from danube.model.errors import DanubeError
from danube.model.exit_codes import ExitCode, exit_code_of
from danube.model.topic import TopicName
from danube.storage.batches.batch import RecordKind, RecordView
from danube.storage.batches.placeholder import is_placeholder
from danube.testing.in_process_broker import Cell, running_broker
from danube.testing.patience import PATIENCE_S
from danube.testing.peers.stream import StreamPeer
from danube.wire.decode import received_message
from lab.folders.damage import damage_some
from lab.folders.worlds import MAKERS, SUBSCRIPTION, Stored, StoredTopic
from lab.kernel.chance import seeded

_FRESH = TopicName("default", "fresh")
_LAST = b"last"
_NAMED = re.compile(r"journal/[\w./-]*|segments/[\w./-]+|raft/[\w./-]*|broker\.json")
_MEMORY = Path("/dev/shm")  # noqa: S108 - syncs cost nothing there; elsewhere it works as well
_QUIET = {"telemetry_interval_s": 0.0}

Content = dict[int, bytes]  # payloads by offset, but for what is said to be lost


@dataclass(slots=True)
class Served:
    """Answers to clients of a broker that was started on the folder."""

    refusal: DanubeError | None = None  # why it did not start
    content: dict[TopicName, Content] = field(default_factory=dict)
    errors: dict[TopicName, DanubeError] = field(default_factory=dict)
    """Errors by topic that could not be read, or not to the end."""
    delivered: dict[TopicName, Content] = field(default_factory=dict)
    next_offsets: dict[TopicName, int] = field(default_factory=dict)
    names: set[TopicName] = field(default_factory=set)
    fresh: Content = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Ended:
    """The result of a command."""

    code: int
    text: str
    facts: dict[str, Any]


@dataclass(slots=True)
class FolderTrial:
    """One seed."""

    seed: int
    faults: list[str] = field(default_factory=list)
    story: list[str] = field(default_factory=list)

    def run(self) -> None:
        """Make, damage, judge, repair, judge."""
        with tempfile.TemporaryDirectory(dir=_MEMORY if _MEMORY.is_dir() else None, prefix="danube-damage-") as scratch:
            try:
                self._run(Path(scratch))
            except Exception as error:
                self.faults.append(f"no broker and no command fails like this: {error!r}")

    def _run(self, scratch: Path) -> None:
        chance = seeded(self.seed)
        folder, older = scratch / "data", scratch / "older"
        make = [*MAKERS.values()][self.seed % len(MAKERS)]
        stored = make(folder, older, chance)
        self.story += [stored.life, *map(str, damage_some(folder, older, chance))]
        damaged = shutil.copytree(folder, scratch / "damaged")
        verified = storage(folder, "verify")
        self._judge_start(stored, verified, served(folder, stored))
        if verified.code == ExitCode.DAMAGED_DATA:
            self._repair(damaged, stored)

    def _judge_start(self, stored: Stored, verified: Ended, seen: Served) -> None:
        said = verified.facts.get("findings", ())
        words = f"{verified.text} {[one['file'] for one in said]}"
        for name, error in seen.errors.items():
            self.story.append(f"{name}: {error!r}")
            is_any = any(one["level"] == "damage" and one["topic_id"] is None for one in said)
            is_any = is_any or verified.code == ExitCode.DATA_FOLDER  # it looks like one of a later version
            self._require(is_any or str(name) in words, f"verify says nothing of {name}: {error}; {words}")
        if seen.refusal is not None:
            self.story.append(f"start: {seen.refusal!r}")
            is_named = any(name in words for name in _NAMED.findall(str(seen.refusal)))
            self._require(is_named, f"verify names nothing of what the broker does: {seen.refusal}; {words}")
            if exit_code_of(seen.refusal) != verified.code:
                self.faults.append(f"verify ends with {verified.code}, a start with {seen.refusal!r}")
        else:
            self._judge_served(stored, seen, Gone(is_told=verified.code != ExitCode.OK))

    def _repair(self, folder: Path, stored: Stored) -> None:
        planned, done = storage(folder, "repair"), storage(folder, "repair", "--accept-loss")
        self.story.append(f"repair: {done.code} {done.text.splitlines()[-1:]}")
        if done.code == ExitCode.DAMAGED_DATA:
            return
        if done.code != ExitCode.OK or planned.code not in {ExitCode.NEEDS_YES, ExitCode.OK}:
            self.faults.append(f"a repair ends with {planned.code}, {done.code}: {done.text}")
            return
        again = storage(folder, "verify")
        if again.code != ExitCode.OK:
            self.faults.append(f"after a repair: {again.text}")
        seen = served(folder, stored)
        if seen.refusal is not None:
            self.faults.append(f"after a repair the broker does not start: {seen.refusal}")
            return
        self.faults += [f"after a repair {name} is not served: {error}" for name, error in seen.errors.items()]
        self._judge_served(stored, seen, lost_by(done.facts))
        after = storage(folder, "verify")
        if after.code != ExitCode.OK:
            self.faults.append(f"after a repair and a start: {after.text}")

    def _judge_served(self, stored: Stored, seen: Served, gone: "Gone") -> None:
        if back := stored.deleted & seen.names:
            self._require(gone.is_told, f"deleted topics are back: {back}")
        if seen.fresh != {0: b"fresh"}:
            self.faults.append(f"a new topic holds {seen.fresh}")
        for name, topic in stored.topics.items():
            if name not in seen.names:
                self._require(gone.is_told or name in gone.topics, f"{name} is gone without a word")
            elif name not in seen.errors:
                self._judge_topic(name, topic, seen, gone)

    def _judge_topic(self, name: TopicName, topic: StoredTopic, seen: Served, gone: "Gone") -> None:
        lost = gone.offsets.get(name, set())
        content, sound = seen.content[name], dict(enumerate(topic.messages))
        for offset, payload in content.items():
            if payload != sound.get(offset):
                self.faults.append(f"{name}: offset {offset} holds {payload!r}")
        missing = sound.keys() - content.keys()
        self._require(gone.is_told or missing <= lost, f"{name}: nobody says that {sorted(missing - lost)} are gone")
        if seen.next_offsets[name] < len(sound):
            self._require(gone.is_told, f"{name}: offset {seen.next_offsets[name]} is given out twice")
        self._judge_delivered(name, topic, seen.delivered[name], missing, gone)

    def _judge_delivered(
        self, name: TopicName, topic: StoredTopic, delivered: Content, missing: set[int], gone: "Gone"
    ) -> None:
        sound = dict(enumerate(topic.messages))
        for offset, payload in delivered.items():
            if payload != sound.get(offset):
                self.faults.append(f"{name}: a consumer got {payload!r} as offset {offset}")
        if topic.acknowledged is None:
            return
        read = {offset for offset in sound if offset in topic.acknowledged}
        unread = sound.keys() - read - missing
        self._require(gone.is_told or unread <= set(delivered), f"{name}: {unread - set(delivered)} were not delivered")
        again = delivered.keys() & read
        self._require(gone.is_told or gone.has_cursors or not again, f"{name}: {again} were delivered again")

    def _require(self, fact: object, otherwise: str) -> None:
        if not fact:
            self.faults.append(otherwise)


@dataclass(slots=True)
class Gone:
    """Losses that were reported."""

    is_told: bool = False  # whether there was a word, and nobody asks for which
    topics: set[TopicName] = field(default_factory=set)
    offsets: dict[TopicName, set[int]] = field(default_factory=dict)
    has_cursors: bool = False  # whether subscriptions may get messages again


def lost_by(report: dict[str, Any]) -> Gone:
    """The losses in the report of a repair."""
    gone = Gone(has_cursors=bool(report.get("unknown_bytes") or report.get("end_missing")))
    for topic in report["topics"]:
        ranges = [*topic["lost"], *topic["left_out"], *topic["skipped"], [0, topic["unknown_before"]]]
        gone.offsets[TopicName.parse(topic["topic"])] = {one for start, end in ranges for one in range(start, end)}
        gone.has_cursors = gone.has_cursors or bool(topic["from_start"])
    if any(finding["first_offset"] is None for finding in report["damage"]):
        gone.has_cursors = True
    return gone


def storage(folder: Path, *words: str) -> Ended:
    """`danube-broker storage`, in this process."""
    result = CliRunner().invoke(app, ["storage", *words, "--data-dir", str(folder), "-o", "json"])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    facts = json.loads(result.stdout) if result.stdout.startswith("{") else {}
    return Ended(result.exit_code, f"{result.stdout}{result.stderr}", facts)


def served(folder: Path, stored: Stored) -> Served:
    """Start a broker, and have clients read all that there is."""
    seen = Served()

    async def serve() -> None:
        try:
            async with asyncio.timeout(PATIENCE_S), running_broker(folder, **_QUIET | stored.settings) as cell:
                await _look(cell, stored, seen)
        except DanubeError as error:
            seen.refusal = error

    asyncio.run(serve())
    return seen


async def _look(cell: Cell, stored: Stored, seen: Served) -> None:
    streams = StreamPeer(cell.carrier.connect(cell.broker.addresses.broker))
    seen.names = set(await cell.admin.namespace_topics("default"))
    for name in [*stored.topics, *stored.deleted]:
        if name in seen.names:
            try:
                seen.content[name] = await _fetched(streams, name)
                await _consume(cell, name, seen)
            except DanubeError as error:
                seen.errors[name] = error
    producer = await cell.client.create_producer(_FRESH)
    await cell.client.send(_FRESH, producer, b"fresh")
    seen.fresh = await _fetched(streams, _FRESH)


async def _fetched(streams: StreamPeer, name: TopicName) -> Content:
    content: Content = {}
    for batch in await streams.fetch(Fetch(topic=name)).rest():
        if is_placeholder(batch.body):
            continue
        view = RecordView(batch.body)
        for offset, record in enumerate(view.slice(0, batch.count), batch.base_offset):
            is_whole = view.header.kind is RecordKind.MESSAGES
            content[offset] = received_message(record).payload if is_whole else bytes(record)
    return content


async def _consume(cell: Cell, name: TopicName, seen: Served) -> None:
    """Receive all that the subscription has not acknowledged, up to a message that is sent now."""
    consumer_id = await cell.client.subscribe(name, SUBSCRIPTION)
    inbox = await cell.client.receive(consumer_id)
    await cell.client.send(name, await cell.client.create_producer(name), _LAST)
    delivered = seen.delivered[name] = Content()
    while (message := await inbox.next()).payload != _LAST:
        delivered[message.offset] = message.payload
        await cell.client.acknowledge(name, message.offset, SUBSCRIPTION)
    seen.next_offsets[name] = message.offset
    inbox.close()
