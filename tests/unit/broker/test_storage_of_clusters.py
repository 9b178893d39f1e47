"""`danube-broker storage` on the folder of a broker of a cluster, whose metadata the brokers or a service keep.

The brokers here are whole ones in this process, each the one member of a Raft cluster of its own.
"""

import asyncio
import re
import shutil
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from danube.broker.__main__ import app
from danube.broker.topics.topic import ReliableTopic
from danube.data_folder.after_repair import record_repair, recorded_repair
from danube.data_folder.data_folder import REPAIRED, read_identity
from danube.metadata.backup.format import Backup, Origin
from danube.metadata.backup.raft import read_raft
from danube.metadata.records.storage import StorageRecords
from danube.model.errors import (
    DamagedDataError,
    DataFolderError,
    MetadataError,
    NewerDataFolderError,
    NewerRecordError,
)
from danube.model.exit_codes import ExitCode
from danube.model.topic import TopicName
from danube.offline.metadata.sources import ServicePlace
from danube.offline.storage.repair.quarantine_folder import QuarantineFolder
from danube.offline.storage.repair.repair_plan import TopicRepair
from danube.offline.storage.repair.repaired_log import RepairedLogWriter
from danube.offline.storage.scan.journal_contents import JournalTopic
from danube.runtime.disk import LocalDisk
from danube.storage.batches.placeholder import is_placeholder
from danube.storage.segment.manifest import Manifest
from danube.testing.in_process_broker import Cell, running_broker
from tests.unit.broker.keeper import Keeper
from tests.unit.offline.folder_world import bytes_of, flip
from tests.unit.storage.store.storage_world import flush_all

ORDERS, CLICKS = TopicName("default", "orders"), TopicName("default", "clicks")
RAFT = {"mode": "cluster", "meta_store": {"type": "raft", "raft_addr": "127.0.0.1:0"}, "telemetry_interval_s": 0}
AS_KNOWN = (
    "note: raft/: topics and their manifests are as this member knew them; what the other brokers have decided since is"
    " not in it\n"
)
ETCD = ("--meta-store-type", "etcd")


@dataclass(frozen=True, slots=True)
class Ended:
    """How a command ended."""

    code: int
    out: str
    error: str


class Member:
    """A member's data folder: its broker, and the commands on it."""

    def __init__(self, path: Path, keepers: list[Keeper]) -> None:
        self.path = path
        self._keepers = keepers

    def live(self, *works: Callable[[Cell], Awaitable[None]]) -> None:
        """Start the broker, have it do these, and stop it."""

        async def run() -> None:
            async with running_broker(self.path, **RAFT) as cell:
                for work in works:
                    await work(cell)

        asyncio.run(run())

    @property
    def keeper(self) -> Keeper:
        """Of the broker that was started last."""
        return self._keepers[-1]

    async def cut(self, _: Cell) -> None:
        await flush_all(self.keeper.storage)

    async def cut_in_vain(self, _: Cell) -> None:
        with pytest.raises(MetadataError):
            await flush_all(self.keeper.storage)

    def delete(self, topic: TopicName) -> Path:
        """Delete a topic; answers its folder, whose files are still there."""
        found: list[Path] = []

        async def delete(cell: Cell) -> None:
            found.append(self.keeper.folder(self.path, topic))
            await cell.admin.delete_topic(topic)

        self.live(delete)
        return found[0]

    def content(self, topic: TopicName) -> list[int]:
        """Which offsets hold messages; those that a repair has lost are left out."""
        found: list[int] = []

        async def read(_: Cell) -> None:
            open_topic = self.keeper.topics.find(str(topic))
            assert isinstance(open_topic, ReliableTopic)
            log = open_topic.log
            at = log.start_offset
            while batches := await log.read(at, 100_000):
                for batch in batches:
                    found.extend(() if is_placeholder(batch.body) else range(batch.base_offset, batch.end_offset))
                    at = batch.end_offset

        self.live(read)
        return found

    def storage(self, *words: str, flags: tuple[str, ...] = ()) -> Ended:
        """Run `danube-broker storage` on the folder."""
        command = [*flags, "storage", *words, "--data-dir", str(self.path)]
        environment = {"COLUMNS": "200", "TERM": "dumb"}
        ended = CliRunner().invoke(app, command, prog_name="danube-broker", env=environment)
        assert ended.exception is None or isinstance(ended.exception, SystemExit), ended.exception
        return Ended(ended.exit_code, ended.stdout, ended.stderr)

    def raft(self) -> dict[str, bytes]:
        """Every byte of the member's own state."""
        return bytes_of(self.path / "raft")

    def files(self, pattern: str) -> list[Path]:
        return sorted(self.path.glob(pattern))

    def damage_journal(self, message: bytes = b"message 3") -> None:
        """Make the newest of these messages unreadable."""
        name = next(one for one in reversed(self.files("journal/*.journal")) if message in one.read_bytes())
        flip(name, name.read_bytes().index(message))
        for index in self.files("journal/*.index"):
            index.unlink()

    def damage_segment(self) -> None:
        segment = next(one for one in self.files("segments/*/*.segment") if b"message 3" in one.read_bytes())
        flip(segment, segment.read_bytes().index(b"message 3"))

    def begin_elsewhere(self) -> None:
        """Have the metadata be nowhere in the folder, as where a service keeps it."""
        (self.path / "raft").rename(self.path.with_name("raft-of-another-place"))


def publish(topic: TopicName, count: int) -> Callable[[Cell], Awaitable[None]]:
    async def work(cell: Cell) -> None:
        producer = await cell.client.create_producer(topic)
        for number in range(count):
            await cell.client.send(topic, producer, b"message %d %s" % (number, b"x" * 300))

    return work


async def subscribe(cell: Cell) -> None:
    await cell.client.subscribe(ORDERS, "billing")


@pytest.fixture
def member(tmp_path: Path, keepers: list[Keeper]) -> Member:
    """Ten messages of two topics are in segments, five of each in the journal."""
    made = Member(tmp_path / "data", keepers)
    made.live(publish(ORDERS, 10), publish(CLICKS, 10), subscribe, made.cut, publish(ORDERS, 5), publish(CLICKS, 5))
    return made


@pytest.fixture
def elsewhere(member: Member) -> Member:
    member.begin_elsewhere()
    return member


@contextmanager
def service(member: Member, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A service that keeps what the member's Raft did."""
    snapshot = read_raft(LocalDisk(member.path)).snapshot
    taken = Backup(Origin(kind="etcd", place="", taken_ms=0, danube=""), snapshot)
    member.begin_elsewhere()
    with monkeypatch.context() as there:
        there.setattr(ServicePlace, "read", lambda _: taken)
        yield


# Raft


def test_a_healthy_folder_is_sound_and_topics_have_their_names(member: Member) -> None:
    verified, inspected = member.storage("verify"), member.storage("inspect")
    assert (verified.code, verified.error, inspected.code) == (0, "", 0)
    assert verified.out.startswith(f"{AS_KNOWN}\nSound: ")
    assert AS_KNOWN in inspected.out
    assert re.search(rf"^{ORDERS} +\d+ +0 \.\. 15 ", inspected.out, re.MULTILINE)
    assert re.search(rf"^{ORDERS} +billing +10 +0 +5$", inspected.out, re.MULTILINE)
    assert member.storage("inspect", "--topic", str(CLICKS)).code == 0
    repaired = member.storage("repair")
    assert (repaired.code, repaired.out) == (0, "Nothing to repair.\n")


def test_topics_of_other_brokers_are_not_looked_for_in_this_folder(
    member: Member, monkeypatch: pytest.MonkeyPatch
) -> None:
    (member.path / "broker.json").write_bytes(replace(read_identity(member.path), broker_id=12).encode())
    inspected = member.storage("inspect")
    assert inspected.code == 0
    assert str(ORDERS) not in inspected.out
    assert "no topic has this id" in inspected.out


def test_a_manifest_that_the_member_missed_counts_all_the_same(member: Member, monkeypatch: pytest.MonkeyPatch) -> None:
    """The others have agreed on it while this member's own log was not synced yet: then came a power cut."""
    before = {one.name: one.read_bytes() for one in (member.path / "raft").iterdir()}
    member.live(member.cut)
    for one in (member.path / "raft").iterdir():
        one.unlink()
    for name, content in before.items():
        (member.path / "raft" / name).write_bytes(content)
    assert member.storage("verify").code == 0
    out = member.storage("inspect").out
    assert re.search(rf"^{ORDERS} +\d+ +0 \.\. 15 .* 2 +\d+ +[\d,]+ +0 batches ", out, re.MULTILINE)


@pytest.mark.parametrize("is_flushed", [True, False])
def test_metadata_of_a_cluster_that_is_older_than_the_folder_learns_what_counts_at_the_start(
    tmp_path: Path, keepers: list[Keeper], *, is_flushed: bool
) -> None:
    """What it names is gone, or it names nothing yet."""
    member = Member(tmp_path / "data", keepers)
    member.live(publish(ORDERS, 10), publish(CLICKS, 10), *([member.cut] * is_flushed))
    shutil.copytree(member.path / "raft", tmp_path / "older")
    member.live(publish(ORDERS, 5), publish(CLICKS, 5), member.cut)
    before = member.content(ORDERS)
    shutil.rmtree(member.path / "raft")
    shutil.copytree(tmp_path / "older", member.path / "raft")
    assert member.content(ORDERS) == before == [*range(15)]
    assert member.storage("repair").out == "Nothing to repair.\n"


def test_damage_of_raft_is_damage_and_what_is_there_is_still_verified(member: Member) -> None:
    (log,) = member.files("raft/log-*")
    flip(log, 60)
    verified, repaired = member.storage("verify"), member.storage("repair")
    assert verified.code == repaired.code == ExitCode.DAMAGED_DATA
    assert f"damage: raft/: raft/ could not be read: raft/{log.name}, byte " in verified.out
    assert "without it nothing can be repaired" in repaired.error


def test_a_raft_of_another_cluster_is_not_gone_by(member: Member) -> None:
    other = replace(read_identity(member.path), cluster_id="00000000000000aa")
    (member.path / "broker.json").write_bytes(other.encode())
    verified = member.storage("verify")
    assert verified.code == 0
    assert "it is of another cluster" in verified.out
    assert "and this folder is of 00000000000000aa" in verified.out


def test_without_its_identity_nobody_says_whose_topics_are_in_the_folder(member: Member) -> None:
    (member.path / "broker.json").unlink()
    verified = member.storage("verify")
    assert verified.code == ExitCode.DAMAGED_DATA
    assert "damage: broker.json: the file is missing" in verified.out
    assert "broker.json cannot be read, and nobody can say which topics are in this folder" in verified.out


@pytest.mark.parametrize("damage", [Member.damage_journal, Member.damage_segment])
def test_a_repair_is_told_to_the_cluster_when_the_broker_starts(
    member: Member, damage: Callable[[Member], None]
) -> None:
    damage(member)
    before = member.raft()
    assert member.storage("verify").code == ExitCode.DAMAGED_DATA
    planned = member.storage("repair")
    assert (planned.code, (member.path / REPAIRED).exists()) == (ExitCode.NEEDS_YES, False)
    done = member.storage("repair", "--accept-loss")
    assert (done.code, done.error) == (0, "")
    assert done.out.endswith(
        "The metadata learns of it when the broker starts next; nothing has to be done for that.\n"
    )
    assert member.raft() == before
    assert member.storage("verify").out.startswith(f"{AS_KNOWN}\nSound: ")
    found = [*member.content(ORDERS), *member.content(CLICKS)]
    assert len(found) == 29
    assert (member.path / REPAIRED).exists() is False
    assert (member.storage("verify").code, len([*member.content(ORDERS), *member.content(CLICKS)])) == (0, 29)


def test_a_repair_that_was_cut_off_is_done_again(member: Member, monkeypatch: pytest.MonkeyPatch) -> None:
    member.damage_journal()
    written: list[Manifest] = []
    write = RepairedLogWriter.write

    def die_at_the_second(writer: RepairedLogWriter, repair: TopicRepair, topic: JournalTopic) -> Manifest:
        if written:
            raise OSError("power")
        written.append(write(writer, repair, topic))
        return written[0]

    with monkeypatch.context() as broken:
        broken.setattr(RepairedLogWriter, "write", die_at_the_second)
        assert member.storage("repair", "--accept-loss").code == ExitCode.DATA_FOLDER
    with pytest.raises(DamagedDataError):
        member.live()
    done = member.storage("repair", "--accept-loss")
    assert (done.code, done.error) == (0, "")
    assert len([*member.content(ORDERS), *member.content(CLICKS)]) == 29


@pytest.mark.parametrize("step", [(RepairedLogWriter, "close"), (QuarantineFolder, "drop"), (QuarantineFolder, "move")])
def test_a_repair_that_was_cut_off_loses_nothing_more_whatever_is_done_next(
    member: Member, monkeypatch: pytest.MonkeyPatch, step: tuple[type, str]
) -> None:
    def die(*_: object) -> None:
        raise OSError("power")

    member.damage_journal()
    with monkeypatch.context() as broken:
        broken.setattr(*step, die)
        assert member.storage("repair", "--accept-loss").code == ExitCode.DATA_FOLDER
    if member.storage("verify").code:
        with pytest.raises(DamagedDataError):
            member.live()
        assert member.storage("repair", "--accept-loss").code == 0
    assert len([*member.content(ORDERS), *member.content(CLICKS)]) == 29


def test_a_manifest_that_nobody_named_is_named_by_a_repair_that_goes_by_it(
    tmp_path: Path, keepers: list[Keeper], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cut has died between its manifests and the metadata; what it covers leaves with a journal that is damaged."""

    async def die(*_: object) -> None:
        raise MetadataError("power")

    member = Member(tmp_path / "data", keepers)
    with monkeypatch.context() as broken:
        broken.setattr(StorageRecords, "point", die)
        member.live(publish(CLICKS, 2), publish(ORDERS, 20), member.cut_in_vain)
    member.damage_journal(b"message 13")
    done = member.storage("repair", "--accept-loss")
    assert (done.code, "lost:" in done.out) == (0, False)
    assert (member.content(ORDERS), member.content(CLICKS)) == ([*range(20)], [0, 1])


# Elsewhere


def test_metadata_elsewhere_is_no_damage(elsewhere: Member) -> None:
    verified, inspected = elsewhere.storage("verify"), elsewhere.storage("inspect")
    assert (verified.code, verified.error, inspected.code) == (0, "", 0)
    note = (
        "note: the metadata: it is not kept in this folder: what topics and subscriptions are called, and which"
        " manifests count, was not looked at. To have it read, give the broker's own settings before the word `storage`"
        " (danube-broker --config-file FILE storage ..., or its variables)\n"
    )
    assert verified.out.startswith(note)
    assert "\nSound: " in verified.out
    assert note in inspected.out
    assert re.search(r"^\(topic id \d+\) +\d+ +0 \.\. 15 ", inspected.out, re.MULTILINE)
    assert elsewhere.storage("repair").out == "Nothing to repair.\n"
    asked = elsewhere.storage("inspect", "--topic", str(ORDERS))
    assert (asked.code, "Topics have no names without it" in asked.error) == (ExitCode.UNAVAILABLE, True)


def test_what_is_left_of_a_deleted_topic_is_no_damage(member: Member) -> None:
    folder = member.delete(CLICKS)
    for path in folder.iterdir():  # and the broker dies before it removes the folder
        path.unlink()
    member.begin_elsewhere()
    assert member.storage("verify").code == 0


@pytest.mark.parametrize("damage", [Member.damage_journal, Member.damage_segment])
def test_damage_is_found_and_what_a_repair_needs_is_said(elsewhere: Member, damage: Callable[[Member], None]) -> None:
    damage(elsewhere)
    assert elsewhere.storage("verify").code == ExitCode.DAMAGED_DATA
    before = bytes_of(elsewhere.path)
    refused = elsewhere.storage("repair", "--accept-loss")
    assert (refused.code, bytes_of(elsewhere.path)) == (ExitCode.USAGE, before)
    assert "before the word `storage` (danube-broker --config-file FILE storage ..., or its variables)" in refused.error
    assert "Nothing can be repaired before that" in refused.error


def test_with_the_broker_s_settings_the_service_is_asked_and_a_repair_is_made(
    member: Member, monkeypatch: pytest.MonkeyPatch
) -> None:
    member.damage_segment()
    with service(member, monkeypatch):
        inspected = member.storage("inspect", flags=ETCD)
        assert re.search(rf"^{ORDERS} +\d+ +0 \.\. 15 ", inspected.out, re.MULTILINE)
        assert "not looked at" not in inspected.out
        assert member.storage("repair", "--accept-loss", flags=ETCD).code == 0
        assert member.storage("verify", flags=ETCD).code == 0
    member.path.with_name("raft-of-another-place").rename(member.path / "raft")
    assert len([*member.content(ORDERS), *member.content(CLICKS)]) == 29


def test_a_service_that_does_not_answer_is_no_damage(elsewhere: Member, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: ServicePlace) -> Backup:
        raise MetadataError("etcd does not answer: is it there?")

    monkeypatch.setattr(ServicePlace, "read", refuse)
    verified = elsewhere.storage("verify", flags=ETCD)
    assert verified.code == 0
    assert "was not looked at: etcd does not answer: is it there?\n" in verified.out


@pytest.mark.parametrize("words", [("verify",), ("repair", "--accept-loss")])
def test_metadata_of_another_version_in_a_service_is_refused(
    elsewhere: Member, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    def refuse(_: ServicePlace) -> Backup:
        raise NewerRecordError("an entry of the shared log was written by another version")

    monkeypatch.setattr(ServicePlace, "read", refuse)
    told = elsewhere.storage(*words, flags=ETCD)
    assert (told.code, "was written by another version" in told.error) == (ExitCode.DATA_FOLDER, True)


# The note


def test_notes_of_several_repairs_stay_until_they_are_taken_in(tmp_path: Path) -> None:
    disk = LocalDisk(tmp_path)
    record_repair(disk, {4: 2, 5: 2})
    record_repair(disk, {5: 3})
    assert recorded_repair(disk) == {4: 2, 5: 3}


@pytest.mark.parametrize(
    ("content", "error"), [('{"format": 2}', NewerDataFolderError), ("{}", DataFolderError), ("", DataFolderError)]
)
def test_a_note_that_cannot_be_read_keeps_the_broker_from_starting(
    member: Member, content: str, error: type[Exception]
) -> None:
    (member.path / REPAIRED).write_text(content)
    with pytest.raises(error, match=REPAIRED):
        member.live()
    assert (member.path / REPAIRED).read_text() == content


def test_manifests_that_a_repair_did_not_come_to_are_left_out(member: Member) -> None:
    record_repair(LocalDisk(member.path), {int(path.name): 7 for path in member.files("segments/*")})
    assert len([*member.content(ORDERS), *member.content(CLICKS)]) == 30
    assert not (member.path / REPAIRED).exists()


def test_topics_that_were_deleted_meanwhile_are_left_out(member: Member) -> None:
    folder = member.delete(CLICKS)
    (folder / "0000000007.manifest").write_bytes(b"made by the repair")
    record_repair(LocalDisk(member.path), {int(folder.name): 7})
    assert len(member.content(ORDERS)) == 15
    assert not (member.path / REPAIRED).exists()
