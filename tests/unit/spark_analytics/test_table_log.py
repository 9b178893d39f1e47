"""The commit log of a table: what is in it, who may write, and what is refused."""

import json
from pathlib import Path

import pytest

from danube.model.errors import PreconditionFailedError, SettingsError, UnsupportedError
from spark_analytics.ingest.log import Commit, DataFile, add_commit, read_log


def file(name: str) -> DataFile:
    return DataFile(path=f"data/{name}/day=2026-01-31/a.parquet", day="2026-01-31", rows=3, bytes=100)


def test_a_table_has_what_its_commits_add_and_not_what_they_remove(tmp_path: Path) -> None:
    add_commit(tmp_path, Commit(version=0, reason="batch", batch=0, added=[file("a")]))
    add_commit(tmp_path, Commit(version=1, reason="batch", batch=1, added=[file("b")]))
    add_commit(tmp_path, Commit(version=2, reason="compact", added=[file("c")], removed=[file("a").path]))
    state = read_log(tmp_path)
    assert (state.version, state.last_batch, set(state.files)) == (2, 1, {file("b").path, file("c").path})


def test_two_writers_never_make_the_same_commit(tmp_path: Path) -> None:
    add_commit(tmp_path, Commit(version=0, reason="batch", batch=0, added=[file("a")]))
    with pytest.raises(PreconditionFailedError, match="another job wrote to the table"):
        add_commit(tmp_path, Commit(version=0, reason="batch", batch=0, added=[file("b")]))
    assert set(read_log(tmp_path).files) == {file("a").path}
    assert [each.name for each in (tmp_path / "_log").iterdir()] == [f"{0:020d}.json"]


def test_a_table_of_a_newer_version_and_a_damaged_one_are_refused(tmp_path: Path) -> None:
    add_commit(tmp_path, Commit(version=0, reason="batch", batch=0, added=[file("a")]))
    (commit,) = (tmp_path / "_log").iterdir()
    commit.write_text(json.dumps({**json.loads(commit.read_text()), "format": 2}))
    with pytest.raises(UnsupportedError, match="newer version"):
        read_log(tmp_path)
    commit.write_text("{")
    with pytest.raises(SettingsError, match="is no commit of a table"):
        read_log(tmp_path)
    commit.rename(commit.with_name(f"{1:020d}.json"))
    (tmp_path / "_log" / f"{1:020d}.json").write_text(
        json.dumps({"format": 1, "version": 1, "reason": "batch", "batch": 1, "added": [], "removed": []})
    )
    with pytest.raises(SettingsError, match=r"commit 0 of the table .* is missing"):
        read_log(tmp_path)
