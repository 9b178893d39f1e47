"""Starting a job and asking for what it found, without Spark: the job is played by a small program."""

import sys
from collections.abc import AsyncIterator, Callable, Iterable, Sequence

import pytest

from danube.admin.analytics.jobs import JOBS
from danube.admin.operations.analytics import analytics
from danube.admin.operations.analytics.analytics import (
    AnalyticsAnswer,
    GetAnalyticsParams,
    RunAnalyticsParams,
    RunAnswer,
)
from danube.admin.operations.operation import Call
from danube.model.errors import InternalError, InvalidRequestError, NotFoundError, UnavailableError, UnsupportedError
from danube.model.limits.faces import ANALYTICS_RUN_GRACE_S
from danube.model.plans.plan import Caller, Face
from danube.model.records.analytics import ANALYTICS_TOPIC, LAG_JOB, Row, RunRecord, RunWriter, encode_record
from danube.runtime.clock import SystemClock
from tests.faces.memory_gateway import HOSTILE, MemoryGateway
from tests.faces.seeded import seeded_gateway

ME = Caller(who="me@here", face=Face.CLI)
SLEEPS = "import signal; signal.pause()"
NO_BROKER = "import sys; sys.stderr.write('danube-analytics: cannot reach 127.0.0.1:1\\n'); sys.exit(5)"
BREAKS = "import sys; sys.stderr.write('step\\ndanube-analytics: it broke\\n'); sys.exit(1)"
Play = Callable[..., None]


@pytest.fixture
def gateway() -> MemoryGateway:
    return seeded_gateway(SystemClock())


@pytest.fixture
async def play(gateway: MemoryGateway, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Play]:
    """Have the job be a program, and its records be there as soon as it is started."""

    def play(program: str, *records: RunRecord) -> None:
        def command(_arguments: Sequence[str]) -> list[str]:
            publish(gateway, records)
            return [sys.executable, "-c", program]

        monkeypatch.setattr(analytics, "command_of", command)

    yield play
    JOBS.close()


def publish(gateway: MemoryGateway, records: Iterable[RunRecord]) -> None:
    gateway.publish_system(ANALYTICS_TOPIC, *map(encode_record, records))


def told(gateway: MemoryGateway, *, age_s: float = -1.0, run_id: str = "nightly") -> tuple[RunWriter, RunRecord]:
    """A writer, and the start of its run."""
    at_ms = gateway.clock.now_ms() - round(age_s * 1_000)
    writer = RunWriter(run_id=run_id, attempt="a", job=LAG_JOB)
    window = {"filter": {"topic": None, "subscription": None, "namespace": None}}
    return writer, writer.started(at_ms, as_of_ms=at_ms, time_limit_s=60, window=window)


def finished(gateway: MemoryGateway, *, age_s: float = -1.0, run_id: str = "nightly") -> list[RunRecord]:
    writer, start = told(gateway, age_s=age_s, run_id=run_id)
    tables: dict[str, list[Row]] = {"groups": [], "partitions": []}
    return [start, *writer.result(start.at_ms + 1, tables, totals={}, window=start.fields["window"])]


async def run(gateway: MemoryGateway, **arguments: object) -> RunAnswer:
    call = Call(gateway=gateway, clock=gateway.clock, caller=ME)
    work = analytics.RUN_ANALYTICS.run
    assert work is not None
    return await work(call, RunAnalyticsParams.model_validate(arguments))


async def result(gateway: MemoryGateway, **arguments: object) -> AnalyticsAnswer:
    call = Call(gateway=gateway, clock=gateway.clock, caller=ME)
    work = analytics.GET_ANALYTICS_RESULT.run
    assert work is not None
    return await work(call, GetAnalyticsParams.model_validate(arguments))


async def test_a_dry_run_shows_the_command_and_starts_nothing(gateway: MemoryGateway) -> None:
    answer = await run(gateway, dry_run=True, run_id="nightly", topic="default/orders", since_s=3_600)
    wanted = "--service-url=http://127.0.0.1:6650 --run-id=nightly --since=3600s --topic=/default/orders --progress"
    assert answer.command.endswith(f"-m spark_analytics lag {wanted}")
    assert (answer.state, JOBS.get("nightly")) == ("planned", None)


@pytest.mark.cluster
async def test_a_started_job_is_answered_with_the_next_call(gateway: MemoryGateway, play: Play) -> None:
    play(SLEEPS, told(gateway)[1])
    answer = await run(gateway, run_id="nightly")
    assert (answer.state, answer.next_step) == (
        "running",
        "call get_analytics_result with run_id nightly in half a minute",
    )


@pytest.mark.cluster
async def test_waiting_answers_the_end_of_the_run(gateway: MemoryGateway, play: Play) -> None:
    play(SLEEPS, *finished(gateway))
    answer = await run(gateway, run_id="nightly", wait_s=20)
    assert (answer.state, answer.next_step) == ("finished", "call get_analytics_result with run_id nightly")


@pytest.mark.cluster
async def test_a_run_that_failed_says_why(gateway: MemoryGateway, play: Play) -> None:
    writer, start = told(gateway)
    play(SLEEPS, start, writer.failed(start.at_ms, error="INTERNAL", detail="Spark could not do it"))
    answer = await run(gateway, run_id="nightly", wait_s=20)
    assert (answer.state, answer.detail) == ("failed", "Spark could not do it")


@pytest.mark.cluster
@pytest.mark.parametrize(
    ("program", "error", "said"),
    [(NO_BROKER, UnavailableError, "run x: cannot reach 127.0.0.1:1"), (BREAKS, InternalError, "run x: it broke")],
)
async def test_a_job_that_ends_before_its_first_record_is_an_error_with_its_words(
    gateway: MemoryGateway, play: Play, program: str, error: type[Exception], said: str
) -> None:
    play(program)
    with pytest.raises(error, match=said):
        await run(gateway, run_id="x")


@pytest.mark.cluster
async def test_an_older_result_under_the_same_id_is_not_the_answer(gateway: MemoryGateway, play: Play) -> None:
    play(BREAKS, *finished(gateway, age_s=3_600))
    with pytest.raises(InternalError, match="it broke"):
        await run(gateway, run_id="nightly", wait_s=20)


async def test_an_address_that_a_stranger_chose_starts_nothing(gateway: MemoryGateway) -> None:
    gateway.cluster.brokers.clear()
    gateway.serve_hostile_names()
    with pytest.raises(UnavailableError, match="no broker is active"):
        await run(gateway, dry_run=True)
    broker = gateway.cluster.brokers[0]
    gateway.cluster.brokers[0] = type(broker)(broker_id="1", broker_url=HOSTILE, role="", status="active")
    with pytest.raises(UnavailableError, match="no address that clients could use"):
        await run(gateway, dry_run=True)


@pytest.mark.parametrize("run_id", ["--master=spark://elsewhere", "a b", "../x"])
async def test_a_run_id_is_a_name_and_nothing_else(gateway: MemoryGateway, run_id: str) -> None:
    with pytest.raises(InvalidRequestError, match="run id"):
        await run(gateway, run_id=run_id, dry_run=True)


async def test_against_the_original_broker_nothing_is_started(gateway: MemoryGateway) -> None:
    gateway.is_original = True
    with pytest.raises(UnsupportedError, match="publishes no telemetry"):
        await run(gateway)


async def test_without_any_run_the_answer_names_the_call_to_make(gateway: MemoryGateway) -> None:
    answer = await result(gateway)
    assert (answer.run_id, answer.state, answer.groups, answer.runs) == (None, None, [], [])
    assert answer.next_step == "call run_analytics to make one"


async def test_the_newest_finished_run_is_shown_and_the_others_listed(gateway: MemoryGateway) -> None:
    publish(gateway, finished(gateway, age_s=60, run_id="older"))
    publish(gateway, finished(gateway, age_s=30, run_id="newer"))
    publish(gateway, [told(gateway, age_s=10, run_id="now")[1]])
    publish(gateway, [told(gateway, age_s=60 + ANALYTICS_RUN_GRACE_S + 1, run_id="killed")[1]])
    answer = await result(gateway)
    assert (answer.run_id, answer.state) == ("newer", "finished")
    states = {run.run_id: run.state for run in answer.runs}
    assert states == {"now": "running", "newer": "finished", "older": "finished", "killed": "lost"}


async def test_a_half_told_result_is_not_shown(gateway: MemoryGateway) -> None:
    publish(gateway, finished(gateway, age_s=5)[:-1])
    answer = await result(gateway, run_id="nightly")
    assert (answer.state, answer.groups) == ("running", [])
    assert (await result(gateway)).next_step == "a run is under way: call this again in half a minute"


async def test_a_run_that_is_not_there_is_not_found(gateway: MemoryGateway) -> None:
    publish(gateway, finished(gateway, age_s=5))
    with pytest.raises(NotFoundError, match="there is no run 'other': there are nightly"):
        await result(gateway, run_id="other")
