"""What a soak remembers: a line of the ledger for every round, and what its topics were found to hold.

Both go together: the last line is kept with the state, and appended to the ledger when a death came between.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from danube.model.errors import DataFolderError
from lab.soak.judge import PROMISES, Known

FORMAT = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundResult:
    """One line of the ledger: counts of a round, and every promise with how often it was broken."""

    round: int
    seed: int
    faults: tuple[str, ...]
    seconds: float
    sent: int
    acknowledged: int
    """By the broker, to producers."""
    stored_twice: int
    """Sends whose answer was lost, that were made again: allowed but with de-duplication."""
    given_up: int
    """Sends and acknowledgements that a client raised an error for."""
    kept: int
    """Messages that the topics hold now."""
    let_go: int
    """Messages that retention has let go of, since the first round."""
    delivered: int
    again: int
    """Delivered more than once: allowed within bounds, which `violations` counts."""
    confirmed: int
    journal_files: tuple[int, int]
    """The first one and the last."""
    segments: int
    violations: Mapping[str, int]
    """By promise."""
    what: tuple[str, ...]
    """The violations as sentences."""

    @property
    def is_good(self) -> bool:
        """Whether every promise was kept."""
        return not any(self.violations.values())


@dataclass(slots=True)
class _State:
    rounds: int = 0
    last: dict[str, object] | None = None
    topics: dict[str, Known] = field(default_factory=dict)


class Ledger:
    """The folder's ledger and state. Raises DataFolderError when they are not what this version writes."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "ledger.jsonl"
        self._state_path = folder / "state.json"
        folder.mkdir(parents=True, exist_ok=True)
        if self.path.exists() and not self._state_path.exists():
            raise DataFolderError(f"{folder} holds the ledger of another version: remove the folder, or name another")
        self._state = self._read()
        self._mend()

    @property
    def count(self) -> int:
        """Rounds that were judged."""
        return self._state.rounds

    def known(self, topic: str) -> Known:
        """What was found of a topic last; nothing before its first round."""
        return self._state.topics.get(topic, Known())

    def rounds(self) -> list[RoundResult]:
        """All of them."""
        if not self.path.exists():
            return []
        lines = self.path.read_text(encoding="utf-8").splitlines()
        return [_result(json.loads(line)) for line in lines]

    def add(self, result: RoundResult, topics: Mapping[str, Known]) -> None:
        """Keep a round that was judged, and what is known after it."""
        line = asdict(result)
        self._state = _State(self._state.rounds + 1, line, {**self._state.topics, **topics})
        self._write()
        self._append(line)

    def _mend(self) -> None:
        """Write the last line anew where a death came between, or tore it."""
        if self._state.last is None:
            return
        content = self.path.read_text(encoding="utf-8") if self.path.exists() else ""
        whole = [line for line in content.splitlines(keepends=True) if line.endswith("\n")]
        if len(whole) < self._state.rounds:
            self.path.write_text("".join(whole), encoding="utf-8")
            self._append(self._state.last)

    def _append(self, line: dict[str, object]) -> None:
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")

    def _read(self) -> _State:
        if not self._state_path.exists():
            return _State()
        content = json.loads(self._state_path.read_text(encoding="utf-8"))
        if content["format"] != FORMAT:
            raise DataFolderError(f"{self._state_path} is of format {content['format']}: remove its folder")
        topics = {
            name: Known({offset: (who, number) for offset, who, number in one["log"]}, one["drained_to"])
            for name, one in content["topics"].items()
        }
        return _State(content["rounds"], content["last"], topics)

    def _write(self) -> None:
        topics = {
            name: {
                "log": [(offset, *identity) for offset, identity in known.log.items()],
                "drained_to": known.drained_to,
            }
            for name, known in self._state.topics.items()
        }
        content = {"format": FORMAT, "rounds": self._state.rounds, "last": self._state.last, "topics": topics}
        temporary = self._state_path.with_suffix(".new")
        temporary.write_text(json.dumps(content), encoding="utf-8")
        temporary.replace(self._state_path)


def totals(rounds: list[RoundResult]) -> dict[str, int]:
    """How often each promise was broken in all of them."""
    return {promise: sum(one.violations.get(promise, 0) for one in rounds) for promise in PROMISES}


def _result(line: dict[str, object]) -> RoundResult:
    return RoundResult(**line)  # type: ignore[arg-type] # as `add` wrote it
