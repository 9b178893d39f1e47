"""Promises of every `ObjectStore`, whatever carries the requests."""

import contextlib
import threading
from collections.abc import Callable

import pytest

from danube.model.limits.objects import OBJECT_PART_BYTES
from danube.objects.opening import PROBES, probe
from danube.objects.store import ObjectInfo, ObjectStore, StoreBusyError
from danube.runtime.rng import SystemRng
from danube.testing.patience import PATIENCE_S

ODD_NAME = "a folder/with é, + and =/x (1)"
RACERS = 8
ATTEMPTS_MAX = 20


def test_an_object_is_read_whole_and_in_part(store: ObjectStore) -> None:
    store.put("folder/a", [b"012", memoryview(b"345"), bytearray(b"6789")])
    assert store.get("folder/a") == b"0123456789"
    assert store.get("folder/a", 3, 4) == b"3456"
    assert store.get("folder/a", 8, 100) == b"89"
    assert store.get("folder/a", 7) == b"789"
    assert store.get("folder/a", 0, 0) == b""
    assert store.get("folder/a", 10, 5) == b""
    assert store.size("folder/a") == 10
    assert store.get_tagged("folder/a").data == b"0123456789"


def test_an_empty_object_is_an_object(store: ObjectStore) -> None:
    store.put("empty", [])
    assert (store.get("empty"), store.size("empty")) == (b"", 0)


@pytest.mark.parametrize("call", ["get", "get_tagged", "size"])
def test_an_absent_object_is_absent(store: ObjectStore, call: str) -> None:
    with pytest.raises(FileNotFoundError):
        getattr(store, call)("absent")


def test_a_put_replaces_what_was_there(store: ObjectStore) -> None:
    store.put("a", [b"first"])
    store.put("a", [b"2nd"])
    assert store.get("a") == b"2nd"


def test_a_name_is_taken_once(store: ObjectStore) -> None:
    store.put_if_absent("a", [b"first"])
    with pytest.raises(FileExistsError):
        store.put_if_absent("a", [b"second"])
    assert store.get("a") == b"first"


def test_of_several_that_take_a_name_at_once_one_succeeds(store: ObjectStore) -> None:
    won: list[int] = []

    def race(number: int) -> None:
        try:
            store.put_if_absent("prize", [str(number).encode()])
        except OSError:  # another was faster, or the store asks to try again
            return
        won.append(number)

    racers = [threading.Thread(target=race, args=[number]) for number in range(RACERS)]
    for racer in racers:
        racer.start()
    for racer in racers:
        racer.join(PATIENCE_S)
    assert [store.get("prize")] == [str(one).encode() for one in won]


def test_a_version_is_swapped_once(store: ObjectStore) -> None:
    store.put("a", [b"first"])
    tag = store.get_tagged("a").tag
    store.swap("a", [b"second"], tag)
    with pytest.raises(FileExistsError):
        store.swap("a", [b"third"], tag)
    assert store.get("a") == b"second"


def test_a_large_object_goes_up_in_parts_and_is_the_same(store: ObjectStore) -> None:
    content = bytes(range(256)) * (OBJECT_PART_BYTES // 256) + b"the rest"
    store.put("large", [content])
    assert store.size("large") == len(content)
    assert store.get("large", OBJECT_PART_BYTES - 2, 10) == content[-10:]
    with pytest.raises(FileExistsError):
        _until_answered(lambda: store.put_if_absent("large", [content, b"!"]))
    store.put_if_absent("large 2", [content])
    assert store.get("large 2") == content


def _until_answered(request: Callable[[], None]) -> None:
    """Send it again as `RetryingStore` does: a server may answer, and hang up, before it has read all of a refusal."""
    for _ in range(ATTEMPTS_MAX):
        with contextlib.suppress(StoreBusyError):
            request()
            return


def test_a_listing_has_all_below_a_prefix_in_order(store: ObjectStore) -> None:
    for number in (3, 1, 2):
        store.put(f"list/{number:04d}", [b"x" * number])
    store.put("list2", [b""])
    assert store.listing("list/") == [ObjectInfo(f"list/{number:04d}", number) for number in (1, 2, 3)]
    assert [one.name for one in store.listing("list/", after="list/0001")] == ["list/0002", "list/0003"]
    assert [one.name for one in store.listing("list/00")] == [f"list/{number:04d}" for number in (1, 2, 3)]
    assert store.listing("nothing/") == []


def test_folders_are_the_next_part_of_names(store: ObjectStore) -> None:
    for name in ("top/a/1", "top/a/2", "top/b/c/3", "top/file"):
        store.put(name, [b""])
    assert store.folders("top/") == ["a", "b"]
    assert store.folders("nothing/") == []


def test_deleting_what_is_not_there_changes_nothing(store: ObjectStore) -> None:
    store.put("a", [b"1"])
    store.put("b", [b"2"])
    store.delete(["a", "absent"])
    store.delete([])
    assert [one.name for one in store.listing("")] == ["b"]


def test_a_name_may_hold_odd_characters(store: ObjectStore) -> None:
    store.put_if_absent(ODD_NAME, [b"x"])
    assert store.get(ODD_NAME) == b"x"
    assert [one.name for one in store.listing("a folder/")] == [ODD_NAME]


def test_the_probe_passes_and_leaves_nothing(store: ObjectStore) -> None:
    probe(store, "s3://danube/", SystemRng(seed=1))
    assert store.listing(f"{PROBES}/") == []
