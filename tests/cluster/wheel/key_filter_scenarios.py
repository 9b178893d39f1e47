"""Key-Shared consumers that ask for some keys only, by patterns."""

from danube import DanubeClient, SubType
from tests.cluster.wheel.keyed import check_all_came_once, send_keyed
from tests.cluster.wheel.scene import Reader, close, covers, new_producer, new_reader, new_topic, settle


async def spread(
    client: DanubeClient, filters: dict[str, list[str]], keys: list[str], *, taken: int, reliable: bool = True
) -> list[Reader]:
    """Send each key twice, to a consumer for each of the filters; so many of the keys are taken by one of them."""
    topic = new_topic()
    producer = await new_producer(client, topic, reliable=reliable)
    readers = [
        await new_reader(client, topic, "s", name, SubType.KEY_SHARED, key_filters=own) for name, own in filters.items()
    ]
    await settle(readers)
    await send_keyed(producer, [(key, f"{key}#{turn}".encode()) for turn in range(2) for key in keys])
    await settle(readers, 2 * taken)
    await close(readers)
    return readers


def twice(*keys: str) -> list[bytes]:
    return sorted(f"{key}#{turn}".encode() for turn in range(2) for key in keys)


async def by_globs(client: DanubeClient, *, reliable: bool) -> None:
    filters = {"users": ["user-*"], "orders": ["order-?"]}
    keys = ["user-1", "order-1", "user-22", "order-22", "other"]
    users, orders = await spread(client, filters, keys, taken=3, reliable=reliable)
    assert sorted(users.got) == twice("user-1", "user-22")
    assert sorted(orders.got) == twice("order-1")


@covers("key_shared_filtering.glob_reliable")
async def key_shared_filters_keep_keys_apart_and_pass_over_what_nobody_takes(client: DanubeClient) -> None:
    await by_globs(client, reliable=True)


@covers("key_shared_filtering.glob_non_reliable")
async def key_shared_filters_keep_keys_apart_without_reliability(client: DanubeClient) -> None:
    await by_globs(client, reliable=False)


@covers("key_shared_filtering.mixed_with_unfiltered")
async def key_that_matches_no_filter_goes_to_the_consumer_without_one(client: DanubeClient) -> None:
    users = [f"user-{number}" for number in range(20)]
    others = [f"other-{number}" for number in range(20)]
    filtered, unfiltered = await spread(client, {"users": ["user-*"], "all": []}, users + others, taken=40)
    check_all_came_once([filtered, unfiltered], [(key, payload) for key in users + others for payload in twice(key)])
    assert filtered.got
    assert set(filtered.got) <= set(twice(*users))
    assert set(unfiltered.got) >= set(twice(*others))


@covers("key_shared_filtering.multiple_patterns")
async def consumer_takes_what_any_of_its_patterns_matches(client: DanubeClient) -> None:
    filters = {"money": ["order-*", "bill-?", "refund"], "rest": ["user-*", "visit-*"]}
    keys = ["order-17", "bill-7", "bill-17", "refund", "refund-1", "user-1", "visit-1"]
    money, rest = await spread(client, filters, keys, taken=5)
    assert sorted(money.got) == twice("order-17", "bill-7", "refund")
    assert sorted(rest.got) == twice("user-1", "visit-1")
