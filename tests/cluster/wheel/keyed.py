"""Messages with keys, and what must hold of them whoever reads them."""

from collections import Counter
from collections.abc import Sequence
from itertools import chain

from danube import DanubeClient, Producer, SubType
from tests.cluster.wheel.scene import Reader, new_reader

Keyed = tuple[str, bytes]
"""A key and a payload: the number of the message."""


def keyed(count: int, keys: int, *, start: int = 0) -> list[Keyed]:
    return [(f"key-{number % keys}", b"%d" % number) for number in range(start, start + count)]


async def send_keyed(producer: Producer, messages: Sequence[Keyed]) -> None:
    for key, payload in messages:
        await producer.send_with_key(payload, None, key)


async def key_readers(client: DanubeClient, topic: str, count: int) -> list[Reader]:
    """Consumers of one Key-Shared subscription."""
    return [await new_reader(client, topic, "s", f"c{index}", SubType.KEY_SHARED) for index in range(count)]


def check_all_came_once(readers: Sequence[Reader], sent: Sequence[Keyed]) -> None:
    assert Counter(chain.from_iterable(reader.got for reader in readers)) == Counter(payload for _, payload in sent)


def check_each_key_is_at_one_consumer_in_order(readers: Sequence[Reader], sent: Sequence[Keyed]) -> None:
    check_each_key_is_in_order(readers, sent)
    for own in _by_key(sent):
        assert sum(not own.isdisjoint(reader.got) for reader in readers) == 1


def check_each_key_is_in_order(readers: Sequence[Reader], sent: Sequence[Keyed]) -> None:
    """A key may go over to another reader, of those that stand behind it."""
    for own in _by_key(sent):
        got = [payload for reader in readers for payload in reader.got if payload in own]
        assert got == sorted(own, key=int)


def _by_key(sent: Sequence[Keyed]) -> list[set[bytes]]:
    return [{payload for of_key, payload in sent if of_key == key} for key in {key for key, _ in sent}]


def partition_of(topic: str, key: str, partitions: int) -> str:
    """Where clients send a key: FNV-1a of 64 bits, modulo the partitions. All official clients do it so."""
    hashed = 0xCBF29CE484222325
    for byte in key.encode():
        hashed = (hashed ^ byte) * 0x100000001B3 % 2**64
    return f"{topic}-part-{hashed % partitions}"
