"""Retries with jitter and a budget around an object store, counted on a bill."""

import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Self, TypeVar

from danube.model.limits.objects import (
    OBJECT_REQUEST_TIMEOUT_S,
    OBJECT_RETRIES_MAX,
    OBJECT_RETRY_BASE_S,
    OBJECT_RETRY_BUDGET_S,
    OBJECT_RETRY_LONGEST_S,
    OBJECT_SILENT_S,
    OBJECT_SMALL_BYTES,
)
from danube.objects.bill import Bill, Cause, RequestKind
from danube.objects.store import ObjectInfo, ObjectStore, StoreBusyError, StoreRefusedError, Tagged, joined
from danube.runtime.clock import Clock
from danube.runtime.disk import Buffer
from danube.runtime.rng import Rng

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Patience:
    """Bounds of the retries of one request."""

    budget_s: float = OBJECT_RETRY_BUDGET_S
    retries_max: int | None = OBJECT_RETRIES_MAX
    """None for as many as the budget allows."""
    outlasts_refusal: bool = False
    """True for a request that is sent again though it was refused: keys and rights are corrected from outside."""


def next_wait_s(before_s: float, drawn: float) -> float:
    """The wait before a retry, by a number drawn from 0 to 1: jitter that no two brokers share."""
    upper_s = min(max(before_s * 3, OBJECT_RETRY_BASE_S * 2), OBJECT_RETRY_LONGEST_S)
    return OBJECT_RETRY_BASE_S + drawn * (upper_s - OBJECT_RETRY_BASE_S)


class Outage:
    """The time since which a store does not answer, and its last error. Written by threads, read by the loop."""

    def __init__(self) -> None:
        self.since_s: float | None = None
        self.error = ""
        self._under_way: dict[object, float] = {}
        self._lock = threading.Lock()

    def asked(self, asked_s: float) -> object:
        """Learn of a request that is sent; the answer is for `answered`."""
        request = object()
        with self._lock:
            self._under_way[request] = asked_s
        return request

    def answered(self, request: object) -> None:
        """Learn that a request has ended, whatever came of it."""
        with self._lock:
            del self._under_way[request]

    def began(self, asked_s: float, error: str) -> None:
        """Learn that a request of this time was not answered."""
        self.error = error
        if self.since_s is None:
            self.since_s = asked_s

    def ended(self) -> None:
        """Learn that a request was answered."""
        self.since_s = None

    def lasted_s(self, now_s: float) -> float:
        """Seconds that it lasts; 0 while the store answers."""
        since_s = self.since_s
        return 0.0 if since_s is None else now_s - since_s

    def silent_s(self, now_s: float) -> float:
        """Seconds without an answer, also before the first request has failed; 0 while the store answers."""
        with self._lock:
            waited_s = now_s - min(self._under_way.values(), default=now_s)
        return max(self.lasted_s(now_s), waited_s if waited_s >= OBJECT_SILENT_S else 0.0)


class Pause:
    """Waits between retries, which end early when the owner is closing."""

    def __init__(self) -> None:
        self._closing = threading.Event()

    @property
    def is_closing(self) -> bool:
        """True once the owner is closing."""
        return self._closing.is_set()

    def wait(self, seconds: float) -> None:
        """Wait so long, or until the owner is closing."""
        self._closing.wait(seconds)

    def end(self) -> None:
        """End all waits: the owner is closing."""
        self._closing.set()


class RetryingStore:
    """An `ObjectStore` that sends requests again that were not answered, and counts each on `bill`.

    A put that finds its name taken compares: the content may be its own, from an attempt whose answer was lost.
    """

    def __init__(
        self,
        store: ObjectStore,
        clock: Clock,
        rng: Rng,
        *,
        bill: Bill,
        cause: Cause,
        patience: Patience | None = None,
        outage: Outage | None = None,
        pause: Pause | None = None,
    ) -> None:
        self._store = store
        self._clock = clock
        self._rng = rng
        self.bill = bill
        self.cause = cause
        self._patience = patience or Patience()
        self.outage = outage or Outage()
        self.pause = pause or Pause()

    def charged_to(self, cause: Cause, patience: Patience | None = None) -> Self:
        """The same store for requests of another cause."""
        return type(self)(
            self._store,
            self._clock,
            self._rng,
            bill=self.bill,
            cause=cause,
            patience=patience or self._patience,
            outage=self.outage,
            pause=self.pause,
        )

    def get(self, name: str, position: int = 0, length: int | None = None) -> bytes:
        return self._run(RequestKind.GET, lambda: self._store.get(name, position, length), size=len, name=name)

    def get_tagged(self, name: str) -> Tagged:
        return self._run(
            RequestKind.GET, lambda: self._store.get_tagged(name), size=lambda one: len(one.data), name=name
        )

    def put(self, name: str, chunks: Sequence[Buffer]) -> None:
        self._run(RequestKind.PUT, lambda: self._store.put(name, chunks), sent_bytes=_length(chunks), name=name)

    def put_if_absent(self, name: str, chunks: Sequence[Buffer]) -> None:
        try:
            self._run(
                RequestKind.PUT, lambda: self._store.put_if_absent(name, chunks), sent_bytes=_length(chunks), name=name
            )
        except FileExistsError:
            if self.get(name) != joined(chunks):
                raise

    def swap(self, name: str, chunks: Sequence[Buffer], tag: str) -> None:
        try:
            self._run(
                RequestKind.PUT, lambda: self._store.swap(name, chunks, tag), sent_bytes=_length(chunks), name=name
            )
        except FileExistsError:
            if self.get(name) != joined(chunks):
                raise

    def size(self, name: str) -> int:
        return self._run(RequestKind.HEAD, lambda: self._store.size(name), name=name)

    def listing(self, prefix: str, after: str = "") -> list[ObjectInfo]:
        return self._run(RequestKind.LIST, lambda: self._store.listing(prefix, after), name=prefix)

    def folders(self, prefix: str) -> list[str]:
        return self._run(RequestKind.LIST, lambda: self._store.folders(prefix))

    def delete(self, names: Iterable[str]) -> None:
        gone = list(names)
        if gone:
            self._run(RequestKind.DELETE, lambda: self._store.delete(gone), name=gone[0])

    def close(self) -> None:
        self.pause.end()
        self._store.close()

    def _run(
        self,
        kind: RequestKind,
        request: Callable[[], T],
        *,
        size: Callable[[T], int] | None = None,
        sent_bytes: int = 0,
        name: str = "",
    ) -> T:
        started_s, wait_s, attempts = self._clock.monotonic_s(), 0.0, 0
        while True:
            attempts += 1
            asked_s = self._clock.monotonic_s()
            asked = self.outage.asked(
                asked_s if sent_bytes <= OBJECT_SMALL_BYTES else asked_s + OBJECT_REQUEST_TIMEOUT_S
            )
            try:
                found = request()
            except (StoreBusyError, StoreRefusedError) as error:
                if isinstance(error, StoreRefusedError) and not self._patience.outlasts_refusal:
                    self.bill.add(kind, self.cause, name=name, sent_bytes=sent_bytes, failed=True)
                    raise
                self.bill.add(kind, self.cause, name=name, sent_bytes=sent_bytes, failed=True)
                now_s = self._clock.monotonic_s()
                self.outage.began(asked_s, str(error))
                wait_s = next_wait_s(wait_s, self._rng.uniform(0.0, 1.0))
                if self._is_over(now_s + wait_s - started_s, attempts):
                    raise
                self.pause.wait(wait_s)
            except OSError:
                self.bill.add(kind, self.cause, name=name, sent_bytes=sent_bytes, failed=True)
                self.outage.ended()
                raise
            else:
                received = size(found) if size is not None else 0
                self.bill.add(kind, self.cause, name=name, sent_bytes=sent_bytes, received_bytes=received)
                self.outage.ended()
                return found
            finally:
                self.outage.answered(asked)

    def _is_over(self, spent_s: float, attempts: int) -> bool:
        retries_max = self._patience.retries_max
        is_spent = spent_s > self._patience.budget_s or (retries_max is not None and attempts > retries_max)
        return is_spent or self.pause.is_closing


def _length(chunks: Sequence[Buffer]) -> int:
    return sum(len(chunk) for chunk in chunks)
