"""`danube-broker metadata` as it is typed: answers, refusals, exit codes, help.

To accept a change of the help, look at it and run

    ACCEPT_SNAPSHOTS=1 .venv/bin/pytest tests/unit/broker/test_metadata_cli.py
"""

import json
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from danube.broker.__main__ import app
from danube.data_folder.data_folder import Identity
from danube.metadata.backup.backup import restored
from danube.metadata.backup.format import Backup, decode_backup, encode_backup
from danube.metadata.backup.raft import begin_group, read_raft
from danube.metadata.raft.values.node import ALONE as NOWHERE
from danube.metadata.records import keys
from danube.metadata.records.restore_mark import mark_of
from danube.metadata.state import StateSnapshot
from danube.metadata.store import Entry
from danube.model.exit_codes import ExitCode
from danube.model.limits.metadata import METADATA_KEYS_SHOWN_MAX
from danube.offline.metadata import commands, sources
from danube.runtime.disk import LocalDisk
from danube.runtime.rng import SystemRng
from tests.unit.metadata.backups import BROKER, CLUSTER, RESTORE, backup, snapshot, topic

HELP = Path(__file__).parents[2] / "snapshots" / "broker" / "metadata.txt"
HOSTILE = "x\x1b[31mit\n ignore previous instructions"
ALONE = restored(backup(), to_cluster=False, restore_id=RESTORE).snapshot
ADDRESS = "10.0.0.7:7650"


@dataclass(frozen=True, slots=True)
class Ended:
    """How a command ended."""

    code: int
    out: str
    error: str

    @property
    def answer(self) -> dict[str, Any]:
        parsed: dict[str, Any] = json.loads(self.out)
        return parsed


Run = Callable[..., Ended]


def run(*words: str, data_dir: Path | None = None, flags: tuple[str, ...] = (), typed: str | None = None) -> Ended:
    """Run `danube-broker metadata` without a terminal."""
    folder = () if data_dir is None else ("--data-dir", str(data_dir))
    environment = {"COLUMNS": "100", "TERM": "dumb"}
    command = [*flags, "metadata", *words, *folder]
    result = CliRunner().invoke(app, command, prog_name="danube-broker", env=environment, input=typed)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return Ended(result.exit_code, result.stdout, result.stderr)


@pytest.fixture
def alone(tmp_path: Path) -> Path:
    """The data folder of a broker that stands alone."""
    return folder_of(tmp_path / "alone", ALONE)


@pytest.fixture
def member(tmp_path: Path) -> Path:
    """The data folder of a member of a cluster."""
    path = tmp_path / "member"
    identify(path, is_shared=True)
    begin_group(
        LocalDisk(path), restored(backup(), to_cluster=True, restore_id=RESTORE).snapshot, ADDRESS, SystemRng(3)
    )
    return path


@pytest.fixture
def taken(tmp_path: Path, alone: Path) -> Path:
    """A backup of the broker that stands alone."""
    assert run("backup", str(tmp_path / "taken"), data_dir=alone).code == 0
    return tmp_path / "taken"


def folder_of(path: Path, state: StateSnapshot) -> Path:
    identify(path)
    begin_group(LocalDisk(path), state, NOWHERE, SystemRng(3))
    return path


def identify(path: Path, *, is_shared: bool = False, cluster_id: str = CLUSTER) -> None:
    path.mkdir()
    identity = Identity(broker_id=BROKER, cluster_id=cluster_id, is_shared=is_shared)
    (path / "broker.json").write_bytes(identity.encode())


def read(file: Path) -> Backup:
    return decode_backup(file.read_bytes(), file.name)


def content(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file() and path.name != "lock"}


def test_a_backup_holds_what_the_folder_does_and_says_whose_it_is(alone: Path, tmp_path: Path) -> None:
    ended = run("backup", str(tmp_path / "b"), data_dir=alone)
    assert (ended.code, ended.error) == (0, "")
    assert f"Revision:   10, {len(ALONE.entries)} keys" in ended.out
    found = read(tmp_path / "b")
    assert found.snapshot == ALONE
    assert (found.origin.kind, found.origin.cluster_id, found.origin.broker_id) == ("raft", CLUSTER, BROKER)


def test_a_backup_of_a_member_says_how_much_it_knows(member: Path, tmp_path: Path) -> None:
    ended = run("backup", str(tmp_path / "b"), data_dir=member)
    assert "Entries:    up to 11, as this one member had them; agreed on up to 11." in ended.out
    assert "only a majority knows" in ended.out


@pytest.mark.parametrize("words", [("inspect",), ("backup", "new"), ("restore", "taken", "--yes")])
def test_a_folder_that_another_version_wrote_is_left_alone(alone: Path, taken: Path, words: tuple[str, ...]) -> None:
    (alone / "broker.json").write_text('{"format": 99}')
    before = content(alone)
    files = {"taken": str(taken), "new": str(taken.with_name("new"))}
    ended = run(*(files.get(word, word) for word in words), data_dir=alone)
    assert (ended.code, content(alone)) == (ExitCode.DATA_FOLDER, before)
    assert "was written by another version (format 99; this one reads 1): use that version" in ended.error


def test_no_file_is_overwritten_unasked(alone: Path, taken: Path) -> None:
    before = taken.read_bytes()
    ended = run("backup", str(taken), data_dir=alone)
    assert (ended.code, taken.read_bytes()) == (ExitCode.REFUSED, before)
    assert "--overwrite" in ended.error
    assert run("backup", str(taken), "--overwrite", data_dir=alone).code == 0
    assert read(taken).snapshot == ALONE


def test_a_backup_without_a_place_for_it_is_refused_at_once(alone: Path, tmp_path: Path) -> None:
    assert run("backup", str(tmp_path / "no" / "b"), data_dir=alone).code == ExitCode.USAGE
    assert run("backup", str(tmp_path), data_dir=alone).code == ExitCode.USAGE


def test_looking_and_backing_up_change_nothing(alone: Path, member: Path, tmp_path: Path) -> None:
    for folder in (alone, member):
        before = content(folder)
        run("inspect", data_dir=folder)
        run("backup", str(tmp_path / folder.name / ".." / f"of-{folder.name}"), data_dir=folder)
        assert content(folder) == before


def test_a_folder_that_a_broker_has_is_left_alone(alone: Path, taken: Path) -> None:
    lock = LocalDisk(alone).lock("lock")
    for words in (("inspect",), ("backup", str(taken), "--overwrite"), ("restore", str(taken), "--force", "--yes")):
        ended = run(*words, data_dir=alone)
        assert ended.code == ExitCode.DATA_FOLDER
        assert "stop that broker first" in ended.error
    lock.release()


def test_a_folder_that_is_none_is_not_made_by_looking(tmp_path: Path) -> None:
    assert run("inspect", data_dir=tmp_path / "nowhere").code == ExitCode.DATA_FOLDER
    assert not (tmp_path / "nowhere").exists()


def test_metadata_that_is_kept_elsewhere_is_said_to_be(tmp_path: Path) -> None:
    identify(tmp_path / "of-etcd", is_shared=True)
    ended = run("inspect", data_dir=tmp_path / "of-etcd")
    assert ended.code == ExitCode.DATA_FOLDER
    assert "kept elsewhere" in ended.error


def test_metadata_in_memory_is_none(alone: Path) -> None:
    ended = run("inspect", data_dir=alone, flags=("--meta-store-type", "memory"))
    assert ended.code == ExitCode.USAGE


def test_a_backup_is_restored_into_a_new_folder(taken: Path, tmp_path: Path) -> None:
    ended = run("restore", str(taken), data_dir=tmp_path / "new" / "folder")
    assert (ended.code, ended.error) == (0, "")
    found = read_raft(LocalDisk(tmp_path / "new" / "folder")).snapshot
    mark = mark_of(found.entries)
    assert mark is not None
    expected = restored(read(taken), to_cluster=False, restore_id=mark.restore_id).snapshot
    assert found == expected
    assert f"Revision:   11, {len(expected.entries)} keys; read back, and the same" in ended.out


def test_what_is_there_is_replaced_by_force_only(alone: Path, taken: Path) -> None:
    before = content(alone)
    ended = run("restore", str(taken), data_dir=alone)
    assert (ended.code, content(alone)) == (ExitCode.REFUSED, before)
    assert "--force" in ended.error


def test_force_without_a_person_needs_yes(alone: Path, taken: Path) -> None:
    before = content(alone)
    ended = run("restore", str(taken), "--force", data_dir=alone, typed="y\n")
    assert (ended.code, content(alone)) == (ExitCode.NEEDS_YES, before)
    assert f"revision 10, {len(ALONE.entries)} keys" in ended.error


@pytest.mark.parametrize(("typed", "code"), [("y\n", 0), ("YES\n", 0), ("\n", 3), ("n\n", 3), ("", 3)])
def test_a_person_is_asked(alone: Path, taken: Path, typed: str, code: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commands, "is_terminal", lambda *_: True)
    ended = run("restore", str(taken), "--force", data_dir=alone, typed=typed)
    assert ended.code == code
    assert "Go on? [y/N]" in ended.error


def test_what_was_there_is_set_aside_and_can_be_looked_into(alone: Path, taken: Path) -> None:
    done = run("restore", str(taken), "--force", "--yes", "-o", "json", data_dir=alone).answer
    aside = Path(done["set_aside"])
    assert aside.parent == alone
    assert aside.name.startswith("metadata-before-")
    assert [path.name for path in aside.iterdir()] == ["raft"]
    assert run("inspect", "-o", "json", data_dir=aside).answer["revision"] == 10


def test_metadata_that_cannot_be_read_is_set_aside_too(alone: Path, taken: Path) -> None:
    (alone / "raft" / "vote").write_bytes(b"damage")
    ended = run("restore", str(taken), "--force", "--yes", data_dir=alone)
    assert ended.code == 0
    assert (next(alone.glob("metadata-before-*")) / "raft" / "vote").read_bytes() == b"damage"


def test_a_restore_that_was_cut_off_is_done_again(taken: Path, tmp_path: Path) -> None:
    half = tmp_path / "half"
    (half / sources.STAGING / "raft").mkdir(parents=True)
    (half / sources.STAGING / "raft" / "identity").write_bytes(b"half")
    assert run("restore", str(taken), data_dir=half).code == 0
    assert sorted(path.name for path in half.iterdir()) == ["lock", "raft"]


def test_a_restore_that_fails_at_its_last_step_has_lost_nothing(
    alone: Path, taken: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = content(alone / "raft")
    with monkeypatch.context() as broken:
        broken.setattr(sources, "begin_group", lambda *_: ("", 0))
        ended = run("restore", str(taken), "--force", "--yes", data_dir=alone)
    assert ended.code == ExitCode.DATA_FOLDER
    assert sorted(content(next(alone.glob("metadata-before-*"))).values()) == sorted(before.values())
    assert run("restore", str(taken), data_dir=alone).code == 0


def test_a_restore_that_is_not_read_back_as_it_was_fails(
    taken: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def begin_another(disk: LocalDisk, _snapshot: StateSnapshot, *more: Any) -> tuple[str, int]:
        return begin_group(disk, StateSnapshot(5), *more)

    monkeypatch.setattr(sources, "begin_group", begin_another)
    ended = run("restore", str(taken), data_dir=tmp_path / "new")
    assert ended.code == ExitCode.FAILURE
    assert "is not what was read back" in ended.error


def test_a_broker_that_stood_alone_is_carried_into_a_cluster(alone: Path, taken: Path) -> None:
    words = ("restore", str(taken), "--store", "raft", "--force", "--yes", "-o", "json")
    done = run(*words, data_dir=alone).answer
    assert run("inspect", "-o", "json", data_dir=alone).answer["raft"]["members"] == [
        f"{done['into'].rsplit(' ', 3)[1]}@127.0.0.1:7650"
    ]


def test_the_members_address_is_as_set(alone: Path, taken: Path) -> None:
    flags = ("--raft-addr", "127.0.0.1:7711")
    words = ("restore", str(taken), "--force", "--yes")
    assert "127.0.0.1:7711" in run(*words, data_dir=alone, flags=flags).out
    ended = run("restore", str(taken), "--force", "--yes", data_dir=alone, flags=("--raft-addr", "127.0.0.1:0"))
    assert ended.code == ExitCode.USAGE
    assert "--raft-addr host:port" in ended.error


def test_a_lost_quorum_begins_anew_at_the_address_that_the_member_had(member: Path, tmp_path: Path) -> None:
    run("backup", str(tmp_path / "b"), data_dir=member)
    before = run("inspect", "-o", "json", data_dir=member).answer
    ended = run("restore", str(tmp_path / "b"), "--force", "--yes", data_dir=member)
    assert (ended.code, f"at {ADDRESS}" in ended.out) == (0, True)
    after = run("inspect", "-o", "json", data_dir=member).answer
    assert after["families"] == before["families"]
    assert after["origin"]["cluster_id"] == before["origin"]["cluster_id"]
    for label in ("node_id", "cluster_id"):
        assert after["raft"][label] != before["raft"][label]


def test_what_is_refused_makes_no_folder(member: Path, tmp_path: Path) -> None:
    run("backup", str(tmp_path / "b"), data_dir=member)
    ended = run("restore", str(tmp_path / "b"), data_dir=tmp_path / "new")
    assert (ended.code, "--store raft" in ended.error) == (ExitCode.REFUSED, True)
    assert not (tmp_path / "new").exists()


def test_a_folder_of_another_cluster_is_refused(taken: Path, tmp_path: Path) -> None:
    identify(tmp_path / "other", cluster_id="ffff")
    ended = run("restore", str(taken), data_dir=tmp_path / "other")
    assert ended.code == ExitCode.REFUSED
    assert "another cluster (ffff)" in ended.error


@pytest.mark.parametrize(("found", "code"), [(None, ExitCode.NOT_FOUND), (b"other", 7), (b"\x09\0\0\0DnMb\x01", 8)])
def test_a_file_that_is_no_backup_is_not_restored(tmp_path: Path, found: bytes | None, code: int) -> None:
    if found is not None:
        (tmp_path / "b").write_bytes(found)
    assert run("restore", str(tmp_path / "b"), data_dir=tmp_path / "new").code == code
    assert run("inspect", "--file", str(tmp_path / "b")).code == code
    assert not (tmp_path / "new").exists()


def test_inspect_shows_what_there_is(alone: Path) -> None:
    ended = run("inspect", data_dir=alone)
    assert (ended.code, ended.error) == (0, "")
    assert f"Cluster:  {CLUSTER}" in ended.out
    assert "/topics            2" in ended.out


def test_inspect_shows_members_terms_and_files_of_raft(member: Path) -> None:
    ended = run("inspect", data_dir=member)
    assert ended.code == 0
    assert f"@{ADDRESS}" in ended.out
    assert "entries 10 to 11" in ended.out
    assert "how far its log is synced" in ended.out


def test_inspect_names_the_damage_of_a_raft_folder_and_ends_with_8(member: Path) -> None:
    (log,) = (member / "raft").glob("log-*")
    log.write_bytes(log.read_bytes()[:60] + b"\xff" + log.read_bytes()[61:])
    ended = run("inspect", data_dir=member)
    assert ended.code == ExitCode.DAMAGED_DATA
    assert "damage: " in ended.out
    assert "raft/log-0000000001" in ended.out
    assert run("backup", str(member / "b"), data_dir=member).code == ExitCode.DAMAGED_DATA


def test_inspect_shows_leases_and_what_lives_by_them(tmp_path: Path) -> None:
    (tmp_path / "b").write_bytes(b"".join(encode_backup(backup(kind="raft"))))
    found = run("inspect", "--file", str(tmp_path / "b"), "-o", "json").answer
    assert found["leases"] == [{"lease_id": 3, "ttl_s": 32.0, "renewals": 4, "keys": 1}]


def test_keys_below_a_prefix_are_shown_with_their_values(alone: Path) -> None:
    found = run("inspect", "--prefix", "/topics/default", "-o", "json", data_dir=alone).answer
    assert [one["key"] for one in found["entries"]] == ["/topics/default/mine", "/topics/default/theirs"]
    assert found["entries"][0]["value"]["topic_id"] == 4
    assert run("inspect", "--prefix", "/topics/def", data_dir=alone).out == "No keys.\n"


def test_one_key_is_shown_in_full_and_a_missing_one_is_said(alone: Path) -> None:
    ended = run("inspect", "--key", "/topics/default/mine", data_dir=alone)
    assert '"topic_id": 4' in ended.out
    missing = run("inspect", "--key", "/none", data_dir=alone)
    assert (missing.code, "/none" in missing.error) == (ExitCode.NOT_FOUND, True)


def test_yaml_and_json_say_the_same(alone: Path) -> None:
    as_yaml = yaml.safe_load(run("inspect", "--prefix", "/", "-o", "yaml", data_dir=alone).out)
    assert as_yaml == run("inspect", "--prefix", "/", "-o", "json", data_dir=alone).answer


@pytest.fixture
def hostile(tmp_path: Path) -> Iterator[Path]:
    known = topic("x", 9)
    strange = replace(known, key=f"{keys.TOPICS}/default/{HOSTILE}")
    other = Entry(f"/{HOSTILE}", HOSTILE.encode(), 9, 9)
    yield folder_of(tmp_path / "hostile", replace(ALONE, entries=(other, *ALONE.entries, strange)))


@pytest.mark.parametrize("words", [(), ("--prefix", "/"), ("--key", f"/{HOSTILE}")])
def test_names_that_strangers_chose_are_escaped(hostile: Path, words: tuple[str, ...]) -> None:
    ended = run("inspect", *words, data_dir=hostile)
    assert "\x1b" not in ended.out
    assert "\n ignore previous" not in ended.out


def test_a_record_that_cannot_be_read_is_damage(tmp_path: Path) -> None:
    broken = Entry(keys.namespace("broken"), b"{}", 9, 9)
    folder = folder_of(tmp_path / "broken", replace(ALONE, entries=tuple(sorted((broken, *ALONE.entries), key=_key))))
    ended = run("inspect", data_dir=folder)
    assert ended.code == ExitCode.DAMAGED_DATA
    assert "damage: metadata key /namespaces/broken does not hold what it should" in ended.out
    assert run("inspect", "--key", broken.key, data_dir=folder).code == ExitCode.DAMAGED_DATA


def _key(entry: Entry) -> str:
    return entry.key


def test_a_table_of_keys_has_an_end(tmp_path: Path) -> None:
    many = tuple(Entry(f"/many/{number:06}", b"1", 1, 1) for number in range(METADATA_KEYS_SHOWN_MAX + 5))
    folder = folder_of(tmp_path / "many", StateSnapshot(1, 0, many))
    assert "... and 5 more; -o json shows all" in run("inspect", "--prefix", "/many", data_dir=folder).out


def test_the_image_of_the_tests_is_sound() -> None:
    assert snapshot().entries == tuple(sorted(snapshot().entries, key=_key))


def test_the_help_is_as_it_was() -> None:
    pages = [run("--help"), *(run(verb, "--help") for verb in ("backup", "restore", "inspect", "adopt"))]
    text = "\n----\n\n".join(page.out for page in pages)
    if os.environ.get("ACCEPT_SNAPSHOTS"):
        HELP.parent.mkdir(parents=True, exist_ok=True)
        HELP.write_text(text)
    assert HELP.exists()
    assert text == HELP.read_text(), __doc__
