"""Pages of topics of several brokers become one page."""

from danube.admin.grpc_gateway.inspection import merged
from danube.model.calls.admin import DescribeCursor, TopicDescription, TopicsPage, TopicState
from danube.model.ownership import OwnershipState
from danube.model.topic import DispatchStrategy, TopicName


def topic(name: str, broker_id: str = "1", *, reason: str = "") -> TopicDescription:
    state = TopicState(state=OwnershipState.WAITING, reason=reason) if reason else None
    return TopicDescription(
        topic=TopicName("default", name),
        topic_id=1,
        strategy=DispatchStrategy.RELIABLE,
        broker_id=broker_id,
        created_ms=0,
        start_offset=0,
        end_offset=0,
        producers=0,
        messages_in=0,
        bytes_in=0,
        subscription_count=0,
        subscriptions=(),
        state=state,
    )


def page(*topics: TopicDescription, after: str = "") -> TopicsPage:
    cursor = DescribeCursor(topic=TopicName("default", after)) if after else None
    return TopicsPage(topics=topics, next=cursor)


def names(of: TopicsPage) -> list[str]:
    return [each.topic.local for each in of.topics]


def test_topics_of_all_brokers_come_in_the_order_of_their_names() -> None:
    found = merged([page(topic("a"), topic("d")), page(topic("b", "2"), topic("c", "2"))])
    assert (names(found), found.next) == (["a", "b", "c", "d"], None)


def test_a_page_ends_where_the_first_of_its_parts_ends_so_that_none_is_left_out() -> None:
    found = merged([page(topic("a"), topic("c"), after="c"), page(topic("b", "2"), topic("z", "2"))])
    assert names(found) == ["a", "b", "c"]
    assert found.next == DescribeCursor(topic=TopicName("default", "c"))


def test_a_topic_that_nobody_serves_comes_once_and_one_that_somebody_does_wins() -> None:
    waiting = topic("a", reason="its broker does not run")
    found = merged([page(waiting), page(waiting), page(topic("a", "3"))])
    assert [(each.topic.local, each.broker_id) for each in found.topics] == [("a", "3")]
