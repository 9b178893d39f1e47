"""Dead letters whose topic another broker serves."""

from danube.model.topic import TopicName
from tests.unit.broker.network import Network
from tests.unit.broker.test_dead_letters import LETTERS, failing, reading

ORDERS = TopicName("default", "orders")


async def test_a_dead_letter_reaches_its_topic_on_another_broker_and_follows_it(network: Network) -> None:
    first, second = await network.start("a"), await network.start("b")
    await network.put(ORDERS, first)
    await network.put(LETTERS, second)
    letters = await second.client.receive(await second.client.subscribe(LETTERS, "mourners"))
    inbox = await reading(first, ORDERS)
    producer = await first.client.create_producer(ORDERS)
    for payload in (b"one", b"two"):
        await first.client.send(ORDERS, producer, payload)
        await failing(first, ORDERS, inbox)
        letter = await letters.next()
        assert letter.payload == payload
        assert letter.attributes["x-original-topic"] == str(ORDERS)
    inbox.close()
    letters.close()
