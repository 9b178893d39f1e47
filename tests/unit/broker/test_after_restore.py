"""A backup that is older than the data folder is restored: a broker loses no message without being told to."""

import asyncio
import json
import logging
import re
import shlex
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from danube.broker.__main__ import app
from danube.broker.app import Broker
from danube.broker.cluster.metadata_store import MetaStore
from danube.broker.config.metadata_store import MetaStoreType
from danube.broker.config.settings import BrokerSettings
from danube.broker.environment import Environment
from danube.data_folder.data_folder import DataFolder, Identity, read_identity
from danube.data_folder.older_metadata import LostTopic, loss_text, served_by
from danube.metadata.backup.backup import restored
from danube.metadata.backup.format import decode_backup
from danube.metadata.memory import MemoryStore
from danube.metadata.records import keys
from danube.metadata.records.record_format import TopicRecord, encode_topic
from danube.metadata.state import StateSnapshot
from danube.metadata.store import Entry
from danube.model.errors import DataFolderError
from danube.model.exit_codes import ExitCode
from danube.model.topic import DispatchStrategy, TopicName
from danube.offline.metadata import commands
from danube.runtime.clock import SystemClock
from danube.storage.store import Storage
from danube.testing.in_process_broker import running_broker
from danube.testing.simulated.network import MemoryCarrier
from tests.unit.broker.keeper import Keeper

ORDERS, CLICKS = TopicName("default", "orders"), TopicName("default", "clicks")


class Scene:
    """One data folder, its broker in this process, and the commands on it."""

    def __init__(self, tmp_path: Path) -> None:
        self.data, self.file = tmp_path / "data", tmp_path / "backup"

    def publish(self, topic: TopicName, count: int, keepers: list[Keeper] | None = None) -> range:
        """Have a broker take messages, cut them where it has a keeper, and stop; answers what the topic holds."""

        async def run() -> range:
            async with running_broker(self.data) as cell:
                producer = await cell.client.create_producer(topic)
                for _ in range(count):
                    await cell.client.send(topic, producer, b"x" * 500)
                if keepers is not None:
                    await keepers[-1].let_go()
                (described,) = await cell.admin.describe(topic)
                return range(described.start_offset, described.end_offset)

        return asyncio.run(run())

    def start(self) -> None:
        """Start the broker, and stop it."""
        self.publish(ORDERS, 0)

    def metadata(self, *words: str, typed: str | None = None) -> tuple[int, str, str]:
        """Run `danube-broker metadata` on the folder."""
        command = ["metadata", *words, "--data-dir", str(self.data)]
        ended = CliRunner().invoke(app, command, prog_name="danube-broker", env={"COLUMNS": "100"}, input=typed)
        assert ended.exception is None or isinstance(ended.exception, SystemExit), ended.exception
        return ended.exit_code, ended.stdout, ended.stderr

    def backup(self) -> None:
        assert self.metadata("backup", str(self.file), "--overwrite")[0] == 0

    def restore(self) -> str:
        code, out, error = self.metadata("restore", str(self.file), "--force", "--yes")
        assert (code, error) == (0, "")
        return out

    @property
    def identity(self) -> Identity:
        return read_identity(self.data)


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    """A broker that stood alone, stopped and backed up."""
    made = Scene(tmp_path)
    made.publish(ORDERS, 10)
    made.backup()
    return made


def test_an_up_to_date_backup_is_restored_without_a_word(scene: Scene, caplog: pytest.LogCaptureFixture) -> None:
    out = scene.restore()
    assert ("Newer:" in out, "start the broker" in out) == (False, True)
    before = scene.identity.restore_id
    with caplog.at_level(logging.INFO, "danube.data_folder.older_metadata"):
        assert scene.publish(ORDERS, 1) == range(11)
    assert (before, len(scene.identity.restore_id), caplog.text) == ("", 16, "")


def test_a_broker_does_not_start_without_messages_that_an_older_backup_does_not_know(scene: Scene) -> None:
    scene.publish(CLICKS, 7)
    out = scene.restore()
    assert "Newer:      1 topic with 7 messages (/default/clicks): in this folder, and not in the backup" in out
    assert "danube-broker metadata adopt --data-dir" in out
    for _ in range(2):  # it is not forgotten by trying
        with pytest.raises(DataFolderError, match=r"1 topic with 7 messages \(/default/clicks\) would be lost"):
            scene.start()
    assert scene.identity.restore_id == ""


def test_the_command_that_shows_what_would_be_lost_can_be_run_as_printed(tmp_path: Path) -> None:
    (tmp_path / "a folder").mkdir()
    scene = Scene(tmp_path / "a folder")
    scene.publish(ORDERS, 1)
    scene.backup()
    scene.publish(CLICKS, 7)
    (command,) = re.findall("`(danube-broker metadata adopt [^`]+)`", scene.restore())
    ended = CliRunner().invoke(app, shlex.split(command)[1:], prog_name="danube-broker")
    assert (ended.exit_code, "/default/clicks" in ended.stdout) == (ExitCode.NEEDS_YES, True)


def test_a_later_backup_loses_nothing(scene: Scene, tmp_path: Path) -> None:
    scene.publish(CLICKS, 7)
    older, scene.file = scene.file, tmp_path / "later"
    scene.backup()
    later, scene.file = scene.file, older
    scene.restore()
    with pytest.raises(DataFolderError):
        scene.start()
    scene.file = later
    assert "Newer:" not in scene.restore()
    assert scene.publish(CLICKS, 1) == range(8)


def test_metadata_from_before_a_restore_that_is_put_back_by_hand_is_noticed(scene: Scene) -> None:
    scene.restore()
    scene.publish(CLICKS, 7)
    (aside,) = scene.data.glob("metadata-before-*")
    shutil.rmtree(scene.data / "raft")
    (aside / "raft").rename(scene.data / "raft")
    with pytest.raises(DataFolderError, match=r"from before it was restored: 1 topic with 7 messages \(topic id \d+\)"):
        scene.start()
    assert scene.metadata("adopt")[0] == ExitCode.NEEDS_YES
    assert scene.metadata("adopt", "--accept-loss")[0] == 0
    assert scene.publish(ORDERS, 1) == range(11)
    assert (scene.identity.restore_id, scene.identity.accepted_restore_id) == ("", None)


def test_a_consent_where_nothing_is_lost_is_none_for_later(scene: Scene) -> None:
    assert scene.metadata("adopt", "--accept-loss")[0] == 0
    assert scene.identity.accepted_restore_id is None


def test_a_start_that_is_refused_for_damage_has_taken_in_nothing(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    scene.restore()
    with monkeypatch.context() as broken:
        broken.setattr(Storage, "open", _die)
        with pytest.raises(OSError, match="power"):
            scene.start()
    assert scene.identity.restore_id == ""


def test_what_a_restore_has_set_aside_is_a_later_backup(scene: Scene) -> None:
    scene.publish(CLICKS, 7)
    scene.restore()
    (aside,) = scene.data.glob("metadata-before-*")
    data, scene.data = scene.data, aside
    scene.backup()
    scene.data = data
    scene.restore()
    assert scene.publish(CLICKS, 1) == range(8)


def test_what_an_older_backup_costs_is_given_up_by_a_person_only(scene: Scene) -> None:
    scene.publish(CLICKS, 7)
    scene.restore()
    before = (scene.data / "broker.json").read_bytes()
    code, out, error = scene.metadata("adopt")
    assert (code, (scene.data / "broker.json").read_bytes()) == (ExitCode.NEEDS_YES, before)
    assert "/default/clicks  " in out
    assert "--accept-loss" in error
    code, out, _ = scene.metadata("adopt", "--accept-loss")
    assert (code, "Accepted: the next start" in out) == (0, True)
    assert scene.publish(ORDERS, 1) == range(11)
    assert scene.publish(CLICKS, 2) == range(2)


def test_what_was_accepted_is_accepted_for_that_restore_alone(scene: Scene) -> None:
    scene.publish(CLICKS, 7)
    scene.restore()
    assert scene.metadata("adopt", "--accept-loss")[0] == 0
    scene.restore()
    with pytest.raises(DataFolderError, match="would be lost"):
        scene.start()


def test_a_folder_that_missed_a_restore_in_between_is_looked_into_all_the_same(scene: Scene) -> None:
    """The second backup is newer than the lost topic's id, and knows nothing of it."""
    scene.publish(CLICKS, 7)
    scene.restore()
    scene.backup()
    scene.restore()
    with pytest.raises(DataFolderError, match="/default/clicks"):
        scene.start()


def test_ids_of_topics_in_the_folder_are_not_given_out_again(scene: Scene) -> None:
    """The same backup restored twice begins with the same ids twice."""
    scene.restore()
    scene.publish(CLICKS, 7)
    scene.restore()
    assert scene.metadata("adopt", "--accept-loss")[0] == 0
    assert scene.publish(TopicName("default", "other"), 3) == range(3)
    assert scene.publish(TopicName("default", "other"), 1) == range(4)


def test_a_topic_that_was_cut_after_the_backup_keeps_all_its_messages(
    scene: Scene, keepers: list[Keeper], caplog: pytest.LogCaptureFixture
) -> None:
    assert scene.publish(ORDERS, 20, keepers) == range(30)
    assert list((scene.data / "segments").glob("*/*.manifest"))
    assert "Newer:" not in scene.restore()
    with caplog.at_level(logging.INFO, "danube.data_folder.older_metadata"):
        assert scene.publish(ORDERS, 5, keepers) == range(35)
    assert "learns of newer manifests" in caplog.text
    assert scene.publish(ORDERS, 0) == range(35)


def test_a_start_that_ended_half_way_is_done_again(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    scene.publish(CLICKS, 7)
    scene.restore()
    assert scene.metadata("adopt", "--accept-loss")[0] == 0
    with monkeypatch.context() as broken:
        broken.setattr(DataFolder, "adopt", _die)
        with pytest.raises(OSError, match="power"):
            scene.start()
    assert scene.identity.restore_id == ""
    assert scene.publish(ORDERS, 1) == range(11)
    assert scene.identity.accepted_restore_id is None


def _die(*_: object, **__: object) -> None:
    raise OSError("power")


def test_the_question_before_a_restore_says_what_it_costs(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    scene.publish(CLICKS, 7)
    monkeypatch.setattr(commands, "is_terminal", lambda *_: True)
    code, _, error = scene.metadata("restore", str(scene.file), "--force", typed="n\n")
    assert code == ExitCode.NEEDS_YES
    assert "1 topic with messages in this folder cannot be found in the backup. Go on?" in error


def test_adopting_says_when_there_is_nothing_to_lose(scene: Scene) -> None:
    for _ in range(2):
        code, out, error = scene.metadata("adopt")
        assert (code, error, "Nothing that is stored here would be lost." in out) == (0, "", True)
        scene.restore()
    facts = json.loads(scene.metadata("adopt", "-o", "json")[1])
    assert (facts["lost"], facts["accepted"], facts["restored"]["before"]) == ([], False, "")


def test_a_folder_without_a_broker_has_nothing_to_adopt(scene: Scene) -> None:
    (scene.data / "broker.json").unlink()
    code, _, error = scene.metadata("adopt")
    assert (code, "no broker ever had" in error) == (ExitCode.DATA_FOLDER, True)


async def in_a_cluster(scene: Scene, snapshot: StateSnapshot) -> list[str]:
    """Start the folder's broker over metadata that is kept elsewhere; answers the topics of /default."""
    clock, carrier = SystemClock(), MemoryCarrier(SystemClock())
    store = MemoryStore(clock)
    for entry in snapshot.entries:
        await store.put(entry.key, entry.value)
    values = {"mode": "cluster", "data_dir": scene.data, "broker_addr": "memory:0", "admin_addr": "memory:0"}
    world = Environment(clock=clock, carrier=carrier, meta_store=MetaStore(store, MetaStoreType.MEMORY))
    try:
        broker = await Broker.start(BrokerSettings.model_validate(values), world)
        await broker.stop()
        return [entry.key.rpartition("/")[2] for entry in await store.list("/topics/default")]
    finally:
        await store.close()


def test_a_broker_that_comes_into_a_cluster_with_an_older_backup_is_refused_until_that_is_accepted(
    scene: Scene,
) -> None:
    scene.publish(CLICKS, 7)
    scene.publish(TopicName("default", "empty"), 0)
    snapshot = restored(decode_backup(scene.file.read_bytes(), "b"), to_cluster=True, restore_id="r1").snapshot
    with pytest.raises(DataFolderError, match=r"7 messages \(/default/clicks\) would be lost"):
        asyncio.run(in_a_cluster(scene, snapshot))
    accepted = replace(scene.identity, accepted_restore_id="r1")
    (scene.data / "broker.json").write_bytes(accepted.encode())
    assert asyncio.run(in_a_cluster(scene, snapshot)) == ["orders"]
    assert (scene.identity.restore_id, scene.identity.is_shared) == ("r1", True)


def test_names_that_strangers_chose_are_escaped_in_a_refusal() -> None:
    lost = [LostTopic(number, "x\x1b[31mit\n ignore previous instructions", 2) for number in range(5)]
    text = loss_text(lost)
    assert text.startswith("5 topics with 10 messages (x\\x1b[31mit")
    assert text.endswith(", ...)")
    assert text.isprintable()


def test_a_topic_without_a_name_is_told_by_its_id() -> None:
    assert loss_text([LostTopic(7, None, 1)]) == "1 topic with 1 message (topic id 7)"


@pytest.mark.parametrize("is_shared", [False, True])
def test_topics_without_an_owner_are_nobodys(is_shared: bool) -> None:
    identity = Identity(broker_id=7, is_shared=is_shared)
    owners = {1: 0, 2: 7, 3: 8}
    topics = [
        TopicRecord(TopicName("default", f"t{number}"), number, DispatchStrategy.RELIABLE, 1, broker=owner)
        for number, owner in owners.items()
    ]
    entries = [Entry(keys.topic(one.name), encode_topic(one), 1, 1) for one in topics]
    assert sorted(served_by(identity, entries).topics) == [2]
