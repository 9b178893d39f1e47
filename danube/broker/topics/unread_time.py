"""When the oldest message that a subscription has not read was appended: asked often, and seldom another one."""

from danube.model.errors import DanubeError
from danube.storage.log.protocol import TopicLog


class UnreadTime:
    """Remembers it for as long as the subscription stands where it does; only what is in segments costs a read."""

    def __init__(self, log: TopicLog) -> None:
        self._log = log
        self._offset: int | None = None
        self._append_ms: int | None = None

    def at_hand(self, offset: int) -> int | None:
        """When the record at this offset was appended; None of one that is not there, or that has to be read."""
        if offset != self._offset:
            found = self._log.append_time_at_hand(offset)
            if found is None:
                return None
            self._offset, self._append_ms = offset, found
        return self._append_ms

    def is_unknown(self, offset: int) -> bool:
        """Whether there is such a record, and it has to be read to know."""
        return offset < self._log.durable_end and self.at_hand(offset) is None

    async def find(self, offset: int) -> None:
        """Have it at hand; what cannot be read stays unknown."""
        try:
            found = await self._log.append_time_ms(offset)
        except DanubeError:
            return
        if found is not None:
            self._offset, self._append_ms = offset, found
