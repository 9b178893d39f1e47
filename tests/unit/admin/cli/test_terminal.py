"""Questions, as a person at a terminal meets them."""

import json
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pytest

from danube.testing.patience import PATIENCE_S
from tests.unit.admin.cli.terminal import Terminal

pytestmark = [pytest.mark.cluster]

ROOT = Path(__file__).parents[4]
PROGRAM = "tests.unit.admin.cli.memory_program"
DELETE = ("topics", "delete", "/default/orders")
TYPE_NAME = "Type /default/orders to go on:"

Start = Callable[..., AbstractContextManager[Terminal]]


@pytest.fixture
def start(tmp_path: Path) -> Start:
    @contextmanager
    def run(*words: str, **environment: str) -> Iterator[Terminal]:
        with Terminal(
            [PROGRAM, str(tmp_path / "left"), *words], {"XDG_CONFIG_HOME": str(tmp_path), **environment}
        ) as terminal:
            yield terminal

    return run


def left(folder: Path) -> Any:
    """What the command left behind."""
    return json.loads((folder / "left").read_text())


def test_a_plan_is_shown_and_applied_once_its_topic_was_typed(start: Start, tmp_path: Path) -> None:
    with start(*DELETE) as terminal:
        terminal.expect(TYPE_NAME)
        assert "Cannot be undone" in terminal.shown
        terminal.type("/default/orders\n")
        assert terminal.ended() == 0
    assert "Done." in terminal.shown
    assert "/default/orders" not in left(tmp_path)["topics"]


@pytest.mark.parametrize("answer", ["/default/events\n", "y\n", "\n", "\x04"])
def test_any_other_answer_applies_nothing(answer: str, start: Start, tmp_path: Path) -> None:
    with start(*DELETE) as terminal:
        terminal.expect(TYPE_NAME)
        terminal.type(answer)
        assert terminal.ended() == 3
    assert "nothing has changed" in terminal.shown
    assert "/default/orders" in left(tmp_path)["topics"]


def test_an_interrupted_question_applies_nothing(start: Start, tmp_path: Path) -> None:
    with start(*DELETE) as terminal:
        terminal.expect(TYPE_NAME)
        terminal.type("\x03")
        assert terminal.ended() == 130
    assert "Traceback" not in terminal.shown
    assert "/default/orders" in left(tmp_path)["topics"]


def test_a_ctrl_c_that_interrupts_no_read_ends_the_question_without_another_key(start: Start, tmp_path: Path) -> None:
    with start(*DELETE, SIGNALS_ELSEWHERE="1") as terminal:
        terminal.expect(TYPE_NAME)
        terminal.type("\x03")
        assert terminal.ended() == 130
    assert "/default/orders" in left(tmp_path)["topics"]


@pytest.mark.parametrize(("answer", "code"), [("y\n", 0), ("yes\n", 0), ("n\n", 3), ("\n", 3)])
def test_where_no_message_goes_a_yes_is_enough(answer: str, code: int, start: Start) -> None:
    with start("namespaces", "delete", "staging") as terminal:
        terminal.expect("Do it? [y/N]")
        terminal.type(answer)
        assert terminal.ended() == code


def test_with_yes_nobody_is_asked(start: Start, tmp_path: Path) -> None:
    with start(*DELETE, DANUBE_ADMIN_YES="1") as terminal:
        assert terminal.ended() == 0
    assert "Type" not in terminal.shown
    assert "/default/orders" not in left(tmp_path)["topics"]


def test_consent_takes_the_id_of_the_plan(start: Start, tmp_path: Path) -> None:
    with start("plans", "approve", "plan-seeded") as terminal:
        terminal.expect("Type plan-seeded to go on")
        assert "deletes the namespace staging" in terminal.shown
        assert "assistant@seed" in terminal.shown
        terminal.type("plan-seeded\n")
        assert terminal.ended() == 0
    assert left(tmp_path)["approval"] == "approved"


@pytest.mark.parametrize(("answer", "code"), [("yes\n", 3), ("\x03", 130), ("\x04", 3)])
def test_consent_needs_exactly_that(answer: str, code: int, start: Start, tmp_path: Path) -> None:
    with start("plans", "approve", "plan-seeded", "--yes") as terminal:
        terminal.expect("Type plan-seeded to go on")
        terminal.type(answer)
        assert terminal.ended() == code
    assert left(tmp_path)["approval"] == "waiting"


def test_a_watch_redraws_in_place_until_ctrl_c(start: Start) -> None:
    with start("topics", "list", "--watch=1") as terminal:
        terminal.expect("\x1b[H\x1b[2J")
        terminal.expect("/default/ticks")
        terminal.shown = ""
        terminal.expect("\x1b[H\x1b[2J")
        terminal.type("\x03")
        assert terminal.ended() == 130
    assert "Traceback" not in terminal.shown


def test_a_watch_in_a_pipe_is_one_result_after_the_other(tmp_path: Path) -> None:
    command = [sys.executable, "-m", PROGRAM, str(tmp_path / "left"), "namespaces", "list", "-o", "json", "--watch=1"]
    with subprocess.Popen(command, cwd=ROOT, env={"PYTHONPATH": str(ROOT)}, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        read = [process.stdout.readline() for _ in range(10)]
        process.stdout.close()
        assert process.wait(PATIENCE_S) == 0
    assert [json.loads(b"".join(read[at : at + 5])) for at in (0, 5)] == [["default", "staging", "system"]] * 2


def test_a_watch_outlives_a_broker_that_is_away_and_says_so_once(tmp_path: Path) -> None:
    nobody = ["danube.admin", "topics", "list", "--watch=1", "--endpoint", "http://127.0.0.1:1"]
    with Terminal(nobody, {"XDG_CONFIG_HOME": str(tmp_path)}) as terminal:
        terminal.expect("no broker answers at http://127.0.0.1:1")
        terminal.expect("a context\r\n")
        assert not terminal.shows_more(1.5)


def test_colours_are_for_terminals_that_want_them(start: Start) -> None:
    with start("topics", "list") as terminal:
        assert terminal.ended() == 0
    assert "\x1b[1m" in terminal.shown
    with start("topics", "list", NO_COLOR="1") as plain:
        assert plain.ended() == 0
    assert "\x1b[" not in plain.shown


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_the_terminal_ui_as_its_keys_do_and_restores_the_terminal(
    start: Start, number: signal.Signals
) -> None:
    with start("tui") as terminal:
        terminal.expect("/default/orders")
        assert "\x1b[?1049h" in terminal.shown
        terminal.signal(number)
        assert terminal.ended() == 0
    for mode in ("1049", "1000", "1003", "2004"):  # the other screen, reports of the mouse, pasting in brackets
        assert f"\x1b[?{mode}l" in terminal.shown.rpartition(f"\x1b[?{mode}h")[2]
    assert "\x1b[?25h" in terminal.shown.rpartition("\x1b[?25l")[2]  # the cursor
