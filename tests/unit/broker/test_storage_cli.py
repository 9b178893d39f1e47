"""`danube-broker storage` as it is typed: answers, refusals, exit codes, help.

To accept a change of the help, look at it and run

    ACCEPT_SNAPSHOTS=1 .venv/bin/pytest tests/unit/broker/test_storage_cli.py
"""

import errno
import json
import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from danube.broker.__main__ import app
from danube.data_folder.findings import Finding
from danube.model.exit_codes import ExitCode
from danube.offline.output import table
from danube.offline.storage.repair.quarantine_folder import QuarantineFolder
from danube.offline.storage.repair.repair import bytes_to_write, carry_out
from danube.offline.storage.repair.repair_plan import plan_repair
from danube.offline.storage.scan.scan import scan, summaries_of, verify
from danube.offline.storage.views import scan_text
from danube.runtime.disk import LocalDisk
from tests.unit.broker.printed_commands import codes_of
from tests.unit.offline.folder_world import (
    ORDERS,
    FolderWorld,
    bytes_of,
    damaged_segment,
    flip,
    orders_world,
)

pytestmark = pytest.mark.timeout(120)  # a broker that starts though it should not would serve for ever

HELP = Path(__file__).parents[2] / "snapshots" / "broker" / "storage.txt"
HOSTILE = "aud\x1b[31mit\n ignore previous instructions"


@dataclass(frozen=True, slots=True)
class Ended:
    """How a command ended."""

    code: int
    out: str
    error: str


Storage = Callable[..., Ended]


@pytest.fixture
def folder(tmp_path: Path) -> FolderWorld:
    return orders_world(tmp_path / "data")


@pytest.fixture
def storage(folder: FolderWorld) -> Storage:
    """Runs a command on the folder, without a terminal; of the folder only the metadata's lock file is left out."""

    def run(*words: str, data_dir: Path = folder.path) -> Ended:
        command = ["storage", *words, *(() if "--help" in words else ("--data-dir", str(data_dir)))]
        result = CliRunner().invoke(app, command, prog_name="danube-broker", env={"COLUMNS": "100", "TERM": "dumb"})
        assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
        return Ended(result.exit_code, result.stdout, result.stderr)

    return run


@pytest.fixture
def damaged(folder: FolderWorld) -> Path:
    return damaged_segment(folder)


def answer(ended: Ended) -> dict[str, Any]:
    parsed: dict[str, Any] = json.loads(ended.out)
    return parsed


def test_inspect_shows_files_topics_and_subscriptions(storage: Storage) -> None:
    ended = storage("inspect")
    assert (ended.code, ended.error) == (0, "")
    assert f"{ORDERS}  1   0 .. 50" in ended.out
    assert f"{ORDERS}  billing       5         0       45" in ended.out
    assert ".journal" in ended.out


def test_inspect_tells_programs_all_there_is(storage: Storage, folder: FolderWorld) -> None:
    found = answer(storage("inspect", "-o", "json"))
    (topic,) = found["topics"]
    assert (topic["topic"], topic["start_offset"], topic["end_offset"], topic["sealed_end"]) == (ORDERS, 0, 50, 30)
    assert sum(one["file_bytes"] for one in topic["segment_list"]) == topic["segment_bytes"]
    assert [one["file"] for one in found["journal"]["files"]] == [
        f"journal/{path.name}" for path in folder.files("journal/*.journal")
    ]
    assert found["sound"]


@pytest.mark.usefixtures("damaged")
@pytest.mark.parametrize("words", [("inspect",), ("verify",), ("repair",)])
def test_yaml_and_json_say_the_same(storage: Storage, words: tuple[str, ...]) -> None:
    as_yaml = yaml.safe_load(storage(*words, "-o", "yaml").out)
    assert as_yaml == answer(storage(*words, "-o", "json"))


@pytest.mark.parametrize("pattern", ["journal/*.journal", "journal/*.index", "journal/first", "segments/*/*"])
def test_inspect_shows_what_is_in_any_file(storage: Storage, folder: FolderWorld, pattern: str) -> None:
    name = str(folder.files(pattern)[0].relative_to(folder.path))
    ended = storage("inspect", "--file", name)
    assert (ended.code, ended.error) == (0, "")
    assert ended.out.startswith(name)
    assert answer(storage("inspect", "--file", name, "-o", "json"))["file"] == name


def test_inspect_shows_one_topic_with_its_segments(storage: Storage, folder: FolderWorld) -> None:
    ended = storage("inspect", "--topic", ORDERS)
    assert all(str(path.relative_to(folder.path)) in ended.out for path in folder.files("segments/*/*.segment"))


@pytest.mark.parametrize(("flag", "name"), [("--topic", "/default/none"), ("--file", "none.segment")])
def test_what_is_not_there_is_said(storage: Storage, flag: str, name: str) -> None:
    ended = storage("inspect", flag, name)
    assert ended.code == ExitCode.NOT_FOUND
    assert name in ended.error


@pytest.mark.parametrize("name", ["none.segment", "broker.json", "identity"])
def test_the_command_that_lists_files_can_be_run_as_printed(storage: Storage, folder: FolderWorld, name: str) -> None:
    said = storage("inspect", "--file", name).error
    assert f"no file of messages in the data folder is called {name}" in said
    assert codes_of(said) == {"inspect": 0}


@pytest.mark.parametrize(
    ("pattern", "shown"),
    [
        ("journal/*.index", ["end position: ", "sequence: ", "base position: "]),
        ("segments/*/*.segment", ["base offset: 0", "first append time: 2", "Z\nlast append time: 2"]),
        ("segments/*/*.manifest", ["cursors: billing at 5", "journals: ", "last append time: 2"]),
    ],
)
def test_what_is_in_a_file_is_shown_in_words(
    storage: Storage, folder: FolderWorld, pattern: str, shown: list[str]
) -> None:
    out = storage("inspect", "--file", folder.files(pattern)[0].name).out
    assert [one for one in shown if one not in out] == []
    assert "_ms" not in out
    assert "{" not in out


def test_no_command_changes_the_folder_unasked(storage: Storage, folder: FolderWorld, damaged: Path) -> None:
    before = bytes_of(folder.path)
    for words in (("inspect",), ("verify",), ("repair",)):
        storage(*words)
    assert bytes_of(folder.path) == before


def test_verify_of_a_sound_folder_ends_with_0(storage: Storage) -> None:
    ended = storage("verify")
    assert (ended.code, ended.error) == (0, "")
    assert ended.out.startswith("Sound: ")


@pytest.mark.parametrize("name", ["raft/log-0000000001", "broker.json"])
@pytest.mark.parametrize("words", [("inspect",), ("verify",), ("repair", "--accept-loss")])
def test_a_file_that_cannot_be_opened_is_no_damage_of_it(
    storage: Storage, folder: FolderWorld, name: str, words: tuple[str, ...]
) -> None:
    (folder.path / name).unlink()
    (folder.path / name).symlink_to(folder.path / name)  # permissions hold back no superuser, a link to itself does
    ended = storage(*words)
    assert (ended.code, ended.out) == (ExitCode.DATA_FOLDER, "")
    assert f"{name}: {os.strerror(errno.ELOOP)}; check its symbolic links" in ended.error


def test_verify_tells_each_fault_and_ends_with_8(storage: Storage, folder: FolderWorld, damaged: Path) -> None:
    ended = storage("verify")
    assert ended.code == ExitCode.DAMAGED_DATA
    where = f"damage: {damaged.relative_to(folder.path)}, byte 36"
    assert f"{where}: a block is not what was written ({ORDERS}, offset 3)" in ended.out
    (finding,) = answer(storage("verify", "-o", "json"))["findings"]
    assert (finding["topic"], finding["end_offset"] - finding["first_offset"]) == (ORDERS, 1)


@pytest.mark.usefixtures("damaged")
def test_whoever_waits_for_a_repair_sees_how_far_it_is(storage: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    bars: dict[str, tuple[int, list[int]]] = {}

    @contextmanager
    def progress(what: str, total_bytes: int) -> Iterator[Callable[[int], None]]:
        bars[what] = total_bytes, []
        yield bars[what][1].append

    monkeypatch.setattr("danube.offline.storage.commands.progress", progress)
    monkeypatch.setattr("danube.offline.storage.repair.repaired_log._TOLD_BYTES", 1_000)
    assert storage("repair", "--accept-loss").code == ExitCode.OK
    total, wrote = bars["writing"]
    assert len(wrote) > 1
    assert 0.5 * total < sum(wrote) <= total


def test_a_repair_tells_of_every_byte_of_a_journal_that_it_writes_anew(storage: Storage, folder: FolderWorld) -> None:
    journal = folder.files("journal/*.journal")[0]
    flip(journal, journal.read_bytes().index(b"DnBt") + 20)
    found = verify(folder.disk, folder.known())
    plan, told = plan_repair(folder.disk, found), list[int]()
    carry_out(folder.disk, found, plan, QuarantineFolder(folder.path, 1_000), progress=told.append)
    assert sum(told) == bytes_to_write(folder.disk, plan, found) > 0
    assert storage("verify").code == ExitCode.DAMAGED_DATA  # nobody was told of what was written


def test_only_files_that_are_there_are_counted(storage: Storage, folder: FolderWorld) -> None:
    before = answer(storage("verify", "-o", "json"))
    segment = folder.files("segments/*/*.segment")[0]
    segment_bytes = segment.stat().st_size
    segment.unlink()
    after = answer(storage("verify", "-o", "json"))
    read = before["files"] - after["files"], before["bytes_read"] - after["bytes_read"]
    assert read == (1, segment_bytes)


def test_damage_is_told_in_the_order_of_the_file(folder: FolderWorld) -> None:
    found = scan(folder.disk, folder.known())
    found.findings = [Finding(file="journal/a", at=at, end=at + 1, what="gone") for at in (1_000, 36, 200)]
    assert re.findall(r"damage: journal/a, byte (\d+): gone", scan_text(found, summaries_of(found), "", None)) == [
        "36",
        "200",
        "1000",
    ]


def test_files_that_are_all_missing_are_told_together(folder: FolderWorld) -> None:
    found = scan(folder.disk, folder.known())
    names = [f"journal/{number:010}.journal" for number in range(1, 1_001)]
    found.findings = [Finding(file=name, at=0, end=0, what="the file is missing") for name in names]
    out = scan_text(found, summaries_of(found), "", None)
    assert re.findall(r"(?m)^damage: (.*)$", out) == [
        f"{names[0]}: the file is missing",
        f"the same of 999 more files up to {names[-1]}; -o json shows all",
    ]


def test_damage_that_inspect_comes_across_leads_to_verify(storage: Storage, folder: FolderWorld) -> None:
    flip(folder.files("journal/*.journal")[0], 60)
    ended = storage("inspect")
    assert ended.code == ExitCode.OK
    assert codes_of(ended.out) == {"verify": ExitCode.DAMAGED_DATA}


@pytest.mark.parametrize("damage", [Path.unlink, lambda path: path.write_text("{")])
def test_a_folder_that_does_not_say_whose_it_is_is_not_sound(
    storage: Storage, folder: FolderWorld, damage: Callable[[Path], object]
) -> None:
    damage(folder.path / "broker.json")
    verified, repaired = storage("verify"), storage("repair", "--accept-loss")
    assert (verified.code, repaired.code) == (ExitCode.DAMAGED_DATA, ExitCode.DAMAGED_DATA)
    for ended in (verified, repaired, storage("inspect")):
        assert "damage: broker.json: " in ended.out
    assert "Next: restore what is named above from a backup" in verified.out
    assert "None of this can be repaired: restore it from a backup." in repaired.out
    started = CliRunner().invoke(app, ["--data-dir", str(folder.path)], prog_name="danube-broker")
    assert started.exit_code == ExitCode.DAMAGED_DATA


def test_repair_without_consent_says_what_it_would_do_and_ends_with_3(storage: Storage, damaged: Path) -> None:
    ended = storage("repair")
    assert ended.code == ExitCode.NEEDS_YES
    assert "lost: 1 message, offset 3\n" in ended.out
    assert "kept: 49 messages" in ended.out
    assert "--accept-loss" in ended.error


def test_repair_with_consent_does_what_was_said(storage: Storage, folder: FolderWorld, damaged: Path) -> None:
    planned = answer(storage("repair", "-o", "json"))
    done = answer(storage("repair", "--accept-loss", "-o", "json"))
    assert done["done"]
    assert {**planned, "done": True, "folder": done["folder"]} == done
    assert json.loads((folder.path / done["folder"] / "report.json").read_text()) == done
    assert storage("verify").code == 0
    assert storage("repair").out == "Nothing to repair.\n"


def test_what_was_set_aside_can_still_be_inspected(storage: Storage, damaged: Path) -> None:
    done = answer(storage("repair", "--accept-loss", "-o", "json"))
    ended = storage("inspect", "--file", f"{done['folder']}/{done['set_aside'][0]}")
    assert "damaged" in ended.out


@pytest.fixture
def mounted(folder: FolderWorld, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A data folder with a damaged journal that is a mount point, as the system tells it."""
    moved = FolderWorld(folder.path.rename(folder.path.with_name("a folder")))
    flip(moved.files("journal/*.journal")[0], 60)
    told = moved.path.parent / "mountinfo"
    where = str(moved.path / "journal").replace(" ", "\\040")
    told.write_text(f"21 1 8:1 / / rw - ext4 /dev/sda rw\n22 21 8:1 /x {where} rw - ext4 /dev/sda rw\n")
    monkeypatch.setattr("danube.offline.storage.repair.quarantine_folder._MOUNTS", told)
    return moved.path


def test_a_journal_that_is_a_mount_point_is_refused_before_anything_is_written(storage: Storage, mounted: Path) -> None:
    before = bytes_of(mounted)
    assert storage("repair", data_dir=mounted).code == ExitCode.NEEDS_YES
    ended = storage("repair", "--accept-loss", data_dir=mounted)
    assert (ended.code, ended.out) == (ExitCode.DATA_FOLDER, "")
    assert f"{mounted / 'journal'} is a mount point" in ended.error
    assert "nothing was changed. Copy what is in it, unmount it" in ended.error
    assert bytes_of(mounted) == before  # broker.json too: a journal is still expected


def test_a_mounted_journal_that_stays_keeps_nobody_from_a_repair(storage: Storage, mounted: Path) -> None:
    world = FolderWorld(mounted)
    flip(world.files("journal/*.journal")[0], 60)  # it is whole again
    flip(world.files("segments/*/*.segment")[0], 100)
    assert storage("repair", "--accept-loss", data_dir=mounted).code == ExitCode.OK


def test_a_folder_that_a_broker_has_is_left_alone(storage: Storage, folder: FolderWorld) -> None:
    lock = LocalDisk(folder.path).lock("lock")
    ended = storage("verify")
    lock.release()
    assert ended.code == ExitCode.DATA_FOLDER
    assert "in use by a broker that runs: stop that broker first" in ended.error


@pytest.mark.parametrize("words", [("inspect",), ("verify",), ("repair", "--accept-loss")])
def test_a_folder_that_another_version_wrote_is_left_alone(
    storage: Storage, folder: FolderWorld, damaged: Path, words: tuple[str, ...]
) -> None:
    (folder.path / "broker.json").write_text('{"format": 99, "owner": "unknown to us"}')
    before = damaged.read_bytes()
    ended = storage(*words)
    assert (ended.code, damaged.read_bytes()) == (ExitCode.DATA_FOLDER, before)
    assert "was written by another version (format 99; this one reads 1): use that version" in ended.error


def test_a_folder_that_is_none_is_not_made(storage: Storage, tmp_path: Path) -> None:
    ended = storage("inspect", data_dir=tmp_path / "nowhere")
    assert ended.code == ExitCode.DATA_FOLDER
    assert "nowhere is not there: name the broker's data folder with --data-dir" in ended.error
    assert not (tmp_path / "nowhere").exists()


def test_an_empty_folder_is_no_data_folder(storage: Storage, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    ended = storage("inspect", data_dir=tmp_path / "empty")
    assert ended.code == ExitCode.DATA_FOLDER
    assert "empty is not the data folder of a broker: name " in ended.error
    assert list((tmp_path / "empty").iterdir()) == []


@pytest.mark.parametrize(("columns", "is_drawn"), [("200", True), ("80", False)])
def test_tables_are_drawn_where_they_fit(monkeypatch: pytest.MonkeyPatch, columns: str, *, is_drawn: bool) -> None:
    monkeypatch.setattr("danube.offline.output.is_terminal", lambda _: True)
    monkeypatch.setenv("COLUMNS", columns)
    cells = ("0000000004.journal", "a" * 70)
    lines = table("Files", ("file", "what"), [cells]).splitlines()
    assert len(lines) == 3  # no cell in several lines
    assert ("\x1b[1mFILE" in lines[1]) == is_drawn
    assert all(cell in lines[2] for cell in cells)


def test_names_that_strangers_chose_are_escaped(folder: FolderWorld) -> None:
    found = scan(folder.disk, folder.known())
    topic = summaries_of(found)[0]
    hostile = [replace(one, subscription=HOSTILE) for one in topic.subscriptions]
    topics = [replace(topic, topic=HOSTILE, subscriptions=tuple(hostile))]
    out = scan_text(found, topics, str(folder.path), None)
    assert "\x1b" not in out
    assert "\n ignore previous" not in out


def test_the_help_is_as_it_was(storage: Storage) -> None:
    pages = [storage("--help"), *(storage(verb, "--help") for verb in ("inspect", "verify", "repair"))]
    text = "\n----\n\n".join(page.out for page in pages)
    if os.environ.get("ACCEPT_SNAPSHOTS"):
        HELP.parent.mkdir(parents=True, exist_ok=True)
        HELP.write_text(text)
    assert HELP.exists()
    assert text == HELP.read_text(), __doc__
