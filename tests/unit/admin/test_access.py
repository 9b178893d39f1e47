"""Access levels and approval."""

import pytest

from danube.admin.access import LEVEL_OF, AccessLevel, ApprovalMode, Guard
from danube.model.errors import AccessLevelError
from danube.model.plans.plan import Effect, Face


@pytest.mark.parametrize(
    ("level", "allowed"),
    [
        (AccessLevel.READ, {Effect.READ}),
        (AccessLevel.WRITE, {Effect.READ, Effect.WRITE, Effect.MOVE}),
        (AccessLevel.DESTROY, set(Effect)),
    ],
)
def test_each_level_allows_its_effects_and_those_of_the_levels_below(level: AccessLevel, allowed: set[Effect]) -> None:
    assert {effect for effect in Effect if level.allows(LEVEL_OF[effect])} == allowed


def test_a_call_above_the_level_is_refused_with_the_level_it_needs() -> None:
    with pytest.raises(AccessLevelError, match=r"delete_topic needs access level `destroy`.*--access destroy"):
        Guard(level=AccessLevel.WRITE).check("delete_topic", AccessLevel.DESTROY)


@pytest.mark.parametrize(
    ("mode", "waiting"),
    [
        (ApprovalMode.DESTROY, {Effect.DESTROY}),
        (ApprovalMode.MOVE, {Effect.DESTROY, Effect.MOVE}),
        (ApprovalMode.NONE, set[Effect]()),
    ],
)
def test_plans_of_assistants_wait_for_a_person_by_their_effect(mode: ApprovalMode, waiting: set[Effect]) -> None:
    guard = Guard(approval=mode)
    assert {effect for effect in Effect if guard.needs_approval(effect, Face.MCP)} == waiting


@pytest.mark.parametrize("face", [face for face in Face if face is not Face.MCP])
def test_plans_of_people_wait_for_nobody(face: Face) -> None:
    assert not any(Guard(approval=ApprovalMode.MOVE).needs_approval(effect, face) for effect in Effect)


def test_what_nobody_chose_is_everything_and_approval_of_what_destroys() -> None:
    assert Guard() == Guard(level=AccessLevel.DESTROY, approval=ApprovalMode.DESTROY)
