"""The audit log of a broker whose storage was damaged and repaired: it goes on, and says where its chain is broken."""

import asyncio
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from danube.broker.__main__ import app
from danube.model.exit_codes import ExitCode
from danube.model.plans.plan import Caller, Effect, Face
from danube.model.records.audit import AuditEntry, AuditPage, AuditRecord, ChainCheck, Outcome
from danube.model.topic import DispatchStrategy, TopicName
from danube.testing.in_process_broker import Cell, running_broker

ENTRY = AuditEntry(
    caller=Caller(who="ada@desk", face=Face.CLI),
    operation="list_topics",
    arguments={},
    effect=Effect.READ,
    outcome=Outcome.DONE,
)
SKIPPED = 200
"""Offsets that the repairs here pass over where an end is missing."""
Harm = Callable[[Path], None]


@pytest.fixture(autouse=True)
def _few_are_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("danube.offline.storage.scan.journal_contents.PLACEHOLDER_OFFSETS_SKIPPED_MAX", SKIPPED)
    monkeypatch.setattr("danube.offline.storage.repair.repair_plan.PLACEHOLDER_OFFSETS_SKIPPED_MAX", SKIPPED)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return tmp_path / "data"


def live(data: Path, *numbers: int) -> AuditPage:
    """Run a broker, record so many calls, and answer the whole log."""

    async def lived() -> AuditPage:
        async with running_broker(data, telemetry_interval_s=0) as cell:
            for number in numbers:
                await cell.admin.record(replace(ENTRY, detail=str(number)))
            return await whole_log(cell)

    return asyncio.run(lived())


async def whole_log(cell: Cell) -> AuditPage:
    records: list[AuditRecord] = []
    page = await cell.admin.audit()
    while page.records:
        records += page.records
        page = await cell.admin.audit(page.records[-1].sequence + 1)
    return replace(page, records=tuple(records))


def details(page: AuditPage) -> list[str]:
    return [record.entry.detail for record in page.records]


def check(page: AuditPage) -> ChainCheck:
    found = ChainCheck(start=0)
    found.add(page.records)
    found.end(page.end)
    return found


def repair(data: Path) -> None:
    words = ["storage", "repair", "--accept-loss", "--data-dir", str(data)]
    assert CliRunner().invoke(app, words, prog_name="danube-broker").exit_code == ExitCode.OK


def journal(data: Path) -> Path:
    return max((data / "journal").glob("*.journal"))


def lose_the_journal(data: Path) -> None:
    shutil.rmtree(data / "journal")


def lose_the_end(data: Path) -> None:
    content = journal(data).read_bytes()
    journal(data).write_bytes(content[: content.rindex(b'"detail":"2"')])


def damage_one_in_the_middle(data: Path) -> None:
    content = journal(data).read_bytes()
    journal(data).write_bytes(content.replace(b'"detail":"1"', b'"detail":"9"'))


@pytest.mark.parametrize(
    ("harm", "kept"),
    [(lose_the_journal, []), (lose_the_end, ["0", "1"]), (damage_one_in_the_middle, ["0", "2", "3"])],
)
def test_the_log_goes_on_behind_a_break_that_is_told(data: Path, harm: Harm, kept: list[str]) -> None:
    assert check(live(data, 0, 1, 2, 3)).verdict.is_intact
    harm(data)
    repair(data)
    after = live(data)
    assert details(after) == kept
    assert not check(after).verdict.is_intact
    page = live(data, 10, 11)
    assert details(page) == [*kept, "10", "11"]
    first = page.records[len(kept)]
    verdict = check(page).verdict
    assert (verdict.is_intact, verdict.broken_at) == (False, 2 if harm is damage_one_in_the_middle else first.sequence)
    assert check(live(data, 12)).verdict == verdict
    assert first.sequence >= (4 if harm is damage_one_in_the_middle else SKIPPED)


def test_records_behind_the_break_are_one_chain_and_follow_the_last_one_before_it(data: Path) -> None:
    before = live(data, 0, 1, 2, 3).records
    lose_the_end(data)
    repair(data)
    live(data, 10)
    behind = live(data, 11, 12).records[2:]
    found = ChainCheck(start=behind[0].sequence, previous=before[1].hash)
    found.add(behind)
    assert (found.verdict.is_intact, found.verdict.checked) == (True, 3)


def test_administrators_can_change_things_after_a_repair(data: Path) -> None:
    async def changed() -> TopicName:
        topic = TopicName.parse("/default/later")
        async with running_broker(data, telemetry_interval_s=0) as cell:
            await cell.admin.record(replace(ENTRY, outcome=Outcome.STARTED))
            await cell.admin.create_topic(topic, DispatchStrategy.RELIABLE)
            return (await cell.admin.describe(topic))[0].topic

    live(data, 0, 1, 2, 3)
    lose_the_journal(data)
    repair(data)
    assert str(asyncio.run(changed())) == "/default/later"


def test_the_break_is_told_in_the_log_of_the_broker(data: Path, caplog: pytest.LogCaptureFixture) -> None:
    live(data, 0, 1, 2, 3)
    lose_the_end(data)
    repair(data)
    live(data)
    assert any("the records from 2 on were lost" in record.message for record in caplog.records)
