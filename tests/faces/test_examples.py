"""Every example of every operation, on every face that shows it, on a fresh seeded broker each: the same answer.

Those that only read share a broker and a face that stays open, and leave the broker as it was.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from danube.admin.operations import REGISTRY
from danube.admin.operations.cluster.members import TOOLSET as MEMBERS
from danube.admin.operations.operation import AnyOperation, Example
from danube.model.plans.plan import Effect, PlanStatus
from tests.faces.answers import comparable
from tests.faces.faces import FACES, CallFace
from tests.faces.memory_security import SEEDED_KEY
from tests.faces.places import Place, seeded_place

pytestmark = [pytest.mark.cluster, pytest.mark.slow, pytest.mark.timeout(900)]

ASSISTANTS = {"mcp_stdio", "mcp_http"}
CASES = [(operation, example) for operation in REGISTRY for example in operation.examples]
CHANGING = {"audit", "analyze_consumer_lag", "get_recommendations", "list_connections"}
"""Their answers depend on earlier calls, and on how long ago the broker was started."""
LOADED = {"trigger_rebalance"}
"""Their plans depend on the load of this machine, which no two clusters see alike."""
READING = [
    (operation, example)
    for operation, example in CASES
    if operation.effect is Effect.READ and operation.toolset != MEMBERS and operation.name not in CHANGING
]
ALONE = [case for case in CASES if case not in READING]


def title_of(operation: AnyOperation, example: Example) -> str:
    return f"{operation.name}-{example.title}"


async def test_examples_that_only_read_answer_the_same_on_every_face(tmp_path: Path, subtests: pytest.Subtests) -> None:
    answers = dict[str, dict[str, list[Any]]]()
    for name, face in FACES.items():
        async with seeded_place(tmp_path / name) as place, face(place) as call:
            before = await place.digest()
            for operation, example in READING:
                if name in faces_of(operation, example):
                    found = known_ids(await answers_of(place, call, operation, example), place)
                    answers.setdefault(title_of(operation, example), {})[name] = found
            assert await place.digest() == before
    for title, by_face in answers.items():
        with subtests.test(title):
            assert_same(by_face)


@pytest.mark.parametrize("number", range(len(ALONE)), ids=[title_of(*case) for case in ALONE])
async def test_an_example_answers_the_same_on_another_face(number: int, tmp_path: Path) -> None:
    """The other faces take turns, so that each of them goes through a share of the examples."""
    operation, example = ALONE[number]
    others = sorted(faces_of(operation, example) - {"cli", "mcp_stdio"})
    assert_same(await answers_on({"cli", others[number % len(others)]}, operation, example, tmp_path))


@pytest.mark.nightly
@pytest.mark.parametrize(("operation", "example"), ALONE, ids=[title_of(*case) for case in ALONE])
async def test_an_example_answers_the_same_on_every_face(
    operation: AnyOperation, example: Example, tmp_path: Path
) -> None:
    assert_same(await answers_on(faces_of(operation, example), operation, example, tmp_path))


def faces_of(operation: AnyOperation, example: Example) -> set[str]:
    effect = operation.effect_of(operation.params.model_validate(example.arguments))
    destroys_at_once = effect is Effect.DESTROY and not operation.is_planned
    return {*FACES} if operation.is_tool and not destroys_at_once else {*FACES} - ASSISTANTS


async def answers_on(faces: set[str], operation: AnyOperation, example: Example, folder: Path) -> dict[str, list[Any]]:
    """What each of these faces says, on a broker of its own."""
    answers = {}
    for name in faces:
        is_cluster = operation.toolset == MEMBERS or operation.effect is Effect.MOVE
        async with seeded_place(folder / name, is_cluster=is_cluster) as place, FACES[name](place) as call:
            found = known_ids(await answers_of(place, call, operation, example), place)
            answers[name] = [without_impact(one) for one in found] if operation.name in LOADED else found
    return answers


def known_ids(answers: list[Any], place: Place) -> list[Any]:
    """The answers with the ids of examples in place of those that this broker gave."""
    return list(json.loads(json.dumps(answers).replace(place.key_id, SEEDED_KEY)))


def without_impact(answer: dict[str, Any]) -> dict[str, Any]:
    """What was asked for and how it went."""
    plan = {name: answer["plan"][name] for name in ("operation", "arguments", "effect", "status")}
    return {"status": answer["status"], "plan": plan}


def assert_same(answers: dict[str, list[Any]]) -> None:
    first = answers["cli"]
    assert first
    for name, found in answers.items():
        assert found == first, name


async def answers_of(place: Place, call: CallFace, operation: AnyOperation, example: Example) -> list[Any]:
    """What a face says; of a planned operation the plan, and then that it was applied."""
    arguments = place.arguments(example)
    answer = await call(operation, arguments, None)
    said = [comparable(operation, answer)]
    if operation.is_planned and answer["status"] != PlanStatus.SHOWN:  # of an idle cluster nothing is moved
        plan_id = answer["plan"]["plan_id"]
        if answer["status"] == PlanStatus.WAITING:
            await place.approve(plan_id)
            said = [as_if_nobody_had_to_wait(said[0])]
        said.append(comparable(operation, await call(operation, arguments, plan_id)))
        assert said[1]["status"] == PlanStatus.APPLIED
    return said


def as_if_nobody_had_to_wait(answer: dict[str, Any]) -> dict[str, Any]:
    """An assistant's plan waits where a person's is ready; all else has to be equal."""
    plan = {**answer["plan"], "status": PlanStatus.READY}
    return {**answer, "status": PlanStatus.READY, "plan": plan}


def test_the_examples_cover_the_registry() -> None:
    assert {operation.name for operation, _ in CASES} == {operation.name for operation in REGISTRY}
