"""The benchmarks that have a small size work; what they measure is not judged here."""

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.cluster, pytest.mark.nightly, pytest.mark.timeout(300)]

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("name", "figure"),
    [
        ("storage", "by turns, segments"),
        ("cold_reader", "beside a reader of 24 MiB: p99"),
        ("peers", "danube: end to end, 1024 bytes"),
        ("memory", "after 50,000 messages"),
        ("metadata", "alone, 50 keys: linearizable reads, 32 in flight"),
    ],
)
def test_a_benchmark_runs_with_its_small_size(name: str, figure: str) -> None:
    done = run("--quick", name)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("machine: ")
    assert figure in done.stdout


def test_a_benchmark_without_a_small_size_is_not_run_in_place_of_one() -> None:
    done = run("--quick", "spark")
    assert done.returncode == 2
    assert "there is no spark with --quick: take storage, cold_reader" in done.stderr


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "bench", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=240)
