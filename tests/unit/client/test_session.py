from itertools import accumulate, pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from danube.client.connection.paths import BrokerAddress
from danube.client.connection.retry import RetryPolicy
from danube.client.connection.session import (
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
    naming_redirect,
)
from danube.model.errors import (
    BrokerUnreachableError,
    ConsumerNotFoundError,
    NotFoundError,
    NotPermittedError,
    TopicDeletedError,
    TopicNotFoundError,
    TopicNotServedError,
    UnavailableError,
)
from danube.model.limits.broker import CLIENT_SETTLED_S
from danube.model.limits.moves import CLIENT_TAKEOVER_PAUSE_S, CLIENT_TAKEOVER_S
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


def attached_producer() -> Session:
    session = Session(SERVICE, first=RetryPolicy(), again=RetryPolicy(), rng=FullDelays(), creates=True)
    session.handle(Opened(), 0)
    assert session.handle(NotLocated(TopicNotFoundError("new")), 0) == Attach(
        BrokerAddress(SERVICE, SERVICE), may_create=True
    )
    session.handle(Attached(7), 0)
    session.handle(Lost(None), 0)
    return session


def test_a_topic_that_was_deleted_under_a_producer_is_not_attached_to_again_until_the_application_asks() -> None:
    session = attached_producer()
    for event in (NotLocated(TopicNotFoundError("gone")), Opened(), NotLocated(TopicNotFoundError("gone"))):
        instruction = session.handle(event, 0)
    assert isinstance(instruction, Abandon)
    assert isinstance(instruction.error, TopicDeletedError)
    session.may_create = True
    session.handle(Opened(), 0)
    instruction = session.handle(NotLocated(TopicNotFoundError("gone")), 0)
    assert instruction == Attach(BrokerAddress(SERVICE, SERVICE), may_create=True)


def test_a_topic_that_is_deleted_between_lookup_and_attaching_is_told_as_deleted() -> None:
    session = attached_producer()
    assert session.handle(Located(OWNER), 0) == Attach(OWNER)
    instruction = session.handle(Refused(TopicNotFoundError("gone")), 0)
    assert isinstance(instruction, Abandon)
    assert isinstance(instruction.error, TopicDeletedError)


def test_a_topic_that_the_original_has_nowhere_for_a_moment_is_looked_up_again() -> None:
    session = attached_producer()
    assert session.handle(NotLocated(NotFoundError("unassigned")), 0) == Delay(0.2)
    assert session.handle(DelayEnded(), 0.2) == LookUp(SERVICE)


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


def test_a_topic_that_no_broker_serves_for_the_moment_is_waited_for_longer_than_a_takeover_takes() -> None:
    session, now_s = new_session(), 0.0
    instruction = session.handle(Opened(), now_s)
    while not isinstance(instruction, Abandon):
        if isinstance(instruction, Delay):
            now_s += instruction.seconds
            instruction = session.handle(DelayEnded(), now_s)
        else:
            instruction = session.handle(NotLocated(TopicNotServedError("it is being opened")), now_s)
    assert isinstance(instruction.error, TopicNotServedError)
    assert now_s == pytest.approx(CLIENT_TAKEOVER_S)


def test_pauses_stay_short_while_a_takeover_may_be_under_way_and_grow_behind_it() -> None:
    session, now_s = attached_session(RetryPolicy(total_s=60)), 0.0
    instruction = session.handle(Lost(DOWN), now_s)
    pauses: list[tuple[float, float]] = []
    while not isinstance(instruction, Abandon):
        if isinstance(instruction, Delay):
            pauses.append((now_s, instruction.seconds))
            now_s += instruction.seconds
            instruction = session.handle(DelayEnded(), now_s)
        else:
            instruction = session.handle(NotLocated(DOWN), now_s)
    assert max(pause_s for at_s, pause_s in pauses if at_s < CLIENT_TAKEOVER_S) == CLIENT_TAKEOVER_PAUSE_S
    assert pauses[-2][1] == RetryPolicy().delay_max_s
    assert now_s == pytest.approx(60)


def test_an_owner_that_is_not_there_is_told_apart_from_the_service_that_named_it() -> None:
    session, now_s = new_session(), 0.0
    instruction = session.handle(Opened(), now_s)
    while not isinstance(instruction, Abandon):
        match instruction:
            case LookUp(url):
                instruction = session.handle(Located(OWNER) if url == SERVICE else NotLocated(DOWN), now_s)
            case Attach():
                instruction = session.handle(Refused(DOWN), now_s)
            case Delay(seconds):
                now_s += seconds
                instruction = session.handle(DelayEnded(), now_s)
    told = str(instruction.error)
    assert told.startswith(
        f"the broker at {SERVICE} answers and sends clients to the advertised address {OWNER.connect_url}"
    )
    assert "--advertised-addr" in told
    assert f"no broker answers at {SERVICE}" not in told


def test_a_service_that_went_down_after_its_answer_is_named_itself() -> None:
    session = attached_session()
    _, error = lookups_until_given_up(session, session.handle(Lost(DOWN), 10))
    assert "advertised" not in str(error)


def test_a_call_to_the_broker_of_a_lookup_names_who_sent_it_there() -> None:
    told = rf"the broker at {SERVICE} answers and sends clients to the advertised address {OWNER.connect_url}, where"
    with pytest.raises(BrokerUnreachableError, match=told), naming_redirect(SERVICE, OWNER):
        raise DOWN
    direct = BrokerAddress.direct(SERVICE)
    with pytest.raises(BrokerUnreachableError, match=r"^connection refused$"), naming_redirect(SERVICE, direct):
        raise DOWN


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


def lose_again_and_again(session: Session, losses: list[tuple[float, bool]]) -> tuple[list[float], bool]:
    """Lose each attachment after so long, and of use or not; answer the pauses, and whether it was given up."""
    pauses: list[float] = []
    now_s = 0.0
    for held_s, was_of_use in losses:
        now_s += held_s
        instruction = session.handle(Lost(DOWN, was_of_use), now_s)
        if isinstance(instruction, Abandon):
            return pauses, True
        pauses.append(instruction.seconds if isinstance(instruction, Delay) else 0.0)
        if isinstance(instruction, Delay):
            now_s += instruction.seconds
            session.handle(DelayEnded(), now_s)
        session.handle(Located(OWNER), now_s)
        session.handle(Attached(7), now_s)
    return pauses, False


def test_losses_soon_after_one_another_are_given_up_when_the_time_is_over() -> None:
    pauses, given_up = lose_again_and_again(attached_session(RetryPolicy(total_s=10.0)), [(1.0, False)] * 100)
    assert given_up
    assert sum(pauses) + len(pauses) >= 10.0
    assert pauses == [pytest.approx(0.2 * number) for number in range(len(pauses))]


@pytest.mark.parametrize("policy", [RetryPolicy(total_s=2.0), RetryPolicy(retries_max=1)])
def test_losses_after_something_was_done_are_never_given_up(policy: RetryPolicy) -> None:
    pauses, given_up = lose_again_and_again(attached_session(policy), [(1.0, True)] * 1_000)
    assert not given_up
    assert pauses == [0.0, *[0.2] * 999]


@given(
    st.lists(st.tuples(st.sampled_from([0.125, 1.0, 2 * CLIENT_SETTLED_S]), st.booleans()), min_size=1, max_size=60),
    st.sampled_from([{"retries_max": 2}, {"total_s": 1.0}, {"total_s": 4.0}]),
)
def test_a_row_of_losses_is_as_long_as_the_policy_says_however_it_began(
    losses: list[tuple[float, bool]], bound: dict[str, Any]
) -> None:
    policy = RetryPolicy(delay_step_s=0.25, **bound)  # and all other times are sums of powers of two too: no rounding
    pauses, given_up = lose_again_and_again(attached_session(policy), losses)
    seen = losses[: len(pauses) + given_up]
    at_s = list(accumulate(held_s + before for (held_s, _), before in zip(seen, [0.0, *pauses], strict=False)))
    ends = [n for n, (held_s, was_of_use) in enumerate(seen) if n == 0 or was_of_use or held_s >= CLIENT_SETTLED_S]
    rows = [range(start, end) for start, end in pairwise([*ends, len(seen)])]
    for row in rows:
        lasted_s = at_s[row[-1]] - at_s[row[0]]
        began = 1 if not pauses[row[0]] else 2
        tried = began + len(row) - 1
        is_over = len(row) > 1 and (
            tried - 1 > policy.retries_max if policy.total_s is None else lasted_s >= policy.total_s
        )
        assert is_over == (given_up and row is rows[-1])


def test_a_loss_that_no_attaching_mends_is_given_up_whatever_was_done_before() -> None:
    session = attached_session()
    error = NotPermittedError("receiving needs another role")
    session.handle(Lost(error, was_of_use=True), 1.0)
    session.handle(Located(OWNER), 1.0)
    session.handle(Attached(7), 1.0)
    assert session.handle(Lost(error, was_of_use=True), 1.1) == Abandon(error)


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
