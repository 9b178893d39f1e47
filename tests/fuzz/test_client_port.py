"""Whatever is sent to the client port: an answer that clients understand, no traceback, and a broker that goes on."""

import asyncio
from collections.abc import Iterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from danube.broker.services import consume
from tests.fuzz.calls import Call, calls, methods, path_of
from tests.fuzz.judge import ROUNDS, Judge, judged_broker
from tests.fuzz.vocabulary import SERVED

CALLS_AT_ONCE = 10


@pytest.fixture
def fuzzed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[asyncio.Runner, Judge]]:
    """A loop of its own: one broker serves all inputs, whatever the earlier ones have left behind in it."""
    monkeypatch.setattr(consume, "RECEIVE_FAILURE_DELAY_S", 0.0)
    with asyncio.Runner() as runner:
        parts = AsyncExitStack()
        yield runner, runner.run(parts.enter_async_context(judged_broker(tmp_path / "data")))
        runner.run(parts.aclose())


@pytest.mark.slow
@pytest.mark.timeout(0)
def test_no_input_makes_the_broker_fail_or_disturbs_its_neighbours(fuzzed: tuple[asyncio.Runner, Judge]) -> None:
    runner, judge = fuzzed

    @settings(
        max_examples=ROUNDS // CALLS_AT_ONCE,
        deadline=None,
        print_blob=True,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )
    @given(st.lists(calls(), min_size=CALLS_AT_ONCE, max_size=CALLS_AT_ONCE))
    def inputs(several: list[Call]) -> None:
        runner.run(judge.try_all(several))

    inputs()
    accepted = {key.removesuffix(" OK") for key in judge.answered if key.endswith(" OK")}
    due = {path_of(method) for method in methods() if method.containing_service.full_name in SERVED}
    assert accepted >= due, f"no input was good enough for {sorted(due - accepted)}"
