"""What a soak remembers between its starts, and what it says at the end."""

from dataclasses import replace
from pathlib import Path

import pytest

from danube.model.errors import DataFolderError
from lab.kernel.rounds import Ledger
from lab.soak.judge import PROMISES, Known
from lab.soak.round import SoakResult
from lab.soak.rounds import progress, report

GOOD = SoakResult(
    round=0,
    seed=1,
    faults=("pause (0.4 s)", "kill"),
    seconds=9.5,
    sent=1_100,
    acknowledged=1_000,
    stored_twice=2,
    given_up=3,
    kept=900,
    let_go=102,
    delivered=2_050,
    again=46,
    confirmed=1_900,
    journal_files=(4, 7),
    segments=5,
    violations=dict.fromkeys(PROMISES, 0),
    what=(),
)
BAD = replace(
    GOOD, round=1, seed=2, violations={**GOOD.violations, "lost": 2}, what=("lost: /default/t: acknowledged ... 7, 8",)
)
KNOWN = Known({3: ("p", 1), 4: ("p", 2)}, {"shared": 5})
PLAIN = {"/default/t": KNOWN.as_json()}


def ledger_in(folder: Path) -> Ledger[SoakResult]:
    return Ledger(folder, SoakResult)


def test_a_ledger_is_found_again_with_what_its_topics_hold(tmp_path: Path) -> None:
    ledger = ledger_in(tmp_path)
    ledger.add(GOOD, PLAIN)
    ledger.add(BAD, {})
    again = ledger_in(tmp_path)
    assert again.count == 2
    assert [one.is_good for one in again.rounds()] == [True, False]
    assert Known.of(again.known["/default/t"]) == KNOWN
    assert Known.of(again.known.get("/default/other")) == Known()


def test_a_line_that_a_death_has_kept_out_of_the_ledger_is_added_at_the_next_start(tmp_path: Path) -> None:
    ledger = ledger_in(tmp_path)
    ledger.add(GOOD, PLAIN)
    before = ledger.path.read_bytes()
    ledger.add(BAD, {})
    whole = ledger.path.read_bytes()
    ledger.path.write_bytes(before)
    assert ledger_in(tmp_path).path.read_bytes() == whole


def test_a_line_that_a_death_has_torn_is_written_anew(tmp_path: Path) -> None:
    ledger = ledger_in(tmp_path)
    ledger.add(GOOD, PLAIN)
    whole = ledger.path.read_bytes()
    ledger.path.write_bytes(whole[:20])
    assert ledger_in(tmp_path).path.read_bytes() == whole


def test_the_ledger_of_another_version_is_refused(tmp_path: Path) -> None:
    (tmp_path / "ledger.jsonl").write_text('{"round": 0, "lost": 0}\n')
    with pytest.raises(DataFolderError, match="another version: remove the folder"):
        ledger_in(tmp_path)


def test_a_report_says_what_was_tried_and_what_was_broken_and_when(tmp_path: Path) -> None:
    ledger = ledger_in(tmp_path)
    ledger.add(GOOD, {})
    assert report(ledger) == "\n".join(
        [
            "rounds:   1, 10 s",
            "messages: 1,000 acknowledged of 1,100 sent",
            "          2,050 delivered, 46 of them again",
            "          3 calls given up, 2 sends stored twice",
            "faults:   1 pause; 1 kill",
            "storage:  7 journal files, 3 of them removed; 5 segments; 102 messages let go by retention, 900 kept",
            "broken:   0 lost, 0 changed, 0 gaps, 0 disorder, 0 again, 0 undelivered, 0 duplicates, 0 failed",
            f"Every promise was kept. Ledger: {tmp_path / 'ledger.jsonl'}",
        ]
    )
    ledger.add(BAD, {})
    assert report(ledger).splitlines()[-2:] == [
        "round 2 (seed 2): lost: /default/t: acknowledged ... 7, 8",
        f"A PROMISE WAS BROKEN. Ledger: {tmp_path / 'ledger.jsonl'}",
    ]


def test_a_round_is_one_line() -> None:
    assert progress(GOOD, 50) == (
        "round   1/50 ok   1,000 acknowledged   2,050 delivered (46 again)    900 kept, 102 let go;"
        " journal 4-7, 5 segments; 10 s: pause (0.4 s), kill"
    )
    assert "round   2/50 BAD" in progress(BAD, 50)
