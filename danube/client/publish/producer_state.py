"""What a producer of one topic is to its broker from one stream of batches to the next."""

from dataclasses import dataclass, replace

from danube.model.calls.stream import ProducerAccess, PublishOpen, PublishOpened
from danube.model.errors import UnrecoverableError
from danube.runtime.rng import Rng


@dataclass(slots=True)
class ProducerSequence:
    """One row of numbers of records, under a key that nobody else knows."""

    key: int
    next_sequence: int = 0
    """Of the next record."""


class ProducerIdentity:
    """Its epoch, if it is exclusive, and its row of numbers, if its batches are de-duplicated."""

    def __init__(self, access: ProducerAccess, rng: Rng, *, deduplicates: bool) -> None:
        self._access = access
        self._rng = rng
        self._deduplicates = deduplicates
        self._epoch = 0
        self._idle: ProducerSequence | None = None

    @property
    def is_exclusive(self) -> bool:
        """Whether nobody else may publish."""
        return self._access is not ProducerAccess.SHARED

    def adopt_producer_state(self) -> ProducerSequence | None:
        """A row of numbers that nobody else goes on with until it is given back; None without de-duplication."""
        if not self._deduplicates:
            return None
        taken, self._idle = self._idle or ProducerSequence(self._rng.new_id()), None
        return taken

    def give_back(self, producer_state: ProducerSequence) -> None:
        """All of its records are stored: the next ones may go on with it. One that failed is not given back."""
        self._idle = producer_state

    def opening(self, plain: PublishOpen, producer_state: ProducerSequence | None) -> PublishOpen:
        """How to open a stream now."""
        key = producer_state.key if producer_state else 0
        return replace(plain, access=self._access, epoch=self._epoch, deduplication_key=key)

    def take_answer(self, answer: PublishOpened, producer_state: ProducerSequence | None) -> None:
        """The broker let the stream in. Raises UnrecoverableError when it did not do what it was asked for."""
        if (producer_state is not None and not answer.numbering_id) or (self.is_exclusive and not answer.epoch):
            raise UnrecoverableError(
                "the broker knows neither exclusive producers nor de-duplication: use a newer one, or do without them"
            )
        self._epoch = answer.epoch
