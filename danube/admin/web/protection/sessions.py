"""Logins, and failed attempts. Both are kept in memory, bounded, and take the time as an argument."""

import hmac
import secrets
from collections import deque
from dataclasses import dataclass, field, replace

from danube.model.limits.faces import (
    WEB_LOGIN_ADDRESSES_MAX,
    WEB_LOGIN_FAILURES_MAX,
    WEB_LOGIN_WINDOW_S,
    WEB_SESSION_IDLE_S,
    WEB_SESSION_TTL_S,
    WEB_SESSIONS_MAX,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Login:
    """One person in one browser."""

    who: str
    csrf: str = field(repr=False)
    """What forms carry, so that no other page can send them."""
    since_s: float
    seen_s: float
    token: str = field(default="", repr=False)
    """Of the cluster, that calls are made with; empty where they are made as the server."""

    def is_over(self, now_s: float) -> bool:
        return now_s - self.since_s >= WEB_SESSION_TTL_S or now_s - self.seen_s >= WEB_SESSION_IDLE_S


class Sessions:
    """The logins there are, by a random id that is in the cookie and is not the token."""

    def __init__(self) -> None:
        self._logins: dict[str, Login] = {}

    def open(self, who: str, now_s: float, token: str = "") -> str:
        """Log a person in; answers the id."""
        while len(self._logins) >= WEB_SESSIONS_MAX:
            del self._logins[next(iter(self._logins))]
        session_id = secrets.token_urlsafe(32)
        csrf = secrets.token_urlsafe(32)
        self._logins[session_id] = Login(who=who, csrf=csrf, since_s=now_s, seen_s=now_s, token=token)
        return session_id

    def find(self, session_id: str, now_s: float) -> Login | None:
        """The login with this id, which counts as seen; None when there is none, or no longer."""
        login = self._logins.get(session_id)
        if login is None:
            return None
        if login.is_over(now_s):
            del self._logins[session_id]
            return None
        self._logins[session_id] = replace(login, seen_s=now_s)
        return login

    def close(self, session_id: str) -> None:
        """Log out; harmless for an id that is not there."""
        self._logins.pop(session_id, None)


class FailedLogins:
    """Counts wrong tokens by address."""

    def __init__(self) -> None:
        self._failures: dict[str, deque[float]] = {}

    def wait_s(self, address: str, now_s: float) -> float:
        """Seconds until attempts from this address count again; 0 when they do."""
        failures = self._failures.get(address)
        if failures is None or len(failures) < WEB_LOGIN_FAILURES_MAX:
            return 0.0
        return max(0.0, failures[0] + WEB_LOGIN_WINDOW_S - now_s)

    def add(self, address: str, now_s: float) -> None:
        if address not in self._failures:
            while len(self._failures) >= WEB_LOGIN_ADDRESSES_MAX:
                del self._failures[next(iter(self._failures))]
            self._failures[address] = deque(maxlen=WEB_LOGIN_FAILURES_MAX)
        self._failures[address].append(now_s)

    def forget(self, address: str) -> None:
        self._failures.pop(address, None)


def same_secret(given: str, expected: str) -> bool:
    """Compare in a time that does not tell where they differ."""
    return hmac.compare_digest(given.encode("utf-8", "surrogateescape"), expected.encode())
