"""The answering end of a stream, as far as it is the same for every carrier."""

from abc import ABC, abstractmethod
from collections.abc import Callable

from danube.rpc.answer import log_callback_failure, status_for
from danube.rpc.carrier import Caller, CarrierOptions, StreamHandler
from danube.rpc.stream_memory import Outbox, StreamMemory
from danube.wire.status import Status


class AnsweringStream(ABC):
    """A `ServerStream` that keeps what its service wrote until the carrier sends it."""

    def __init__(
        self, path: str, caller: Caller, options: CarrierOptions, memory: StreamMemory, *, both_ways: bool
    ) -> None:
        self._path = path
        self.caller = caller
        self.is_left = False
        self._outbox = Outbox(options, memory, self, both_ways=both_ways)
        self._open_wanted = False
        self._paused = False
        self._finished = False
        self._failure: Status | None = None
        self._over = False

    @property
    def room(self) -> int:
        return self._outbox.room

    def open(self) -> None:
        self._open_wanted = True
        self.advance()

    def write(self, message: bytes) -> None:
        if self._answers:
            self._outbox.put(message)
            self.advance()

    def finish(self) -> None:
        if self._answers:
            self._finished = True
            self.advance()

    def pause_reading(self) -> None:
        self._paused = True

    def resume_reading(self) -> None:
        self._paused = False
        self.advance()

    @abstractmethod
    def advance(self) -> None:
        """Have the carrier do, in a later turn, what is due now."""

    @property
    def _answers(self) -> bool:
        return not (self._finished or self._over or self._failure is not None)

    def _tell(self, notify: Callable[..., None], *args: bytes) -> None:
        """Call the handler, unless the stream has its last answer."""
        if not self._answers:
            return
        try:
            notify(*args)
        except Exception as error:
            self.fail(error)

    def _tell_cancelled(self, handler: StreamHandler) -> None:
        try:
            handler.on_cancel()
        except Exception as error:
            log_callback_failure(error, self._path)

    def fail(self, error: Exception) -> None:
        if self._answers:
            self._failure = status_for(error, self._path)
            self.advance()
