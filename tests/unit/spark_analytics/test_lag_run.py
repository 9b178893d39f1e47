"""What a run of the job tells of itself, without Spark."""

from collections.abc import Sequence

import pytest

from danube.model.errors import CancelledError
from danube.model.lag.group import LagFilter
from danube.model.records.analytics import RecordKind, RunRecord
from danube.testing.simulated.clock import SimClock
from spark_analytics.jobs.run import JobRequest, run_job
from spark_analytics.progress import Steps
from spark_analytics.results import Cluster


def test_a_run_that_is_told_to_end_while_it_tells_of_its_start_says_that_it_failed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Others may have read of the start by then, and would take the run for one that goes on."""
    stored: list[RunRecord] = []

    def publish(_cluster: Cluster, records: Sequence[RunRecord], _name: str) -> None:
        stored.extend(records)
        if len(stored) == 1:
            raise CancelledError("it was told to end before it was done")

    monkeypatch.setattr(Cluster, "check_telemetry", lambda _cluster: None)
    monkeypatch.setattr(Cluster, "publish", publish)
    monkeypatch.setattr("spark_analytics.jobs.run.check_spark", lambda: None)
    clock = SimClock()
    request = JobRequest(
        cluster=Cluster(service_url="http://127.0.0.1:1"),
        run_id="run",
        attempt="attempt",
        since_s=60,
        wanted=LagFilter(),
        time_limit_s=60,
    )
    with pytest.raises(CancelledError):
        run_job(request, clock, Steps.for_terminal(clock, quiet=True, wanted=False))
    assert [one.kind for one in stored] == [RecordKind.STARTED, RecordKind.FAILED]
