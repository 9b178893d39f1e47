"""Hand-over explored whole, and proof that each step of it is needed: without it, or out of turn, a promise breaks."""

import subprocess
import sys
from collections.abc import Iterator

import pytest

from danube.storage.takeover.steps import PROTOCOL, Part, Step
from lab.takeover.effects import EFFECTS, Scene
from lab.takeover.model import explore
from lab.takeover.state import Budget

NONE = Budget(0, 0, 0, 0, 0, 0, 0)
WRITE_AND_TAKE = NONE._replace(writes=1, takes=1)
CONSUME_AND_TAKE = WRITE_AND_TAKE._replace(consumes=1)
DIE_AND_TAKE = WRITE_AND_TAKE._replace(kills=1)
CUT_AND_RETIRE = Budget(1, 0, 2, 0, 0, 0, 1, 1, 1)
MOVE = CONSUME_AND_TAKE._replace(moves=1)

BUDGETS = {
    Part.OWN: WRITE_AND_TAKE,
    Part.TAKEOVER: CONSUME_AND_TAKE,
    Part.RELEASE: MOVE._replace(writes=2),
    Part.OPEN: MOVE,
    Part.RESTART: DIE_AND_TAKE._replace(writes=2),
    Part.FLUSH: WRITE_AND_TAKE._replace(new_files=1, cuts=1),
    Part.REMOVE_JOURNAL: WRITE_AND_TAKE._replace(takes=2, cuts=1, retires=1),
}
"""Events that have to happen for a mistake in this part to show."""

WITHOUT = [
    *[(Part.OWN, step) for step in (Step.WRITE, Step.SYNC, Step.LOOK)],
    *[(Part.TAKEOVER, step) for step in PROTOCOL[Part.TAKEOVER] if step is not Step.SERVE],
    *[(Part.RELEASE, step) for step in PROTOCOL[Part.RELEASE] if step is not Step.SEAL],
    *[(Part.OPEN, step) for step in PROTOCOL[Part.OPEN] if step is not Step.SERVE],
    *[(Part.RESTART, step) for step in PROTOCOL[Part.RESTART] if step is not Step.SERVE],
    (Part.FLUSH, Step.GATHER),
    (Part.REMOVE_JOURNAL, Step.STRIKE_OFF),
    (Part.REMOVE_JOURNAL, Step.ASK),
]
NEVER_TOLD = [
    (Part.OWN, Step.ACKNOWLEDGE),
    (Part.TAKEOVER, Step.SERVE),
    (Part.OPEN, Step.SERVE),
    (Part.RESTART, Step.SERVE),
]
"""Left out, these lose nothing: nobody is told anything, or nobody serves."""
NO_HARM_LEFT_OUT = {
    (Part.RELEASE, Step.SEAL): "the topic is nobody's until it is taken by force; then nothing is lost",
    (
        Part.ROTATE,
        Step.SYNC,
    ): "each round before it was synced by itself; needed where rounds are not (interval, os)",
    (Part.ROTATE, Step.NEW_FILE): "the journal goes on in the old file",
    (Part.FLUSH, Step.POINT): "what former owners left stays in their journals, and these stay",
    (
        Part.REMOVE_JOURNAL,
        Step.LOOK,
    ): "the owner of a journal without a fence begins nothing more in it, so loses nothing",
    (Part.REMOVE_JOURNAL, Step.REMOVE): "the journal stays",
}
SWAPPED = [
    *[(Part.OWN, step) for step in PROTOCOL[Part.OWN][:-1]],
    *[(Part.TAKEOVER, step) for step in PROTOCOL[Part.TAKEOVER][:-1] if step is not Step.APPEND_AGAIN],
    (Part.RELEASE, Step.STOP),
    (Part.RELEASE, Step.FLUSH),
    *[(Part.OPEN, step) for step in PROTOCOL[Part.OPEN][:-1]],
    (Part.RESTART, Step.SYNC),
    (Part.RESTART, Step.LOOK),
    (Part.FLUSH, Step.GATHER),
    (Part.REMOVE_JOURNAL, Step.STRIKE_OFF),
    (Part.REMOVE_JOURNAL, Step.ASK),
]
NO_HARM_SWAPPED = {
    (Part.TAKEOVER, Step.APPEND_AGAIN): "both are only looked at once they are sealed, and synced by then",
    (
        Part.RELEASE,
        Step.SEAL,
    ): "who lets go before it seals answers nothing in between, the compare-and-set decides",
    (Part.RESTART, Step.TRUNCATE): "the next round's sync makes the cut durable; until then the torn end is cut again",
    (Part.ROTATE, Step.SYNC): "as when it is left out",
    (Part.REMOVE_JOURNAL, Step.LOOK): "as when it is left out",
}


def test_every_promise_holds_in_every_state_of_a_take_over_and_a_power_cut() -> None:
    found = explore(PROTOCOL, Budget(1, 1, 1, 1, 0, 0, 0))
    assert found.broken is None, found.story
    assert found.is_whole
    assert found.states > 5_000


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    "budget",
    [
        pytest.param(Budget(1, 0, 2, 1, 0, 0, 0), marks=pytest.mark.nightly),
        pytest.param(Budget(1, 0, 2, 0, 1, 0, 0), marks=pytest.mark.nightly),
        pytest.param(Budget(1, 0, 2, 0, 0, 1, 0), marks=pytest.mark.nightly),
        Budget(2, 0, 1, 1, 0, 0, 0),
        Budget(2, 1, 1, 0, 1, 0, 0),
        Budget(1, 1, 1, 0, 0, 1, 1),
        Budget(1, 0, 1, 0, 1, 1, 0),
        pytest.param(CUT_AND_RETIRE, marks=pytest.mark.nightly),
        Budget(1, 0, 1, 1, 0, 0, 1, 1, 1),
        pytest.param(Budget(1, 1, 1, 0, 1, 0, 1, 1, 1), marks=pytest.mark.nightly),
        pytest.param(Budget(1, 1, 1, 0, 0, 1, 1, 2, 1), marks=pytest.mark.nightly),
    ],
    ids=[
        "two takers and a power cut",
        "two takers and a kill",
        "two takers and a move",
        "two writes and a power cut",
        "a cursor, a kill and a restart",
        "a cursor, a move and a new file",
        "a move and a kill",
        "two takers, a cut and a journal that is removed",
        "a cut, a journal that is removed and a power cut",
        "a cut, a journal that is removed, a kill and a restart",
        "cuts, a journal that is removed and a move",
    ],
)
def test_every_promise_holds_in_every_state(budget: Budget) -> None:
    found = explore(PROTOCOL, budget)
    assert found.broken is None, found.story
    assert found.is_whole
    assert found.states > 5_000


def test_in_an_object_store_the_sync_itself_finds_the_fence(monkeypatch: pytest.MonkeyPatch) -> None:
    """An owner's sync takes the next number there, and fails once a fence has it: no other look is needed."""
    for part in (Part.OWN, Part.RESTART):
        monkeypatch.setitem(EFFECTS, (part, Step.SYNC), _take_next_number)
    protocol = PROTOCOL.without(Part.OWN, Step.LOOK).without(Part.RESTART, Step.LOOK)
    for budget in (Budget(1, 1, 1, 1, 0, 0, 0), DIE_AND_TAKE):
        found = explore(protocol, budget)
        assert found.broken is None, found.story
        assert found.is_whole


def _take_next_number(scene: Scene) -> Iterator[Scene]:
    if scene.is_fenced:
        scene.give_up()
    else:
        scene.sync()
    yield scene


def test_every_step_of_the_table_is_taken_in_the_model() -> None:
    found = explore(PROTOCOL, Budget(1, 0, 1, 0, 0, 1, 1), brokers=2)
    restarted = explore(PROTOCOL, Budget(1, 0, 0, 0, 1, 0, 0), brokers=1)
    tidied = explore(PROTOCOL, WRITE_AND_TAKE._replace(takes=2, cuts=2, retires=1), brokers=2, spread=True)
    assert found.done | restarted.done | tidied.done == set(EFFECTS)


@pytest.mark.slow
@pytest.mark.parametrize(("part", "step"), WITHOUT)
def test_without_this_step_a_promise_breaks(part: Part, step: Step) -> None:
    found = explore(PROTOCOL.without(part, step), BUDGETS[part], spread=part is Part.REMOVE_JOURNAL)
    assert found.broken is not None
    assert found.story


@pytest.mark.slow
@pytest.mark.parametrize(("part", "step"), SWAPPED)
def test_when_this_step_comes_after_the_next_one_a_promise_breaks(part: Part, step: Step) -> None:
    budget = BUDGETS[part]._replace(takes=2, consumes=0) if step is Step.BEGIN else BUDGETS[part]
    found = explore(PROTOCOL.swapped(part, PROTOCOL[part].index(step)), budget, spread=part is Part.REMOVE_JOURNAL)
    assert found.broken is not None
    assert found.story


@pytest.mark.slow
@pytest.mark.parametrize(("part", "step"), NEVER_TOLD)
def test_without_this_step_nothing_is_lost_and_nobody_served(part: Part, step: Step) -> None:
    found = explore(PROTOCOL.without(part, step), BUDGETS[part]._replace(writes=1), depth_max=12)
    assert found.broken is None
    assert (part, step) not in found.done


@pytest.mark.nightly
@pytest.mark.timeout(300)
@pytest.mark.parametrize(("part", "step"), NO_HARM_LEFT_OUT)
def test_this_step_may_be_left_out_for_the_reason_that_is_given(part: Part, step: Step) -> None:
    budget = CUT_AND_RETIRE if part in {Part.FLUSH, Part.REMOVE_JOURNAL} else Budget(1, 1, 1, 1, 0, 1, 1)
    found = explore(PROTOCOL.without(part, step), budget, brokers=2)
    assert found.broken is None, found.story


@pytest.mark.nightly
@pytest.mark.timeout(300)
@pytest.mark.parametrize(("part", "step"), NO_HARM_SWAPPED)
def test_this_step_may_be_swapped_with_the_next_for_the_reason_that_is_given(part: Part, step: Step) -> None:
    kill = int(part is Part.RESTART)
    budget = CUT_AND_RETIRE if part is Part.REMOVE_JOURNAL else Budget(1, 1, 1, 1, kill, 1 - kill, 1 - kill)
    found = explore(PROTOCOL.swapped(part, PROTOCOL[part].index(step)), budget, brokers=2)
    assert found.broken is None, found.story


def test_every_step_and_every_swap_is_judged() -> None:
    left_out = {*WITHOUT, *NEVER_TOLD, *NO_HARM_LEFT_OUT}
    assert left_out == {(part, step) for part in Part for step in PROTOCOL[part]}
    assert {*SWAPPED, *NO_HARM_SWAPPED} == {(part, step) for part in Part for step in PROTOCOL[part][:-1]}


def test_the_command_prints_how_many_states_there_are_and_the_shortest_way_to_a_loss() -> None:
    command = [sys.executable, "-m", "lab.takeover.model", "--writes=1", "--takes=1", "--power-cuts=0"]
    command += ["--kills=0", "--moves=0", "--new-files=0", "--leave-out", "takeover", "fence"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "broken: topic A" in done.stdout
    assert "takeover: read (A of journal 0)" in done.stdout
