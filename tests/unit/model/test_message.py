from danube.model.message import consumer_id, producer_id
from danube.model.topic import TopicName

TOPIC = TopicName("default", "orders")


def test_ids_are_the_same_in_every_release() -> None:
    assert producer_id(TOPIC, "p") == 6_888_182_600_626_133_765
    assert consumer_id(TOPIC, "s", "c") == 5_869_002_023_439_239_519


def test_ids_fit_a_signed_number_of_64_bits_and_are_never_0() -> None:
    ids = {producer_id(TOPIC, f"p-{number}") for number in range(1_000)}
    assert len(ids) == 1_000
    assert all(0 < each < 2**63 for each in ids)


def test_ids_of_consumers_depend_on_each_part_of_their_name() -> None:
    ids = {
        consumer_id(TOPIC, "s", "c"),
        consumer_id(TOPIC, "s", "d"),
        consumer_id(TOPIC, "t", "c"),
        consumer_id(TopicName("default", "payments"), "s", "c"),
        consumer_id(TOPIC, "sc", ""),
        consumer_id(TOPIC, "", "sc"),
        producer_id(TOPIC, "c"),
    }
    assert len(ids) == 7
