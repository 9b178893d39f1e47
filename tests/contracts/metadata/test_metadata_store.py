"""The promises of `MetadataStore`, kept by every implementation; those of its watches are in a file of their own."""

import asyncio
import itertools

import pytest

from danube.metadata.store import (
    Condition,
    Delete,
    DeletePrefix,
    Entry,
    MetadataStore,
    Put,
    Transaction,
    Write,
)
from danube.model.errors import InvalidRequestError, MetadataError, NotFoundError, VersionConflictError
from danube.model.limits.metadata import METADATA_KEY_BYTES_MAX, METADATA_VALUE_BYTES_MAX
from danube.testing.simulated.clock import SimClock

_ids = itertools.count(1)


def transaction(*writes: Write, conditions: tuple[Condition, ...] = ()) -> Transaction:
    return Transaction(f"transaction-{next(_ids)}", conditions, writes)


async def keys_below(store: MetadataStore, prefix: str) -> list[str]:
    return [entry.key for entry in await store.list(prefix)]


# Keys, values, revisions


async def test_missing_key_is_none(store: MetadataStore) -> None:
    assert await store.get("/a") is None


async def test_key_reads_back_with_the_revisions_of_its_first_and_last_change(store: MetadataStore) -> None:
    first = await store.put("/a", b"1")
    await store.put("/b", b"x")
    last = await store.put("/a", b"2")
    assert await store.get("/a") == Entry("/a", b"2", created_revision=first, revision=last)


async def test_each_change_gets_the_next_revision(store: MetadataStore) -> None:
    revisions = [await store.put(f"/a/{index}", b"") for index in range(5)]
    assert revisions == list(range(revisions[0], revisions[0] + 5))


async def test_recreated_key_has_a_new_creation(store: MetadataStore) -> None:
    await store.put("/a", b"1")
    await store.delete("/a")
    again = await store.put("/a", b"2")
    assert await store.get("/a") == Entry("/a", b"2", created_revision=again, revision=again)


async def test_deleting_a_missing_key_takes_no_revision(store: MetadataStore) -> None:
    before = await store.put("/a", b"")
    await store.delete("/b")
    assert await store.put("/a", b"") == before + 1


async def test_list_ends_at_a_slash(store: MetadataStore) -> None:
    for key in ("/a", "/a/b", "/a/b/c", "/a/b/c/d", "/a/bc", "/a/b-", "/a/b0", "/ab/b/c", "/a/b/é"):
        await store.put(key, b"")
    assert await keys_below(store, "/a/b") == ["/a/b/c", "/a/b/c/d", "/a/b/é"]


async def test_list_is_sorted_by_key_whatever_the_script(store: MetadataStore) -> None:
    keys = ["/k/a", "/k/Z", "/k/é", "/k/日本", "/k/😀", "/k/\uffe6", "/k/a/b", "/k/a-b"]
    for key in keys:
        await store.put(key, key.encode())
    assert [(entry.key, entry.value) for entry in await store.list("/k")] == [
        (key, key.encode()) for key in sorted(keys)
    ]


async def test_root_lists_everything(store: MetadataStore) -> None:
    await store.put("/a", b"")
    await store.put("/b/c", b"")
    assert await keys_below(store, "/") == ["/a", "/b/c"]


async def test_largest_key_and_value_fit(store: MetadataStore) -> None:
    key, value = "/" + "k" * (METADATA_KEY_BYTES_MAX - 1), bytes(range(256)) * (METADATA_VALUE_BYTES_MAX // 256)
    await store.put(key, value)
    entry = await store.get(key)
    assert entry is not None
    assert entry.value == value


@pytest.mark.parametrize("key", ["", "/", "a", "/a/", "/a//b", "/a\0b", "/\ud800", "/" + "k" * METADATA_KEY_BYTES_MAX])
async def test_key_that_is_no_path_is_refused(store: MetadataStore, key: str) -> None:
    with pytest.raises(InvalidRequestError):
        await store.put(key, b"")


async def test_value_that_is_too_large_is_refused(store: MetadataStore) -> None:
    with pytest.raises(InvalidRequestError):
        await store.put("/a", bytes(METADATA_VALUE_BYTES_MAX + 1))
    assert await store.get("/a") is None


# Compare-and-set


async def test_compare_and_set_creates_only_a_missing_key(store: MetadataStore) -> None:
    revision = await store.compare_and_set("/a", b"1", revision=0)
    with pytest.raises(VersionConflictError):
        await store.compare_and_set("/a", b"2", revision=0)
    assert await store.get("/a") == Entry("/a", b"1", revision, revision)


async def test_compare_and_set_with_an_old_revision_changes_nothing(store: MetadataStore) -> None:
    old = await store.put("/a", b"1")
    await store.put("/a", b"2")
    with pytest.raises(VersionConflictError):
        await store.compare_and_set("/a", b"3", revision=old)
    entry = await store.get("/a")
    assert entry is not None
    assert entry.value == b"2"


async def test_conditional_delete_with_an_old_revision_changes_nothing(store: MetadataStore) -> None:
    old = await store.put("/a", b"1")
    new = await store.put("/a", b"2")
    with pytest.raises(VersionConflictError):
        await store.delete("/a", revision=old)
    assert await store.get("/a") is not None
    await store.delete("/a", revision=new)
    assert await store.get("/a") is None


async def test_conditional_delete_of_a_missing_key_is_a_conflict(store: MetadataStore) -> None:
    with pytest.raises(VersionConflictError):
        await store.delete("/a", revision=1)


async def test_hundreds_of_concurrent_increments_lose_none(store: MetadataStore) -> None:
    async def increment_often() -> None:
        for _ in range(20):
            while not await increment_once():
                pass

    async def increment_once() -> bool:
        entry = await store.get("/counter")
        value, revision = (int(entry.value), entry.revision) if entry else (0, 0)
        try:
            await store.compare_and_set("/counter", str(value + 1).encode(), revision=revision)
        except VersionConflictError:
            return False
        return True

    await asyncio.gather(*(increment_often() for _ in range(10)))
    entry = await store.get("/counter")
    assert entry is not None
    assert entry.value == b"200"


# Transactions


async def test_transaction_applies_all_its_writes_at_one_revision(store: MetadataStore) -> None:
    old = await store.put("/old", b"")
    revision = await store.transact(
        transaction(Put("/a", b"1"), Put("/b", b"2"), Delete("/old"), conditions=(Condition("/old", old),))
    )
    assert revision == old + 1
    assert await store.list("/") == [
        Entry("/a", b"1", revision, revision),
        Entry("/b", b"2", revision, revision),
    ]


async def test_transaction_with_a_failed_condition_applies_nothing(store: MetadataStore) -> None:
    revision = await store.put("/a", b"1")
    conditions = (Condition("/a", revision), Condition("/b", revision))
    with pytest.raises(VersionConflictError):
        await store.transact(transaction(Put("/a", b"2"), Delete("/a"), Put("/c", b""), conditions=conditions))
    assert await store.list("/") == [Entry("/a", b"1", revision, revision)]


async def test_same_transaction_twice_is_applied_once(store: MetadataStore) -> None:
    increment = transaction(Put("/a", b"1"))
    first = await store.transact(increment)
    await store.put("/a", b"2")
    assert await store.transact(increment) == first
    entry = await store.get("/a")
    assert entry is not None
    assert entry.value == b"2"


async def test_same_transaction_twice_answers_its_first_conflict_again(store: MetadataStore) -> None:
    create = transaction(Put("/a", b"mine"), conditions=(Condition("/a", 0),))
    other = await store.put("/a", b"theirs")
    with pytest.raises(VersionConflictError):
        await store.transact(create)
    await store.delete("/a", revision=other)
    with pytest.raises(VersionConflictError):
        await store.transact(create)
    assert await store.get("/a") is None


async def test_same_transaction_from_two_callers_at_once_is_applied_once(store: MetadataStore) -> None:
    create = transaction(Put("/a", b""), conditions=(Condition("/a", 0),))
    first, second = await asyncio.gather(store.transact(create), store.transact(create))
    assert first == second


async def test_delete_prefix_removes_the_key_and_all_below_it_and_nothing_else(store: MetadataStore) -> None:
    for key in ("/a", "/a/b", "/a/b/c", "/a/b/c/d", "/a/bc", "/a/b0"):
        await store.put(key, b"")
    await store.transact(transaction(DeletePrefix("/a/b")))
    assert await keys_below(store, "/") == ["/a", "/a/b0", "/a/bc"]


async def test_later_writes_of_a_transaction_see_the_earlier_ones(store: MetadataStore) -> None:
    await store.put("/a/old", b"")
    revision = await store.transact(
        transaction(Put("/a/lost", b""), DeletePrefix("/a"), Put("/a/new", b"1"), Put("/a/new", b"2"))
    )
    assert await store.list("/a") == [Entry("/a/new", b"2", revision, revision)]


async def test_transaction_without_effect_takes_no_revision(store: MetadataStore) -> None:
    before = await store.put("/a", b"")
    assert await store.transact(transaction(Delete("/b"), DeletePrefix("/c"))) == before
    assert await store.transact(transaction(Put("/d", b""), Delete("/d"))) == before


# Leases


async def test_leased_key_goes_when_the_time_is_up(store: MetadataStore, clock: SimClock) -> None:
    lease_id = await store.grant_lease(10.0)
    revision = await store.put("/a", b"", lease_id=lease_id)
    await clock.run_for(9.9)
    assert await store.get("/a") == Entry("/a", b"", revision, revision, lease_id)
    await clock.run_for(0.1)
    assert await store.get("/a") is None


async def test_renewed_lease_lives_for_its_whole_time_again(store: MetadataStore, clock: SimClock) -> None:
    lease_id = await store.grant_lease(10.0)
    await store.put("/a", b"", lease_id=lease_id)
    for _ in range(3):
        clock.advance(9.0)
        await store.renew_lease(lease_id)
    clock.advance(9.9)
    assert await store.get("/a") is not None
    clock.advance(0.1)
    assert await store.get("/a") is None


async def test_lease_that_ran_out_cannot_be_renewed(store: MetadataStore, clock: SimClock) -> None:
    lease_id = await store.grant_lease(10.0)
    clock.advance(10.0)
    with pytest.raises(NotFoundError):
        await store.renew_lease(lease_id)


async def test_late_timer_does_not_let_a_lease_live_on(store: MetadataStore, clock: SimClock) -> None:
    lease_id = await store.grant_lease(10.0)
    await store.put("/a/b", b"", lease_id=lease_id)
    clock._now_s += 10.0  # as on a busy loop: time has passed and no timer was called yet
    assert await store.list("/a") == []
    assert await store.get("/a/b") is None


async def test_lease_that_ran_out_takes_no_keys(store: MetadataStore, clock: SimClock) -> None:
    lease_id = await store.grant_lease(10.0)
    clock.advance(10.0)
    with pytest.raises(NotFoundError):
        await store.put("/a", b"", lease_id=lease_id)
    assert await store.get("/a") is None


async def test_revoked_lease_takes_its_keys_along_and_no_others(store: MetadataStore) -> None:
    mine, other = await store.grant_lease(10.0), await store.grant_lease(10.0)
    await store.put("/mine/1", b"", lease_id=mine)
    await store.put("/mine/2", b"", lease_id=mine)
    await store.put("/other", b"", lease_id=other)
    await store.put("/free", b"")
    await store.revoke_lease(mine)
    assert await keys_below(store, "/") == ["/free", "/other"]
    await store.revoke_lease(mine)


async def test_key_belongs_to_the_lease_it_was_last_put_with(store: MetadataStore) -> None:
    first, second = await store.grant_lease(10.0), await store.grant_lease(10.0)
    await store.put("/moved", b"", lease_id=first)
    await store.put("/moved", b"", lease_id=second)
    await store.put("/freed", b"", lease_id=first)
    await store.put("/freed", b"")
    await store.revoke_lease(first)
    assert await keys_below(store, "/") == ["/freed", "/moved"]


async def test_leases_have_ids_of_their_own(store: MetadataStore) -> None:
    first = await store.grant_lease(10.0)
    await store.revoke_lease(first)
    assert len({first, await store.grant_lease(10.0), await store.grant_lease(10.0), 0}) == 4


@pytest.mark.parametrize("ttl_s", [0.0, -1.0, 1e9, float("nan")])
async def test_impossible_lease_time_is_refused(store: MetadataStore, ttl_s: float) -> None:
    with pytest.raises(InvalidRequestError):
        await store.grant_lease(ttl_s)


# The end


async def test_closed_store_refuses_calls_and_closes_again_without_harm(store: MetadataStore) -> None:
    await store.close()
    await store.close()
    with pytest.raises(MetadataError):
        await store.put("/a", b"")
    with pytest.raises(MetadataError):
        await store.get("/a")
