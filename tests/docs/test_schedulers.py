"""The examples for Airflow and Dagster: they load, and the commands that they run are ours.

Neither program is installed here: modules of the same names take down what the examples ask for.
"""

import re
import shlex
import sys
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest.mock import MagicMock

import pytest
import typer
from typer.main import get_command

from spark_analytics.__main__ import app

PAGE = (Path(__file__).parents[2] / "docs" / "analytics.md").read_text(encoding="utf-8")
EXAMPLES = dict(zip(("airflow", "dagster"), re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL), strict=True))


def run(code: str, monkeypatch: pytest.MonkeyPatch, **modules: MagicMock) -> dict[str, Any]:
    for name, names in modules.items():
        module = ModuleType(name.replace("__", "."))
        vars(module).update({each: getattr(names, each) for each in names.names})
        monkeypatch.setitem(sys.modules, module.__name__, module)
    found: dict[str, Any] = {}
    exec(code, found)
    return found


def check_command(words: list[str]) -> None:
    """Fail unless our command line has such a command with such flags."""
    program, job, *flags = words
    assert program == "danube-analytics"
    command = get_command(app)
    assert isinstance(command, typer.core.TyperGroup)
    command.commands[job].make_context(job, flags)


def test_the_example_for_airflow_loads_and_its_command_exists(monkeypatch: pytest.MonkeyPatch) -> None:
    sdk, bash = MagicMock(names=["DAG"]), MagicMock(names=["BashOperator"])
    modules = {"airflow__sdk": sdk, "airflow__providers__standard__operators__bash": bash}
    run(EXAMPLES["airflow"], monkeypatch, **modules)
    command = bash.BashOperator.call_args.kwargs["bash_command"]
    rendered = command.replace("{{ ts }}", "2026-01-02T00:00:00+00:00").replace("{{ ts_nodash }}", "20260102T000000")
    check_command(shlex.split(rendered))
    assert "{{" not in rendered
    assert len(EXAMPLES["airflow"].splitlines()) <= 20


def test_the_example_for_dagster_loads_and_its_command_exists(monkeypatch: pytest.MonkeyPatch) -> None:
    names = ["Definitions", "ScheduleDefinition", "asset", "define_asset_job"]
    dagster = MagicMock(names=names, asset=lambda work: work)
    found = run(EXAMPLES["dagster"], monkeypatch, dagster=dagster)
    ran = list[list[str]]()
    monkeypatch.setattr("subprocess.run", lambda words, **_more: ran.append(words))
    found["balance"]()
    check_command(ran[0])
    assert len(EXAMPLES["dagster"].splitlines()) <= 20
