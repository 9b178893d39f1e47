"""Rounds of faults on real processes: the ledger that they are kept in, and the command line that runs them.

A soak goes on where it stopped: the ledger has a line for each round, and a state with what the next one must know.
Exit codes: 0 every promise was kept in all rounds of the ledger; 1 one was not; 130 interrupted.
"""

import argparse
import asyncio
import json
import signal
import sys
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from danube.model.errors import DanubeError, DataFolderError
from lab.kernel.judge import Violation

FORMAT = 2
JsonMap = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundResult:
    """The part of a ledger's line that every soak has."""

    round: int
    seed: int
    faults: tuple[str, ...]
    seconds: float
    violations: Mapping[str, int]  # by promise
    what: tuple[str, ...]  # the first violations, as sentences

    @property
    def is_good(self) -> bool:
        return not any(self.violations.values())


R = TypeVar("R", bound=RoundResult)


class Ledger(Generic[R]):
    """A folder's rounds, and what is known after the last one. Raises DataFolderError for those of another version.

    The last line is kept with the state, too, and written again when a death came between or tore it.
    """

    def __init__(self, folder: Path, result: Callable[..., R]) -> None:
        self.path = folder / "ledger.jsonl"
        self._state_path = folder / "state.json"
        self._result = result
        folder.mkdir(parents=True, exist_ok=True)
        if self.path.exists() and not self._state_path.exists():
            raise DataFolderError(f"{folder} holds the ledger of another version: remove the folder, or name another")
        self._state = self._read()
        self._complete()

    @property
    def count(self) -> int:
        rounds: int = self._state["rounds"]
        return rounds

    @property
    def known(self) -> JsonMap:
        known: JsonMap = self._state["known"]
        return known

    def rounds(self) -> list[R]:
        lines = self.path.read_text(encoding="utf-8").splitlines() if self.path.exists() else []
        return [self._result(**json.loads(line)) for line in lines]

    def add(self, result: R, known: JsonMap) -> None:
        """Keep a round that was judged, and add to what is known."""
        line = asdict(result)
        known = {**self.known, **known}
        self._state = {"format": FORMAT, "rounds": self.count + 1, "last": line, "known": known}
        temporary = self._state_path.with_suffix(".new")
        temporary.write_text(json.dumps(self._state), encoding="utf-8")
        temporary.replace(self._state_path)
        self._append(line)

    def _complete(self) -> None:
        content = self.path.read_text(encoding="utf-8") if self.path.exists() else ""
        whole = [line for line in content.splitlines(keepends=True) if line.endswith("\n")]
        if len(whole) < self.count:
            self.path.write_text("".join(whole), encoding="utf-8")
            self._append(self._state["last"])

    def _append(self, line: JsonMap) -> None:
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")

    def _read(self) -> JsonMap:
        if not self._state_path.exists():
            return {"format": FORMAT, "rounds": 0, "last": None, "known": {}}
        state: JsonMap = json.loads(self._state_path.read_text(encoding="utf-8"))
        if state["format"] != FORMAT:
            raise DataFolderError(f"{self._state_path} is of format {state['format']}: remove its folder")
        return state


class Soak(ABC, Generic[R]):
    """The rounds over one folder."""

    def __init__(self, ledger: Ledger[R]) -> None:
        self.ledger = ledger
        self.stop = asyncio.Event()  # set when no more faults are wanted: the round ends early, and is judged

    @abstractmethod
    def opened(self) -> AbstractAsyncContextManager[object]:
        """The processes that all rounds work on. Raises DanubeError when they do not start."""

    @abstractmethod
    async def run(self, seed: int) -> R:
        """Run one round and add it to the ledger. Raises DanubeError when nothing starts."""

    @abstractmethod
    def progress(self, result: R, rounds: int) -> str:
        """One round in a line."""

    @abstractmethod
    def report(self) -> str:
        """All rounds of the ledger, for a person."""

    def is_good(self, result: R) -> bool:
        """False for a round that makes the exit code 1."""
        return result.is_good


def parser_of(about: str, *, folder: str) -> argparse.ArgumentParser:
    """The options that every soak has."""
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=50, help="rounds in the ledger when it ends [50]")
    parser.add_argument("--folder", type=Path, default=Path(folder), help=f"where data and ledgers are [{folder}]")
    parser.add_argument("--seed", type=int, default=1, help="of the first round [1]")
    return parser


def run_soak(make: Callable[[], Soak[R]], rounds: int, first_seed: int) -> int:
    """Run until there are `rounds` in the ledger, or SIGINT, which ends the round early; answers the exit code."""
    try:
        soak = make()
        asyncio.run(_run(soak, rounds, first_seed))
    except DanubeError as error:
        print(f"soak: {error}", file=sys.stderr)  # noqa: T201 - the command's talk
        return 1
    except KeyboardInterrupt:
        print("soak: interrupted; run again, it goes on with this round", file=sys.stderr)  # noqa: T201 - the same
        return 130
    print(soak.report())  # noqa: T201 - the command's output
    if not all(map(soak.is_good, soak.ledger.rounds())):
        return 1
    return 130 if soak.stop.is_set() else 0


async def _run(soak: Soak[R], rounds: int, first_seed: int) -> None:
    loop = asyncio.get_running_loop()

    def stop() -> None:
        """The second SIGINT is as usual."""
        soak.stop.set()
        loop.remove_signal_handler(signal.SIGINT)

    loop.add_signal_handler(signal.SIGINT, stop)
    try:
        async with soak.opened():
            while soak.ledger.count < rounds and not soak.stop.is_set():
                result = await soak.run(first_seed + soak.ledger.count)
                print(soak.progress(result, rounds), file=sys.stderr, flush=True)  # noqa: T201 - the command's talk
    finally:
        loop.remove_signal_handler(signal.SIGINT)


async def pause(seconds: float, stop: asyncio.Event) -> None:
    """Wait, or until the round is to end early."""
    try:
        async with asyncio.timeout(max(0.0, seconds)):
            await stop.wait()
    except TimeoutError:
        pass


def broken_by(violations: Iterable[Violation], promises: Sequence[str]) -> dict[str, int]:
    """Counts of violations by promise."""
    broken = dict.fromkeys(promises, 0)
    for violation in violations:
        broken[violation.promise] += violation.count
    return broken


def verdict_of(ledger: Ledger[R], promises: Sequence[str], *, width: int) -> list[str]:
    """The end of a report: every promise with its count, every violation, and the verdict."""
    rounds = ledger.rounds()
    broken = Counter(dict.fromkeys(promises, 0))
    for one in rounds:
        broken.update(one.violations)
    kept = "A PROMISE WAS BROKEN" if any(broken.values()) else "Every promise was kept"
    return [
        f"{'broken:':<{width}}" + ", ".join(f"{broken[promise]} {promise}" for promise in promises),
        *(f"round {one.round + 1} (seed {one.seed}): {what}" for one in rounds for what in one.what),
        f"{kept}. Ledger: {ledger.path}",
    ]


def total(rounds: Sequence[RoundResult], name: str) -> str:
    """The sum of one count over all rounds, as it is printed."""
    return f"{sum(getattr(one, name) for one in rounds):,}"
