import pytest

from danube.client.address import BrokerAddress
from danube.client.retry import RetryPolicy
from danube.client.session import (
    Abandon,
    Attach,
    Attached,
    Delay,
    DelayEnded,
    Hold,
    Instruction,
    Link,
    Located,
    LookUp,
    Lost,
    NotLocated,
    Opened,
    Refused,
    Session,
    State,
)
from danube.model.errors import (
    BrokerUnreachableError,
    ConsumerNotFoundError,
    NotPermittedError,
    TopicNotFoundError,
    UnavailableError,
)
from danube.runtime.rng import Rng

SERVICE = "http://service:6650"
OWNER = BrokerAddress("http://owner:6650", "http://owner:6650")
DOWN = BrokerUnreachableError("connection refused")


class FullDelays(Rng):
    def uniform(self, low: float, high: float) -> float:
        return high

    def new_id(self) -> int:
        raise AssertionError


def new_session(*, first: RetryPolicy | None = None, again: RetryPolicy | None = None) -> Session:
    return Session(SERVICE, first=first or RetryPolicy(), again=again or RetryPolicy(), rng=FullDelays())


def attached_session(again: RetryPolicy | None = None) -> Session:
    session = new_session(again=again)
    session.handle(Opened(), 0)
    session.handle(Located(OWNER), 0)
    session.handle(Attached(7), 0)
    return session


def lookups_until_given_up(session: Session, instruction: Instruction) -> tuple[list[str], BrokerUnreachableError]:
    """Let every lookup fail, as time passes; answer where it was asked and the last word."""
    asked, now_s = [], 0.0
    while not isinstance(instruction, Abandon):
        if isinstance(instruction, LookUp):
            asked.append(instruction.url)
            instruction = session.handle(NotLocated(DOWN), now_s)
        else:
            assert isinstance(instruction, Delay)
            now_s += instruction.seconds
            instruction = session.handle(DelayEnded(), now_s)
    assert isinstance(instruction.error, BrokerUnreachableError)
    return asked, instruction.error


def test_a_session_looks_up_attaches_and_holds() -> None:
    session = new_session()
    assert session.handle(Opened(), 0) == LookUp(SERVICE)
    assert session.handle(Located(OWNER), 0) == Attach(OWNER)
    assert session.handle(Attached(7), 0) == Hold(Link(OWNER, 7, 1))
    assert session.state is State.ATTACHED


def test_a_topic_nobody_knows_is_attached_to_where_it_was_asked_for() -> None:
    session = new_session()
    session.handle(Opened(), 0)
    assert session.handle(NotLocated(TopicNotFoundError("new")), 0) == Attach(BrokerAddress(SERVICE, SERVICE))


def test_a_refusal_that_may_pass_is_followed_by_a_delay_and_a_new_lookup() -> None:
    session = new_session()
    session.handle(Opened(), 0)
    session.handle(Located(OWNER), 0)
    assert session.handle(Refused(UnavailableError("redo the lookup")), 0) == Delay(0.2)
    assert session.handle(DelayEnded(), 0.2) == LookUp(SERVICE)


def test_a_refusal_that_lasts_is_given_up_with_its_own_error() -> None:
    session = new_session()
    session.handle(Opened(), 0)
    session.handle(Located(OWNER), 0)
    error = NotPermittedError("no binding")
    assert session.handle(Refused(error), 0) == Abandon(error)
    assert session.state is State.IDLE


def test_an_unreachable_service_is_tried_five_times_more_and_then_named() -> None:
    session = new_session()
    asked, error = lookups_until_given_up(session, session.handle(Opened(), 0))
    assert asked == [SERVICE] * 6
    assert SERVICE in str(error)
    assert "check that it runs there" in str(error)
    assert "6 tries in 3.0 s" in str(error)


def test_a_time_limit_replaces_the_number_of_tries_once_attached() -> None:
    session = attached_session(again=RetryPolicy(total_s=60.0))
    asked, error = lookups_until_given_up(session, session.handle(Lost(DOWN), 0))
    assert len(asked) > 12
    assert "in 60.0 s" in str(error)


def test_service_url_and_known_broker_take_turns_while_one_is_down() -> None:
    session = attached_session()
    asked, _ = lookups_until_given_up(session, session.handle(Lost(DOWN), 10))
    assert asked[:4] == [SERVICE, OWNER.connect_url, SERVICE, OWNER.connect_url]


def test_the_first_loss_is_mended_at_once_and_the_next_ones_ever_later() -> None:
    session = attached_session()
    pauses = []
    for _ in range(3):
        instruction = session.handle(Lost(ConsumerNotFoundError("gone")), 1.0)
        if isinstance(instruction, Delay):
            pauses.append(instruction.seconds)
            instruction = session.handle(DelayEnded(), 1.0)
        assert instruction == LookUp(SERVICE)
        session.handle(Located(OWNER), 1.0)
        session.handle(Attached(7), 1.0)
    assert pauses == [0.2, 0.4]


def test_a_loss_after_a_settled_time_counts_as_the_first() -> None:
    session = attached_session()
    session.handle(Lost(None), 1.0)
    session.handle(Located(OWNER), 1.0)
    session.handle(Attached(7), 1.0)
    assert session.handle(Lost(None), 6.0) == LookUp(SERVICE)


def test_a_loss_that_no_attaching_mends_is_given_up_the_second_time() -> None:
    session = attached_session()
    error = NotPermittedError("receiving needs another role")
    session.handle(Lost(error), 1.0)
    session.handle(Located(OWNER), 1.0)
    session.handle(Attached(7), 1.0)
    assert session.handle(Lost(error), 1.1) == Abandon(error)


def test_each_link_has_a_number_of_its_own() -> None:
    session = attached_session()
    session.handle(Lost(None), 10)
    session.handle(Located(OWNER), 10)
    assert session.handle(Attached(9), 10) == Hold(Link(OWNER, 9, 2))


def test_after_giving_up_it_can_be_opened_again() -> None:
    session = new_session(first=RetryPolicy(retries_max=0))
    session.handle(Opened(), 0)
    assert isinstance(session.handle(NotLocated(DOWN), 0), Abandon)
    assert session.handle(Opened(), 1) == LookUp(SERVICE)


def test_an_event_without_an_arrow_is_a_fault() -> None:
    with pytest.raises(RuntimeError, match="idle knows no arrow"):
        new_session().handle(DelayEnded(), 0)
