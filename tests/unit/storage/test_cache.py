"""Recent batches, bounded in bytes over all topics."""

from danube.storage.batches.stored_batch import StoredBatch
from danube.storage.journal.durable import BatchCache


def batch(base: int, size: int = 1_000) -> StoredBatch:
    return StoredBatch(base, 1, 0, bytes(size))


def test_the_oldest_of_any_topic_goes_first() -> None:
    cache = BatchCache(bytes_max=4_000)
    for number in range(4):
        cache.add(number % 2, batch(number // 2))
    kept = [(topic, base) for topic in range(2) for base in range(2) if cache.get(topic, base)]
    assert kept == [(0, 1), (1, 0), (1, 1)]
    assert cache.bytes <= 4_000


def test_batch_larger_than_the_cache_is_not_kept() -> None:
    cache = BatchCache(bytes_max=500)
    cache.add(1, batch(0))
    assert cache.get(1, 0) is None
    assert cache.bytes == 0


def test_dropped_batches_free_their_bytes() -> None:
    cache = BatchCache(bytes_max=10_000)
    cache.add(1, batch(0))
    assert cache.drop(1, 0)
    assert not cache.drop(1, 0)
    assert cache.bytes == 0


def test_batch_in_the_place_of_one_that_is_there_counts_alone() -> None:
    cache = BatchCache(bytes_max=10_000)
    cache.add(1, batch(0))
    cache.add(1, batch(0, size=2_000))
    kept = cache.get(1, 0)
    assert kept is not None
    assert len(kept.body) == 2_000
    assert cache.drop(1, 0)
    assert cache.bytes == 0
