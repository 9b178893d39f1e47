"""Logins and failed ones are bounded, and end."""

from danube.admin.web.protection.sessions import FailedLogins, Sessions
from danube.model.limits.faces import (
    WEB_LOGIN_ADDRESSES_MAX,
    WEB_LOGIN_FAILURES_MAX,
    WEB_LOGIN_WINDOW_S,
    WEB_SESSION_IDLE_S,
    WEB_SESSION_TTL_S,
    WEB_SESSIONS_MAX,
)


def test_a_login_is_found_by_its_id_and_has_secrets_of_its_own() -> None:
    sessions = Sessions()
    ids = [sessions.open("ada", 0.0), sessions.open("ada", 0.0)]
    logins = [sessions.find(each, 1.0) for each in ids]
    assert [login.who for login in logins if login] == ["ada", "ada"]
    assert len({*ids, *(login.csrf for login in logins if login)}) == 4
    assert sessions.find("another", 1.0) is None


def test_a_login_that_is_used_lives_on_but_not_for_ever() -> None:
    sessions, now_s = Sessions(), 0.0
    session_id = sessions.open("ada", now_s)
    while now_s + WEB_SESSION_IDLE_S / 2 < WEB_SESSION_TTL_S:
        now_s += WEB_SESSION_IDLE_S / 2
        assert sessions.find(session_id, now_s) is not None
    assert sessions.find(session_id, WEB_SESSION_TTL_S) is None


def test_a_login_that_is_not_used_ends() -> None:
    sessions = Sessions()
    session_id = sessions.open("ada", 0.0)
    assert sessions.find(session_id, WEB_SESSION_IDLE_S) is None
    assert sessions.find(session_id, 1.0) is None


def test_with_too_many_logins_the_first_one_goes() -> None:
    sessions = Sessions()
    ids = [sessions.open("ada", 0.0) for _ in range(WEB_SESSIONS_MAX + 1)]
    assert [sessions.find(each, 0.0) is None for each in (ids[0], ids[1], ids[-1])] == [True, False, False]


def test_an_address_waits_after_its_failures_until_the_first_of_them_is_old() -> None:
    failures = FailedLogins()
    for second in range(WEB_LOGIN_FAILURES_MAX):
        assert failures.wait_s("a", float(second)) == 0
        failures.add("a", float(second))
    assert failures.wait_s("a", 5.0) == WEB_LOGIN_WINDOW_S - 5.0
    assert failures.wait_s("b", 5.0) == 0
    assert failures.wait_s("a", WEB_LOGIN_WINDOW_S) == 0
    failures.add("a", WEB_LOGIN_WINDOW_S)
    assert failures.wait_s("a", WEB_LOGIN_WINDOW_S) == 1.0


def test_the_addresses_that_failed_are_bounded() -> None:
    failures = FailedLogins()
    for number in range(WEB_LOGIN_ADDRESSES_MAX + 1):
        for _ in range(WEB_LOGIN_FAILURES_MAX):
            failures.add(str(number), 0.0)
    assert failures.wait_s("0", 1.0) == 0
    assert failures.wait_s("1", 1.0) > 0
