"""Segments and manifests in an object store, read by ranges through a bounded cache of blocks."""

import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from danube.model.limits.broker import SEGMENT_READ_BYTES_MAX
from danube.model.limits.objects import (
    OBJECT_BLOCK_BYTES,
    OBJECT_BYTES_MAX,
    OBJECT_CACHE_BYTES,
    OBJECT_READ_BYTES_MAX,
    OBJECT_READS_AHEAD,
)
from danube.objects.bill import Cause
from danube.objects.retrying import RetryingStore
from danube.runtime.disk import Buffer
from danube.storage.object_store.side_by_side import Ended, SideBySide
from danube.storage.segment.reader_cache import LruCache
from danube.storage.tiers.tier import SegmentTier, Take

_Key = tuple[str, int]
_SIZES_MAX = 4_096  # objects; they never change


@dataclass(slots=True)
class CacheStats:
    """Blocks that were in the cache, or on their way to it, and blocks that were asked for and had to be waited for."""

    hits: int = 0
    misses: int = 0


class BlockCache:
    """Blocks of objects in memory, and requests for more that are under way. May be used from several threads."""

    def __init__(self, store: RetryingStore, ahead: SideBySide, bytes_max: int = OBJECT_CACHE_BYTES) -> None:
        self._store = store.charged_to(Cause.READ)
        self._ahead = ahead
        self._blocks: LruCache[_Key, bytes] = LruCache(bytes_max)
        self._sizes: LruCache[str, int] = LruCache(_SIZES_MAX)
        self._under_way: dict[_Key, Ended[list[bytes]]] = {}
        self._lock = threading.RLock()
        self.stats = CacheStats()

    def read(self, name: str, position: int, length: int) -> bytes:
        """Bytes of an object; fewer at its end. Raises OSError."""
        first, last = position // OBJECT_BLOCK_BYTES, (position + max(length, 1) - 1) // OBJECT_BLOCK_BYTES
        blocks = self._wait_for(name, first, last)
        content = blocks[0] if len(blocks) == 1 else b"".join(blocks)
        start = position - first * OBJECT_BLOCK_BYTES
        return content[start : start + length]

    def expect(self, name: str, position: int, length: int) -> None:
        """Begin to read blocks that are missing, with one request."""
        first = position // OBJECT_BLOCK_BYTES
        last = (position + max(length, 1) - 1) // OBJECT_BLOCK_BYTES
        per_request = OBJECT_READ_BYTES_MAX // OBJECT_BLOCK_BYTES
        with self._lock:
            missing = [one for one in range(first, last + 1) if not self._is_known((name, one))]
            if len(self._under_way) >= OBJECT_READS_AHEAD * per_request:
                return
            for run in _runs(missing, per_request):
                self._start(name, run)

    def read_on(self, name: str, position: int) -> None:
        """Begin to read what follows, for a reader in order: seldom and much, since each request costs."""
        try:
            size = self._size(name)
        except OSError:  # only a hint: the read itself raises it
            return
        near = min(position + OBJECT_READ_BYTES_MAX // 2, size - 1) // OBJECT_BLOCK_BYTES
        with self._lock:
            is_far = position < size and not self._is_known((name, near))
        if is_far:
            self.expect(name, position, min(OBJECT_READ_BYTES_MAX, size - position))

    def forget(self, prefix: str) -> None:
        """Drop the blocks of objects whose names begin so."""
        with self._lock:
            self._blocks.drop_all(lambda key: key[0].startswith(prefix))
            self._sizes.drop_all(lambda name: name.startswith(prefix))

    def _size(self, name: str) -> int:
        with self._lock:
            size = self._sizes.get(name)
        if size is None:
            size = self._store.size(name)
            with self._lock:
                self._sizes.put(name, size, 1)
        return size

    def _is_known(self, key: _Key) -> bool:
        return key in self._blocks or key in self._under_way

    def _start(self, name: str, run: range) -> None:
        ended = self._ahead.start(lambda: self._fetch(name, run))
        for number in run:
            if (name, number) not in self._blocks:
                self._under_way[name, number] = ended

    def _wait_for(self, name: str, first: int, last: int) -> list[bytes]:
        """The blocks of a range; those after the object's end are empty."""
        found: list[bytes] = []
        for number in range(first, last + 1):
            if found and len(found[-1]) < OBJECT_BLOCK_BYTES:
                break
            found.append(self._block(name, number, last))
        return found

    def _block(self, name: str, number: int, last: int) -> bytes:
        key = (name, number)
        with self._lock:
            block, ended = self._blocks.get(key), self._under_way.get(key)
            self.stats.hits += block is not None or ended is not None
            self.stats.misses += block is None and ended is None
        if block is None and ended is not None:
            ended.wait()
            with self._lock:
                self._under_way.pop(key, None)
                block = self._blocks.get(key)
        if block is not None:
            return block
        per_request = OBJECT_READ_BYTES_MAX // OBJECT_BLOCK_BYTES
        return self._fetch(name, range(number, min(last + 1, number + per_request)))[0]

    def _fetch(self, name: str, run: range) -> list[bytes]:
        try:
            data = self._store.get(name, run.start * OBJECT_BLOCK_BYTES, len(run) * OBJECT_BLOCK_BYTES)
            blocks = [data[at * OBJECT_BLOCK_BYTES : (at + 1) * OBJECT_BLOCK_BYTES] for at in range(len(run))]
            with self._lock:
                for number, block in zip(run, blocks, strict=True):
                    self._blocks.put((name, number), block, len(block) + 1)
            return blocks
        finally:
            with self._lock:
                for number in run:
                    self._under_way.pop((name, number), None)


class ObjectTier(SegmentTier):
    """A `SegmentTier` in an object store. Owned by one thread at a time; several share one cache."""

    def __init__(self, store: RetryingStore, cache: BlockCache, *, below: str = "") -> None:
        """`below` begins the names of all objects."""
        self._store = store.charged_to(Cause.SEGMENT)
        self._cache = cache
        self._below = below

    def put(self, name: str, chunks: Sequence[Buffer]) -> None:
        self._store.put_if_absent(self._below + name, chunks)

    def read(self, name: str, position: int, length: int) -> bytes:
        return self._cache.read(self._below + name, position, length)

    def read_whole(self, name: str) -> bytes:
        """With one request: a read beyond the end is as good as its size."""
        return self._cache.read(self._below + name, 0, OBJECT_BYTES_MAX)

    def read_back(self, name: str) -> bytes:
        """A whole object as the store has it, past the cache."""
        return self._store.get(self._below + name)

    def expect(self, name: str, position: int, length: int) -> None:
        self._cache.expect(self._below + name, position, length)

    def read_run(self, name: str, position: int, lengths: Sequence[int]) -> Iterator[bytes]:
        take = self.open_run(name, position, sum(lengths))
        for length in lengths:
            yield take(length)

    def open_run(self, name: str, position: int, length: int) -> Take:
        is_long = 2 * length > SEGMENT_READ_BYTES_MAX
        content = memoryview(self._cache.read(self._below + name, position, length))
        if is_long:  # a reader of long runs reads in order: the next ones are fetched while it uses this
            self._cache.read_on(self._below + name, position + length)

        def take(count: int) -> bytes:
            nonlocal content
            piece, content = bytes(content[:count]), content[count:]
            return piece

        return take

    def size(self, name: str) -> int:
        return self._store.size(self._below + name)

    def list(self, folder: str) -> list[str]:
        start = len(self._below) + len(folder) + 1
        found = (one.name[start:] for one in self._store.listing(f"{self._below}{folder}/"))
        return [name for name in found if "/" not in name]

    def delete(self, name: str) -> None:
        self._cache.forget(self._below + name)
        self._store.delete([self._below + name])

    def delete_folder(self, folder: str) -> None:
        self.close_folder(folder)
        self._store.delete(one.name for one in self._store.listing(f"{self._below}{folder}/"))

    def close_folder(self, folder: str) -> None:
        self._cache.forget(f"{self._below}{folder}/")

    def close(self) -> None:
        return None


def _runs(numbers: Sequence[int], length_max: int) -> Iterator[range]:
    """Neighbouring numbers together, in ranges of at most so many."""
    start = 0
    for at in range(1, len(numbers) + 1):
        is_end = at == len(numbers) or numbers[at] != numbers[at - 1] + 1 or at - start == length_max
        if is_end:
            yield range(numbers[start], numbers[at - 1] + 1)
            start = at
