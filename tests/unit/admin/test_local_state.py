"""Plans and audit log in the user's state folder."""

import asyncio
import fcntl
import json
import os
import stat
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from danube.admin import local_state
from danube.admin.local_state import AUDIT_FILE, LOCK_FILE, PLANS_FILE, LocalState, state_folder
from danube.model.errors import (
    DamagedDataError,
    LimitReachedError,
    PlanNotFoundError,
    PlanRefusedError,
    PlanWaitsError,
    StorageError,
)
from danube.model.limits.broker import LOCAL_LOCK_WAIT_S, PLAN_KEEP_S, PLAN_TTL_S, PLANS_MAX
from danube.model.plans.plan import (
    Caller,
    Decision,
    Effect,
    Face,
    Impact,
    Plan,
    PlanApplication,
    PlanRequest,
    fingerprint_of,
)
from danube.model.records.audit import AuditEntry, Outcome, verify
from danube.runtime.blocking import BlockingThread
from danube.runtime.clock import Clock, SystemClock
from danube.runtime.rng import SystemRng
from danube.testing.patience import PATIENCE_S
from danube.testing.simulated.clock import SimClock

ENDPOINT = "http://127.0.0.1:50051"
PERSON = Caller(who="ada@desk", face=Face.CLI)
REQUEST = PlanRequest(
    operation="delete_topic",
    arguments={"topic": "/default/orders", "nested": {"a": [1, None]}},
    effect=Effect.DESTROY,
    caller=PERSON,
    needs_approval=False,
)
IMPACT = Impact(changes=("Delete topic /default/orders.",), fingerprint=fingerprint_of("as it is"))
ENTRY = AuditEntry(
    caller=PERSON, operation="list_topics", arguments={}, effect=Effect.READ, outcome=Outcome.DONE, detail="ümlaut\n"
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return state_folder(ENDPOINT, {"XDG_STATE_HOME": str(tmp_path)})


@pytest.fixture
def clock() -> SimClock:
    return SimClock()


@pytest.fixture
async def runner() -> AsyncIterator[BlockingThread]:
    runner = BlockingThread("test-files")
    yield runner
    await runner.aclose()


@pytest.fixture
def state(folder: Path, clock: SimClock, runner: BlockingThread) -> LocalState:
    return new_state(folder, clock, runner)


def new_state(folder: Path, clock: Clock, runner: BlockingThread) -> LocalState:
    return LocalState(lambda: folder, ENDPOINT, clock=clock, rng=SystemRng(1), runner=runner)


def application_of(plan: Plan) -> PlanApplication:
    return PlanApplication(plan_id=plan.plan_id, operation=plan.operation, arguments=plan.arguments, caller=PERSON)


def modes(folder: Path) -> dict[str, int]:
    """What is in a folder, with its permissions."""
    found = folder.iterdir() if folder.exists() else ()
    return {path.name: stat.S_IMODE(path.stat().st_mode) for path in found}


def test_each_endpoint_has_a_folder_of_its_own() -> None:
    home = {"HOME": "/people/ada"}
    first, second = state_folder(ENDPOINT, home), state_folder("http://other:50051", home)
    assert first != second
    assert first.parent == Path("/people/ada/.local/state/danube-admin")


# Plans


async def test_a_plan_is_there_for_another_command(
    state: LocalState, folder: Path, clock: SimClock, runner: BlockingThread
) -> None:
    plan = await state.create(REQUEST, IMPACT)
    other = new_state(folder, clock, runner)
    assert await other.plan(plan.plan_id) == plan
    assert await other.plans() == [plan]


async def test_a_folder_that_is_not_there_has_no_plans_and_is_not_made_by_looking(
    state: LocalState, folder: Path
) -> None:
    assert await state.plans() == []
    assert (await state.audit(0, 10)).records == ()
    assert modes(folder.parent) == {}
    with pytest.raises(PlanNotFoundError):
        await state.plan("plan-0")


async def test_everything_is_for_its_owner_alone(state: LocalState, folder: Path) -> None:
    await state.create(REQUEST, IMPACT)
    await state.record(ENTRY)
    os.chmod(folder, 0o755)  # noqa: PTH101 - nothing waits for this disk
    await state.record(ENTRY)
    assert modes(folder.parent) == {folder.name: 0o700}
    assert set(modes(folder).values()) == {0o600}
    assert (folder / "endpoint").read_text() == f"{ENDPOINT}\n"


async def test_of_two_that_apply_a_plan_one_may(folder: Path, runner: BlockingThread) -> None:
    state, other = (new_state(folder, SystemClock(), runner) for _ in range(2))
    plan = await state.create(REQUEST, IMPACT)
    applied = application_of(plan)
    results = await asyncio.gather(
        *(each.mark_applied(applied, IMPACT) for each in (state, other, state)), return_exceptions=True
    )
    assert sum(isinstance(result, Plan) for result in results) == 1
    assert sum(isinstance(result, PlanRefusedError) for result in results) == 2


async def test_the_rules_of_plans_hold_here_too(state: LocalState, clock: SimClock) -> None:
    changed = replace(IMPACT, fingerprint=fingerprint_of("as it was"))
    ready = await state.create(REQUEST, IMPACT)
    with pytest.raises(PlanRefusedError, match="changed since"):
        await state.mark_applied(application_of(ready), changed)
    waiting = await state.create(replace(REQUEST, needs_approval=True), IMPACT)
    with pytest.raises(PlanWaitsError):
        await state.mark_applied(application_of(waiting), IMPACT)
    await state.decide(Decision(plan_id=waiting.plan_id, approve=True, caller=PERSON))
    clock.advance(PLAN_TTL_S)
    with pytest.raises(PlanRefusedError, match="too old"):
        await state.mark_applied(application_of(ready), IMPACT)
    assert (await state.mark_applied(application_of(waiting), IMPACT)).applied_by == PERSON


async def test_plans_that_are_over_are_forgotten_after_a_while(state: LocalState, clock: SimClock) -> None:
    old = await state.create(REQUEST, IMPACT)
    clock.advance(PLAN_TTL_S + PLAN_KEEP_S)
    new = await state.create(REQUEST, IMPACT)
    assert await state.plans() == [new]
    with pytest.raises(PlanNotFoundError):
        await state.plan(old.plan_id)


async def test_there_are_only_so_many_plans(state: LocalState, folder: Path) -> None:
    plan = await state.create(REQUEST, IMPACT)
    (written,) = json.loads((folder / PLANS_FILE).read_bytes())
    many = [
        {**written, "plan_id": f"plan-{number}", "asked_by": {**written["asked_by"], "who": f"person-{number}"}}
        for number in range(PLANS_MAX)
    ]
    (folder / PLANS_FILE).write_text(json.dumps(many))
    with pytest.raises(LimitReachedError, match="apply or reject some"):
        await state.create(REQUEST, IMPACT)
    assert plan.plan_id not in {each.plan_id for each in await state.plans()}


async def test_a_plan_that_was_only_shown_is_not_kept_and_not_applied(state: LocalState) -> None:
    shown = await state.create(replace(REQUEST, dry_run=True), IMPACT)
    assert (shown.plan_id, await state.plans()) == ("", [])
    with pytest.raises(PlanNotFoundError):
        await state.mark_applied(application_of(shown), IMPACT)


async def test_a_plan_is_not_for_another_caller_or_face(state: LocalState) -> None:
    plan = await state.create(REQUEST, IMPACT)
    for other in (replace(PERSON, face=Face.MCP), replace(PERSON, who="bob@desk")):
        with pytest.raises(PlanRefusedError, match=r"made by ada@desk \(cli\)"):
            await state.mark_applied(replace(application_of(plan), caller=other), IMPACT)
    assert (await state.mark_applied(application_of(plan), IMPACT)).applied_by == PERSON


@pytest.mark.parametrize(
    "content", ["", "{}", "[1]", '[{"plan_id": "x"}]', "\x00", "[" * 100_000, '[{"arguments": {"a": NaN}}]']
)
async def test_damaged_plans_are_said_to_be_so(state: LocalState, folder: Path, content: str) -> None:
    await state.create(REQUEST, IMPACT)
    (folder / PLANS_FILE).write_text(content)
    with pytest.raises(DamagedDataError, match=r"plans\.json"):
        await state.plans()


# The log


async def test_the_log_hangs_together_over_several_commands(
    folder: Path, runner: BlockingThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local_state, "LOCAL_LOCK_WAIT_S", PATIENCE_S)
    state, other = (new_state(folder, SystemClock(), runner) for _ in range(2))
    await asyncio.gather(*(each.record(ENTRY) for each in (state, other) * 10))
    page = await state.audit(0, 100)
    assert [record.sequence for record in page.records] == list(range(20))
    assert {record.keeper for record in page.records} == {"local"}
    assert verify(page.records).is_intact


async def test_pages_of_the_log_are_what_was_asked_for(state: LocalState) -> None:
    for _ in range(5):
        await state.record(ENTRY)
    page = await state.audit(3, 10)
    assert ([record.sequence for record in page.records], page.start, page.end) == ([3, 4], 0, 5)
    assert (await state.audit(1, 2)).records[-1].sequence == 2
    assert (await state.audit(9, 2)).records == ()


async def test_a_record_that_a_crash_tore_is_cut_off_and_the_chain_goes_on(state: LocalState, folder: Path) -> None:
    await state.record(ENTRY)
    with (folder / AUDIT_FILE).open("ab") as file:
        file.write(b'{"agent":"half a rec')
    assert (await state.audit(0, 10)).end == 1
    assert (await state.record(ENTRY)).sequence == 1
    assert verify((await state.audit(0, 10)).records).is_intact


async def test_a_record_that_was_changed_is_found(state: LocalState, folder: Path) -> None:
    for _ in range(3):
        await state.record(ENTRY)
    path = folder / AUDIT_FILE
    path.write_bytes(path.read_bytes().replace(b'"operation":"list_topics"', b'"operation":"list_nothing"', 1))
    verdict = verify((await state.audit(0, 10)).records)
    assert (verdict.is_intact, verdict.broken_at) == (False, 0)


async def test_what_is_no_record_is_named_and_nothing_is_appended_to_it(state: LocalState, folder: Path) -> None:
    await state.record(ENTRY)
    (folder / AUDIT_FILE).write_bytes(b"anything\n")
    with pytest.raises(DamagedDataError, match="record 0"):
        await state.audit(0, 10)
    with pytest.raises(DamagedDataError, match="record 0"):
        await state.record(ENTRY)


async def test_the_chain_goes_on_from_the_last_record_though_lines_have_moved(state: LocalState, folder: Path) -> None:
    for _ in range(3):
        await state.record(ENTRY)
    path = folder / AUDIT_FILE
    first, *rest = path.read_bytes().splitlines(keepends=True)
    longer = first.replace(b'"arguments":{}', b'"arguments":{"a":"' + b"b" * 2_000 + b'"}')
    path.write_bytes(b"".join([longer, *rest, longer]))
    assert (await state.record(ENTRY)).sequence == 4
    records = (await state.audit(0, 10)).records
    assert records[4].previous == records[3].hash
    assert verify(records).broken_at == 0


async def test_a_log_that_became_shorter_is_read_anew(state: LocalState, folder: Path) -> None:
    for _ in range(3):
        await state.record(ENTRY)
    path = folder / AUDIT_FILE
    path.write_bytes(path.read_bytes().splitlines(keepends=True)[0])
    assert (await state.audit(0, 10)).end == 1
    assert (await state.record(ENTRY)).sequence == 1


# The lock


@contextmanager
def held_by_another(folder: Path) -> Iterator[None]:
    folder.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(folder / LOCK_FILE, os.O_RDWR | os.O_CREAT, 0o600)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    try:
        yield
    finally:
        os.close(descriptor)


async def test_nobody_writes_while_another_command_does(state: LocalState, folder: Path, clock: SimClock) -> None:
    with held_by_another(folder):
        writing = asyncio.ensure_future(state.record(ENTRY))
        async with asyncio.timeout(PATIENCE_S):
            while clock.next_timer_s() is None:  # noqa: ASYNC110 - a simulated clock tells nobody of a timer
                await asyncio.sleep(0)
        assert not writing.done()
    await clock.run_for(1)
    async with asyncio.timeout(PATIENCE_S):
        assert (await writing).sequence == 0


async def test_waiting_for_another_command_ends(state: LocalState, folder: Path, clock: SimClock) -> None:
    with held_by_another(folder):
        writing = asyncio.ensure_future(state.record(ENTRY))
        async with asyncio.timeout(PATIENCE_S):
            while not writing.done():
                clock.advance(LOCAL_LOCK_WAIT_S)
                await asyncio.sleep(0)
        with pytest.raises(StorageError, match="another command is writing"):
            await writing


async def test_a_folder_that_cannot_be_made_is_said_with_what_to_do(
    tmp_path: Path, clock: SimClock, runner: BlockingThread
) -> None:
    (tmp_path / "file").write_text("in the way")
    state = new_state(tmp_path / "file" / "state", clock, runner)
    with pytest.raises(StorageError, match="XDG_STATE_HOME"):
        await state.record(ENTRY)
