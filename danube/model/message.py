"""Identity of producers and consumers across restarts: stable ids from names. The hash of routing keys."""

import hashlib

from danube.model.topic import TopicName

_ID_BITS = 63  # official clients keep ids as signed 64-bit numbers and read 0 as "none"
SEQUENCED_BIT = 1 << 63
"""Set in the producer id of a batch whose numbers count for de-duplication, and in no other id."""


def producer_id(topic: TopicName, producer_name: str) -> int:
    """The id of the producer with this name on this topic: the same on every broker and after every restart."""
    return _stable_id("producer", str(topic), producer_name)


def consumer_id(topic: TopicName, subscription: str, consumer_name: str) -> int:
    """The id of the consumer with this name in this subscription: the same on every broker and after every restart."""
    return _stable_id("consumer", str(topic), subscription, consumer_name)


def numbering_id(topic: TopicName, producer_name: str, key: int) -> int:
    """The id in the headers of de-duplicated batches: it names one sequence of one producer on one topic.

    `key` is chosen by the producer at random. It does not follow from the id, which every reader of the topic sees, so
    nobody else can go on with the row.
    """
    return SEQUENCED_BIT | _stable_id("numbering", str(topic), producer_name, f"{key:016x}")


def fnv1a_64(data: bytes) -> int:
    """The FNV-1a hash of 64 bits."""
    result = 0xCBF29CE484222325
    for byte in data:
        result = ((result ^ byte) * 0x100000001B3) & 0xFFFFFFFFFFFFFFFF
    return result


def _stable_id(*parts: str) -> int:
    digest = hashlib.blake2b(digest_size=8)
    for part in parts:
        encoded = part.encode()
        digest.update(len(encoded).to_bytes(4, "little") + encoded)
    return (int.from_bytes(digest.digest(), "little") & (2**_ID_BITS - 1)) or 1
