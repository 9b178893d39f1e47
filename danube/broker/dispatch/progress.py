"""What a subscription has acknowledged: a front below which everything is, and ranges beyond it."""

from collections.abc import Iterator

from danube.model.limits import CURSOR_RANGES_MAX
from danube.model.ranges import RangeSet
from danube.model.subscription import Cursor


class Progress:
    """The acknowledged offsets; `position` never goes back."""

    def __init__(self, cursor: Cursor, durable_end: int) -> None:
        """Continue from a saved cursor; what it says of offsets that are not written yet is ignored."""
        self.position = min(cursor.position, durable_end)
        self.beyond = RangeSet()
        for start, end in cursor.beyond:
            self.add(start, min(end, durable_end))

    @property
    def cursor(self) -> Cursor:
        """To save; of more ranges than a cursor keeps, the lowest."""
        return Cursor(self.position, self.beyond.lowest(CURSOR_RANGES_MAX) if self.beyond else ())

    def add(self, start: int, end: int) -> None:
        """`[start, end)` is acknowledged."""
        if start > self.position:
            self.beyond.add(start, end)
            return
        self.position = max(self.position, end)
        while (lowest := self.beyond.first()) is not None and lowest.start <= self.position:
            self.position = max(self.position, lowest.end)
            self.beyond.remove(*lowest)

    def problems(self) -> Iterator[str]:
        """What is not as it must be; nothing, unless there is a fault in here."""
        lowest = self.beyond.first()
        if lowest is not None and lowest.start <= self.position:
            yield f"{self.beyond} begins at or below the front {self.position}"
