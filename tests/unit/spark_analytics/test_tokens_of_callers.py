"""Tokens of callers come from the environment or a file; one on the command line is a warning, and no child has one."""

import subprocess
from pathlib import Path

import pytest
from typer.testing import CliRunner

from danube.model.errors import InvalidRequestError, NotFoundError, SettingsError
from danube.model.records.analytics import AnalyticsJob
from danube.model.records.schedules import Schedule
from spark_analytics.__main__ import app
from spark_analytics.flags import chosen_token
from spark_analytics.results import Cluster
from spark_analytics.schedules import commands
from spark_analytics.schedules.runner import Due, command_of

SECRET = "a.b.c-secret"
WARNING = "warning: processes of this machine and the shell's history show what --token has"


@pytest.mark.parametrize(
    ("way", "is_warned"), [(("--token", SECRET), True), (("--token-file", "FILE"), False), ((), False)]
)
def test_a_token_on_the_command_line_counts_and_is_a_warning(
    way: tuple[str, ...], is_warned: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = []

    def schedules(_service_url: str, _ca_cert: Path | None, token: str | None) -> None:
        given.append(token)
        raise NotFoundError("enough is known")

    monkeypatch.setattr(commands, "_schedules", schedules)
    file = tmp_path / "token"
    file.write_text(f"{SECRET}\n")
    environ = {"DANUBE_TOKEN": "another" if way else SECRET}
    words = [str(file) if word == "FILE" else word for word in way]
    said = CliRunner().invoke(app, ["schedule", "list", *words], env=environ)
    assert given == [SECRET]
    assert (WARNING in said.stderr) is is_warned
    assert SECRET not in said.stderr


def test_a_file_without_a_token_is_refused_and_not_shown(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("two words\n")
    with pytest.raises(SettingsError, match="holds no token") as refused:
        chosen_token(None, file)
    assert "two words" not in str(refused.value)
    with pytest.raises(SettingsError, match="cannot read the token file"):
        chosen_token(None, tmp_path / "nothing")


def test_no_command_of_a_run_has_a_token() -> None:
    cluster = Cluster(service_url="https://127.0.0.1:1", token=SECRET)
    schedule = Schedule(name="lag", job=AnalyticsJob.LAG, every_s=60, first_ms=0, arguments=())
    assert SECRET not in subprocess.list2cmdline(command_of(cluster, Due(schedule, 0), "local[2]"))
    for flag in ("--token", "--token-file"):
        with pytest.raises(InvalidRequestError):
            Schedule(name="lag", job=AnalyticsJob.LAG, every_s=60, first_ms=0, arguments=(flag, SECRET)).check()
