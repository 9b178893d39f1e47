"""The trials of the metadata cluster, in short: that they run, that they find what is wrong, and what they say."""

import asyncio
import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest

from lab.trials.busy import BusyReport, Lead, Sample, busy
from lab.trials.crowded import CrowdedReport, crowded
from lab.trials.kill import KillAllReport, KilledGroup, Revival, kill_all
from lab.trials.raft import main

processes = [pytest.mark.cluster, pytest.mark.nightly, pytest.mark.timeout(240)]

BEFORE = Lead("7", 1)


def ignore(_text: str) -> None:
    """Progress that nobody watches."""


def killed(*served_s: float, lost: Sequence[str] = ()) -> KillAllReport:
    return KillAllReport([Revival(0.5, each, 1, 0, lost) for each in served_s])


def kept_busy(*leads: Lead | None, cpu_percent: float = 99.0) -> BusyReport:
    samples = [
        Sample(cpu_percent=cpu_percent, waited_percent=5.0, leads=[lead], messages=1_000 * number, at_s=float(number))
        for number, lead in enumerate(leads, 1)
    ]
    return BusyReport(before=BEFORE, ramp=(), samples=samples, clients=2)


class ForgetfulGroup(KilledGroup):
    """Its members lose their folders whenever they are started."""

    async def launch(self, node: int) -> None:
        await asyncio.to_thread(shutil.rmtree, self.folder / f"member-{node}", ignore_errors=True)
        await super().launch(node)


class TestKillAll:
    pytestmark = processes

    async def test_two_rounds_lose_nothing_that_was_acknowledged(self, tmp_path: Path) -> None:
        lines: list[str] = []
        report = await kill_all(KilledGroup(tmp_path), 2, tell=ignore, on_round=lines.append)
        assert (report.lost, len(report.revivals), len(lines)) == ([], 2, 2)
        assert all(one.acknowledged for one in report.revivals)
        assert all(min(one.open_s, one.served_s) > 0 for one in report.revivals)
        assert "lost:          0\n" in report.text()

    async def test_members_that_forget_are_found_out(self, tmp_path: Path) -> None:
        report = await kill_all(ForgetfulGroup(tmp_path), 1, tell=ignore, on_round=ignore)
        assert report.lost
        assert not report.is_good
        assert "ACKNOWLEDGED WRITES WERE LOST" in report.text()


class TestBusy:
    pytestmark = processes

    async def test_a_leader_that_is_kept_busy_for_some_seconds_goes_on_leading(self, tmp_path: Path) -> None:
        """Unless others take the processors away for as long as an election takes; not time and again, though."""
        for number in range(3):
            report = await busy(tmp_path / str(number), 5, clients_max=1, tell=ignore)
            assert report.cpu_percent > 0
            assert report.samples[-1].messages > 0
            if not report.elections:
                return
        pytest.fail(report.text())


def test_half_of_the_rounds_must_be_fast_enough_and_nothing_lost() -> None:
    assert killed(1.0, 2.0, 30.0).is_good
    assert not killed(1.0, 5.0, 5.0).is_good
    assert not killed(1.0, lost=["/a"]).is_good


def test_the_figures_of_the_rounds_are_told() -> None:
    told = killed(*(float(number) for number in range(1, 11))).text()
    assert "median 5.50 s, p90 9.00 s, worst 10.00 s" in told
    assert "TOO SLOW" in told
    assert "LOST:          /a" in killed(1.0, lost=["/a"]).text()


@pytest.mark.parametrize("other", [Lead("8", 2), Lead("7", 2), Lead(None, 1)], ids=str)
def test_another_leader_another_term_and_no_leader_are_elections(other: Lead) -> None:
    report = kept_busy(BEFORE, other, BEFORE)
    assert (report.elections, report.is_good) == ([other], False)
    assert "THERE WAS AN ELECTION" in report.text()


def test_a_leader_that_was_not_busy_proves_nothing() -> None:
    assert "NOT BUSY ENOUGH" in kept_busy(BEFORE, cpu_percent=89.0).text()
    assert not kept_busy(BEFORE, cpu_percent=89.0).is_good


def test_a_broker_that_does_not_answer_in_time_is_told_and_is_no_election() -> None:
    report = kept_busy(BEFORE, None, BEFORE)
    assert report.is_good
    assert "1 were not answered in time" in report.text()


def test_a_trial_takes_no_folder_that_holds_something(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "precious").touch()
    assert main(["kill-all", "--folder", str(tmp_path)]) == 1
    assert "is not empty" in capsys.readouterr().err


@pytest.mark.parametrize("words", [["--help"], ["kill-all", "--help"], ["busy", "--help"]], ids=" ".join)
def test_the_help_says_what_a_trial_does(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as shown:
        main(words)
    said = capsys.readouterr().out
    assert shown.value.code == 0
    assert all(word in said for word in words)


@pytest.mark.parametrize("words", [["kill-all", "--rounds", "0"], ["busy", "--minutes", "-1"], ["rest"]])
def test_words_that_make_no_sense_are_refused(words: list[str]) -> None:
    with pytest.raises(SystemExit) as refused:
        main(words)
    assert refused.value.code == 2


class TestCrowded:
    @pytest.mark.cluster
    @pytest.mark.nightly
    @pytest.mark.timeout(240)
    async def test_a_moment_beside_busy_processes_takes_nothing_over(self, tmp_path: Path) -> None:
        report = await crowded(tmp_path, 5.0, tell=ignore)
        assert report.is_good, report.text()

    @pytest.mark.parametrize(("wrong", "restarted", "acknowledged"), [(("a line",), 0, 9), ((), 1, 9), ((), 0, 0)])
    def test_a_takeover_or_silent_applications_are_no_good_trial(
        self, wrong: tuple[str, ...], restarted: int, acknowledged: int
    ) -> None:
        report = CrowdedReport(seconds=9, acknowledged=acknowledged, wrong=wrong, restarted=restarted, elections=0)
        assert not report.is_good
        assert "TAKEN FOR DEAD" in report.text()
