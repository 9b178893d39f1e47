"""Room on the disk: looked at now and then, said when it gets little, and appends refused before it is none."""

import logging
from collections.abc import Callable

from danube.model.errors import StorageUnavailableError
from danube.runtime.blocking import BlockingRunner
from danube.storage.watermarks import SpaceLevel, Watermarks, space_level

_MIB = 1024 * 1024

_log = logging.getLogger(__name__)


class SpaceGate:
    """What every append asks first; a refusal costs nothing but that."""

    def __init__(self, marks: Watermarks) -> None:
        self._marks = marks
        self._refusal: str | None = None
        self.level = SpaceLevel.OK
        self.free_bytes: int | None = None
        """As last seen; None before the first look."""

    @property
    def refusal(self) -> str | None:
        """Why nothing is appended, or None."""
        return self._refusal

    def check(self) -> None:
        """Raise StorageUnavailableError while there is too little room."""
        if self._refusal is not None:
            raise StorageUnavailableError(self._refusal)

    def note(self, free_bytes: int) -> None:
        """Go by what is free now; a change of the level is said in the log, once."""
        self.free_bytes = free_bytes
        level = space_level(free_bytes, self.level, self._marks)
        self._refusal = self._text(free_bytes) if level is SpaceLevel.REFUSE else None
        if level is not self.level:
            self.level = level
            self._say(free_bytes)

    def _text(self, free_bytes: int) -> str:
        kept_back = self._marks.refuse_below_bytes // _MIB
        return (
            f"the disk has {free_bytes // _MIB} MiB left, and {kept_back} are kept back: free some space or let topics "
            "keep less. Appends then go on by themselves; reading goes on all the time"
        )

    def _say(self, free_bytes: int) -> None:
        if self._refusal is not None:
            _log.error("appends are refused: %s", self._refusal)
        elif self.level is SpaceLevel.WARN:
            _log.warning("the disk has %d MiB left: below %s", free_bytes // _MIB, self._next_step())
        else:
            _log.warning("the disk has room again: %d MiB are free", free_bytes // _MIB)

    def _next_step(self) -> str:
        return f"{self._marks.refuse_below_bytes // _MIB} MiB appends are refused; free some space"


async def look_at_space(gate: SpaceGate, free_bytes: Callable[[], int], runner: BlockingRunner) -> None:
    """Note what is free; a disk that does not say is left as it was seen last."""
    try:
        gate.note(await runner.run(free_bytes))
    except OSError as error:
        _log.warning("the disk does not say how much is free: %s", error)
