"""What a soak of a metadata store remembers: a line for every round, and what the last one left in the store.

The line is written last, at once and synced by nobody: a death before it repeats the round's number on new keys.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from danube.model.errors import DataFolderError

FORMAT = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundResult:
    """One line of the ledger."""

    round: int
    seed: int
    store: str
    faults: tuple[str, ...]
    seconds: float
    operations: int
    """Linearizable reads and changes."""
    changes: int
    """Those that were acknowledged."""
    unknown: int
    """Changes whose outcome nobody was told."""
    failed: int
    """Calls that surely had no effect."""
    local_reads: int
    watch_events: int
    steps: int
    """Of the search for an order."""
    checked_s: float
    undecided: tuple[str, ...]
    """Keys on which it was given up."""
    violations: Mapping[str, int]
    """By promise."""
    what: tuple[str, ...]
    """The first ones as sentences."""
    left: Mapping[str, tuple[str, int]]
    """What stood at its end: value and revision by key."""

    @property
    def is_good(self) -> bool:
        """Whether every promise was kept."""
        return not any(self.violations.values())


class Ledger:
    """The ledger of one folder. Raises DataFolderError when it is not what this version writes."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.path = folder / "ledger.jsonl"
        self._rounds = self._read()

    @property
    def rounds(self) -> list[RoundResult]:
        """All of them."""
        return list(self._rounds)

    def add(self, result: RoundResult) -> None:
        """One more line."""
        self._rounds.append(result)
        line = {"format": FORMAT, **asdict(result)}
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")

    def keep(self, result: RoundResult, history: Iterable[str]) -> None:
        """The history of a round that somebody will look into, beside the ledger."""
        path = self.folder / f"round-{result.round:05}.history"
        path.write_text("\n".join((*result.what, "", *history)) + "\n", encoding="utf-8")

    def _read(self) -> list[RoundResult]:
        if not self.path.exists():
            return []
        lines = self.path.read_text(encoding="utf-8").splitlines(keepends=True)
        if lines and not lines[-1].endswith("\n"):  # torn by a death: the round is run again
            lines = lines[:-1]
            self.path.write_text("".join(lines), encoding="utf-8")
        return [self._result(json.loads(line)) for line in lines]

    def _result(self, line: dict[str, object]) -> RoundResult:
        if line.pop("format", None) != FORMAT:
            raise DataFolderError(f"{self.path} is of another version: remove its folder, or name another")
        left = line.pop("left")
        known = {key: (value, revision) for key, (value, revision) in left.items()} if isinstance(left, dict) else {}
        return RoundResult(**line, left=known)  # type: ignore[arg-type] # as `add` wrote it
