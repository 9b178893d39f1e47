"""`danube-analytics lag` without Spark: what is typed, what is shown, and what is said when something is missing."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from danube import __version__
from danube.model.errors import CancelledError
from danube.testing.patience import LONG_S
from spark_analytics.__main__ import _ends_in_time, app
from spark_analytics.jobs import run
from spark_analytics.jobs.run import JobResult
from spark_analytics.render import ResultFormat, render
from tests.golden.analytics.make import records

ROOT = Path(__file__).parents[3]
GROUPS, PARTITIONS = (part.fields["rows"] for part in records()[1:3])
RESULT = JobResult(
    run_id="nightly", job="lag", as_of_ms=1, window={}, tables={"groups": GROUPS, "partitions": PARTITIONS}, totals={}
)


def test_the_table_has_the_groups_and_no_made_up_numbers() -> None:
    header, row = render(RESULT, ResultFormat.TABLE).splitlines()
    assert " ".join(header.split()) == "STATUS TOPIC SUBSCRIPTION LAG OLDEST IN/s OUT/s CLEARS IN CAUSE"
    assert " ".join(row.split()) == 'STOP /default/orders größte "Rechnung" 200 48 s - - never nobody reads'


def test_control_characters_of_a_name_are_shown_and_not_obeyed() -> None:
    hostile = JobResult(
        run_id="x",
        job="lag",
        as_of_ms=1,
        window={},
        tables={"groups": [{**GROUPS[0], "subscription": "\x1b[31mred\r\n"}], "partitions": []},
        totals={},
    )
    assert "\\x1b[31mred\\r\\n" in render(hostile, ResultFormat.TABLE)


def test_json_lines_have_every_row_with_its_table() -> None:
    rows = [json.loads(line) for line in render(RESULT, ResultFormat.JSONL).splitlines()]
    assert [row["table"] for row in rows] == ["groups", *["partitions"] * 3]
    assert {row["run_id"] for row in rows} == {"nightly"}
    assert json.loads(render(RESULT, ResultFormat.JSON))["partitions"] == PARTITIONS


def test_help_and_version() -> None:
    runner = CliRunner()
    assert runner.invoke(app, ["--version"]).stdout == f"danube-analytics {__version__}\n"
    shown = runner.invoke(app, ["lag", "--help"]).stdout
    assert all(word in shown for word in ("Examples:", "--as-of", "--no-publish", "Exit codes:", "docs/lag.md"))


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--since", "5 weeks"], "is no duration"),
        (["--since", "0s"], "--since is from 1s to 366d"),
        (["--as-of", "soon"], "not a time"),
        (["--run-id", "a b"], "run id 'a b' is not valid"),
        (["--topic", "orders"], "topic 'orders' has an invalid format"),
        (["--namespace", "a/b"], "namespace 'a/b' is not a valid name"),
    ],
)
def test_wrong_usage_is_one_sentence_and_exit_code_2(flags: list[str], said: str) -> None:
    done = CliRunner().invoke(app, ["lag", *flags])
    assert done.exit_code == 2
    assert said in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_missing_pyspark_is_one_sentence_with_the_next_step(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "find_spec", lambda _name: None)
    done = CliRunner().invoke(app, ["lag"])
    assert done.exit_code == 2
    assert done.stderr.startswith("danube-analytics: PySpark is not installed: `pip install '.[spark]'`")


@pytest.mark.cluster
def test_help_loads_neither_spark_nor_grpc() -> None:
    program = (
        "import sys\nfrom spark_analytics.__main__ import app\n"
        "try:\n    app(args=['lag', '--help'])\nexcept SystemExit:\n    pass\n"
        "print(sorted(set(sys.modules) & {'pyspark', 'pandas', 'grpc', 'numpy'}), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stderr == "[]\n"


@pytest.mark.cluster
def test_a_cluster_that_is_not_there_is_exit_code_5() -> None:
    command = [sys.executable, "-m", "spark_analytics", "lag", "--service-url", "http://127.0.0.1:1"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 5
    assert done.stderr.startswith("danube-analytics: cannot reach 127.0.0.1:1: ")
    assert "Traceback" not in done.stderr


class EndsAsItIsForgotten:
    def __del__(self) -> None:
        signal.raise_signal(signal.SIGTERM)


def test_a_job_ends_although_what_its_end_raised_first_was_ignored() -> None:
    with pytest.raises(CancelledError, match="told to end"), _ends_in_time(LONG_S):
        EndsAsItIsForgotten()
        signal.pause()
