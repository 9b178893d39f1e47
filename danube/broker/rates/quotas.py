"""Quotas: what namespaces and principals take of this broker, counted in accounts. Pure: the time comes in."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from danube.broker.rates.rates import TokenBucket
from danube.model.errors import LimitReachedError, OverloadedError
from danube.model.limits.broker import PUBLISH_DELAY_S_MAX
from danube.model.limits.security import QUOTA_ACCOUNTS_MAX

_EXEMPT = {"", "system"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Quota:
    """Limits of one account; 0 is none."""

    streams: int = 0
    bytes_in_s: int = 0
    bytes_out_s: int = 0
    stored_bytes: int = 0

    @property
    def is_none(self) -> bool:
        """True if nothing is limited."""
        return not (self.streams or self.bytes_in_s or self.bytes_out_s or self.stored_bytes)


NO_QUOTA = Quota()
_NO_EXCEPTIONS: Mapping[str, Quota] = {}


class Account:
    """Account of one namespace or one principal: what it takes now."""

    def __init__(self, name: str, prefix: str, quota: Quota, now_s: float) -> None:
        """`prefix` is that of the settings that limit it."""
        self.streams = 0
        self._name = name
        self._prefix = prefix
        self._quota = quota
        self.sent = TokenBucket(quota.bytes_in_s, now_s)
        """Bytes that it sends."""
        self.received = TokenBucket(quota.bytes_out_s, now_s)
        """Bytes that are sent to it."""
        self.stored_bytes = 0

    def check_room(self) -> None:
        """Raise LimitReachedError while as much is stored as may be."""
        most = self._quota.stored_bytes
        if most and self.stored_bytes >= most:
            raise LimitReachedError(
                f"{self._name} stores {self.stored_bytes} bytes of {most} ({self._prefix}stored_bytes): read and"
                " acknowledge messages, shorten the retention, or raise the quota"
            )

    def open_stream(self) -> None:
        """Count one stream. Raises LimitReachedError."""
        most = self._quota.streams
        if most and self.streams >= most:
            raise LimitReachedError(
                f"{self._name} has {self.streams} streams open, the most it may ({self._prefix}streams): close some, or"
                " raise the quota"
            )
        self.streams += 1

    def overloaded(self) -> OverloadedError:
        """The error where it would wait too long."""
        return OverloadedError(
            f"{self._name} sends more than {self._quota.bytes_in_s} bytes a second ({self._prefix}bytes_in_s): send"
            " less at a time, or raise the quota"
        )


class Quotas:
    """The accounts of one broker."""

    def __init__(
        self, namespace: Quota = NO_QUOTA, principal: Quota = NO_QUOTA, exceptions: Mapping[str, Quota] = _NO_EXCEPTIONS
    ) -> None:
        """`exceptions` are quotas of single namespaces and principals, by name."""
        self._namespace = namespace
        self._principal = principal
        self._exceptions = exceptions
        self._accounts: dict[str, Account] = {}
        self.is_on = not all(quota.is_none for quota in (namespace, principal, *exceptions.values()))

    def accounts(self, principal: str, namespaces: Iterable[str], now_s: float) -> list[Account]:
        """Accounts of a call: of its namespaces, and of its principal, which is empty for one without quota."""
        found: list[Account] = []
        for name in dict.fromkeys(namespaces):
            quota = self._exceptions.get(name, self._namespace)
            if name not in _EXEMPT and not quota.is_none:
                found.append(self._account(f"namespace {name}", "quotas.namespace_", quota, now_s))
        quota = self._exceptions.get(principal, self._principal)
        if principal and not quota.is_none:
            found.append(self._account(principal, "quotas.principal_", quota, now_s))
        return found

    def weigh(self, stored: Mapping[str, int], now_s: float) -> None:
        """Note how many bytes each namespace stores."""
        if not (self._namespace.stored_bytes or self._exceptions):
            return
        for account in self._accounts.values():
            account.stored_bytes = 0
        for name, size in stored.items():
            for account in self.accounts("", [name], now_s):
                account.stored_bytes = size

    def _account(self, name: str, prefix: str, quota: Quota, now_s: float) -> Account:
        found = self._accounts.get(name)
        if found is None:
            if len(self._accounts) >= QUOTA_ACCOUNTS_MAX:
                self._accounts = {key: one for key, one in self._accounts.items() if one.streams}
            found = self._accounts[name] = Account(name, prefix, quota, now_s)
        return found


def delay_of(accounts: Sequence[Account], size: int, now_s: float, wait_s_max: float = PUBLISH_DELAY_S_MAX) -> float:
    """Seconds for which something of this size has to wait; it counts from now on.

    Raises OverloadedError where that is longer than `wait_s_max`, and LimitReachedError where nothing more is stored.
    """
    wait_s = 0.0
    for account in accounts:
        account.check_room()
        wait_s = max(wait_s, account.sent.wait_s(now_s))
        if wait_s > wait_s_max:
            raise account.overloaded()
    for account in accounts:
        account.sent.use(size, now_s)
    return wait_s
