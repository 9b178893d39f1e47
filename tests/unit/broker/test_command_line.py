"""What `danube-broker --help` shows can be typed as it stands."""

import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from danube.broker.__main__ import _EPILOG, app

COMMAND = "danube-broker"


def _examples() -> Iterator[str]:
    """Those that run a broker; those of its subcommands are looked at where these are."""
    for line in _EPILOG.splitlines():
        typed = line.partition("   (")[0].strip()
        if line.startswith("  ") and COMMAND in typed.split() and " storage " not in typed:
            yield typed


@pytest.mark.parametrize("typed", list(_examples()))
def test_an_example_of_the_help_is_taken_as_it_stands(
    typed: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "broker.yml").write_text("log_level: info\n")
    variables, _, arguments = typed.partition(COMMAND)
    environment = dict(each.split("=", 1) for each in variables.split())
    given = [each for each in shlex.split(arguments) if each not in {"settings", "--explain"}]
    ended = CliRunner().invoke(app, [*given, "settings"], env=environment)
    assert ended.exit_code == 0, ended.output


def test_a_tilde_that_no_shell_expands_is_the_home_folder(tmp_path: Path) -> None:
    (tmp_path / "broker.yml").write_text("log_level: error\n")
    given = ["--config-file=~/broker.yml", "--data-dir=~/data", "settings"]
    ended = CliRunner().invoke(app, given, env={"HOME": str(tmp_path)})
    assert f'data_dir = "{tmp_path}/data"   (--data-dir)' in ended.output
    assert 'log_level = "error"' in ended.output


def test_an_empty_path_is_not_the_working_folder() -> None:
    result = CliRunner().invoke(app, ["--data-dir", "", "settings"])
    assert str(result.exception) == "--data-dir is empty: give a path, or leave it out"


def test_the_help_has_an_example_of_each_kind_of_cluster() -> None:
    examples = " ".join(_examples())
    assert "--seed-nodes" in examples
    assert "--meta-store-type etcd" in examples
