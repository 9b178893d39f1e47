"""Whatever is sent to the client port: an answer that clients understand, no traceback, and a broker that goes on."""

import asyncio
import os
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from google.protobuf.descriptor import MethodDescriptor
from hypothesis import HealthCheck, Phase, find, given, settings
from hypothesis import strategies as st
from hypothesis.errors import NoSuchExample

from danube.broker.services import consume
from danube.model.calls.stream import PublishAcknowledged
from danube.model.message import producer_id
from danube.testing.peers.client import Peer
from danube.testing.peers.stream import PUBLISH
from danube.wire import decode
from tests.fuzz.calls import Call, call_of, calls, served
from tests.fuzz.judge import ROUNDS, Judge, judged_broker
from tests.fuzz.vocabulary import MEMBERS, TOPICS

CALLS_AT_ONCE = 10
TRIES_MAX = 1_000
"""Of one method, one after the other, until one is good."""
GOOD_ANSWERS = {PUBLISH: lambda answer: isinstance(decode.publish_response(answer), PublishAcknowledged)}
"""Of methods whose first answer says too little."""


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
def test_no_input_makes_the_broker_fail_or_disturbs_its_neighbours(
    fuzzed: tuple[asyncio.Runner, Judge], capsys: pytest.CaptureFixture[str]
) -> None:
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
    if "FUZZ_ROUNDS" in os.environ:
        with capsys.disabled():
            sys.stdout.write(figures(judge.answered))


def figures(answered: dict[str, int]) -> str:
    """How often each way of ending came, and each of them for each method."""
    total = Counter[str]()
    for key, count in answered.items():
        total[key.split(" ", 1)[1]] += count
    lines = [f"{count:9,}  {ended}" for ended, count in (*total.most_common(), *sorted(answered.items()))]
    return "\n".join(("", *lines, ""))


@pytest.mark.slow
@pytest.mark.parametrize("method", [pytest.param(method, id=method.full_name) for method in served()])
def test_what_requests_are_made_of_is_good_enough_for_each_method(
    fuzzed: tuple[asyncio.Runner, Judge], method: MethodDescriptor
) -> None:
    """Or else the inputs would all end at the first check. The search is the same in every run."""
    runner, judge = fuzzed
    peer, good = Peer(judge.channel), set[Call]()
    for topic in TOPICS:
        runner.run(peer.send(topic, producer_id(topic, MEMBERS[0]), b"to be received", producer=MEMBERS[0]))

    def is_taken(call: Call) -> bool:
        if call not in good and runner.run(judge.takes(call, GOOD_ANSWERS.get(call.path, lambda _: True))):
            good.add(call)
        return call in good

    search = settings(max_examples=TRIES_MAX, derandomize=True, database=None, deadline=None, phases=[Phase.generate])
    try:
        find(call_of(method), is_taken, settings=search)
    except NoSuchExample:
        pytest.fail(
            f"none of {TRIES_MAX:,} inputs was good enough for {method.full_name}: see tests/fuzz/vocabulary.py"
        )
