"""Trials of the metadata cluster by real processes, whose figures anybody can measure again.

    python -m lab.trials.raft kill-all --rounds 50

kills three members of a Raft group at once, again and again, while clients write: all that was acknowledged must be
there after each round, and a write must be served within 5 s in half of the rounds (`lab/trials/kill.py`).

    python -m lab.trials.raft busy --minutes 10

keeps the broker that leads Raft at 100 % of a processor with messages: there must be no election
(`lab/trials/busy.py`).

    python -m lab.trials.raft crowded --minutes 15

runs three brokers beside twenty busy processes: no broker that lives may be taken over (`lab/trials/crowded.py`).

Figures go to standard output, progress to standard error if that is a terminal. Exit codes: 0 kept; 1 not kept, or the
trial could not be made; 130 interrupted.
"""

import argparse
import asyncio
import shutil
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from danube.model.errors import DanubeError
from danube.runtime.console import is_terminal, say, write
from lab.trials.busy import BusyReport, busy
from lab.trials.crowded import CrowdedReport, crowded
from lab.trials.kill import KillAllReport, KilledGroup, kill_all

_PROGRAM = "raft_trials"
_CLEAR = "\r\x1b[2K"


class Progress:
    """One line on a terminal's standard error that says what is going on; nothing where it is none."""

    def __init__(self) -> None:
        self._is_shown = is_terminal(sys.stderr)

    def tell(self, doing: str) -> None:
        """Put this in the place of what was told before; "" takes it away."""
        if self._is_shown:
            sys.stderr.write(_CLEAR + doing)
            sys.stderr.flush()

    def print(self, line: str) -> None:
        self.tell("")
        write(f"{line}\n")


def main(given: Sequence[str] | None = None) -> int:
    """Make the trial that was asked for; answers the exit code."""
    options = _parser().parse_args(given)
    folder: Path | None = options.folder
    place = folder or Path(tempfile.mkdtemp(prefix="danube-trial-"))
    place.mkdir(parents=True, exist_ok=True)
    if any(place.iterdir()):
        say(f"{place} is not empty: give a folder of its own to each trial", _PROGRAM)
        return 1
    code = _run(options, place)
    if folder is None and code != 1:
        shutil.rmtree(place)
    else:
        say(f"data and logs of the brokers are in {place}", _PROGRAM)
    return code


def _run(options: argparse.Namespace, place: Path) -> int:
    progress = Progress()
    try:
        report = asyncio.run(_trial(options, place, progress))
    except DanubeError as error:
        progress.tell("")
        say(str(error), _PROGRAM)
        return 1
    except KeyboardInterrupt:
        progress.tell("")
        return 130
    progress.print(report.text())
    return 0 if report.is_good else 1


async def _trial(
    options: argparse.Namespace, place: Path, progress: Progress
) -> KillAllReport | BusyReport | CrowdedReport:
    if options.trial == "kill-all":
        return await kill_all(KilledGroup(place), options.rounds, tell=progress.tell, on_round=progress.print)
    if options.trial == "crowded":
        return await crowded(place, options.minutes * 60, tell=progress.tell)
    return await busy(place, options.minutes * 60, tell=progress.tell)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=_PROGRAM, description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    trials = parser.add_subparsers(dest="trial", required=True, metavar="TRIAL")
    killing = trials.add_parser("kill-all", help="kill -9 of all three members at once, again and again")
    killing.add_argument("--rounds", type=_at_least(1, int), default=50, help="how often [50]")
    loading = trials.add_parser("busy", help="the leader's broker has all that a processor gives: no election")
    loading.add_argument("--minutes", type=_at_least(0, float), default=10, help="for how long [10]")
    crowding = trials.add_parser("crowded", help="twenty busy processes beside three brokers: no takeover")
    crowding.add_argument("--minutes", type=_at_least(0, float), default=15, help="for how long [15]")
    for each in (killing, loading, crowding):
        each.add_argument(
            "--folder", type=Path, help="an empty one that is kept [a temporary one, kept if something is wrong]"
        )
    return parser


def _at_least(least: float, kind: Callable[[str], float]) -> Callable[[str], float]:
    def parsed(text: str) -> float:
        number = kind(text)
        if number < least:
            raise argparse.ArgumentTypeError(f"it must be {least} or more")
        return number

    return parsed


if __name__ == "__main__":
    sys.exit(main())
