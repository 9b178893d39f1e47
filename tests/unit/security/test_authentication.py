"""Authentication: proofs, what is remembered of them, and bounded work for wrong ones."""

from dataclasses import dataclass, field

import pytest

from danube.model.errors import UnauthenticatedError
from danube.model.limits.security import FAILED_ATTEMPTS_MAX, FAILED_ATTEMPTS_S, TOKEN_CACHE_MAX
from danube.model.security.credentials import ApiKey, Revocation
from danube.model.security.principal import Principal, PrincipalKind, PrincipalName
from danube.security.api_keys import check_key, key_id_of, new_key
from danube.security.authentication import Authenticator, Proof
from danube.security.revocations import Revocations
from danube.security.tokens import TokenRules

ORDERS = PrincipalName(PrincipalKind.SERVICE_ACCOUNT, "orders")


@dataclass(frozen=True, slots=True, kw_only=True)
class CountedRules(TokenRules):
    """Rules that take every token but `bad`, and count how often they are asked."""

    asked: list[str] = field(default_factory=list)

    def verify(self, token: str, now_s: float) -> Principal:
        self.asked.append(token)
        if token == "bad":
            raise UnauthenticatedError("bad")
        return Principal(id=ORDERS, token_id=token, issued_s=now_s, expires_s=100.0)


@pytest.fixture
def rules() -> CountedRules:
    return CountedRules(keys=(), issuer="")


def bearer(token: str, host: str = "10.0.0.1") -> Proof:
    return Proof(host=host, authorization=f"Bearer {token}")


def test_a_token_is_verified_once_until_it_expires(rules: CountedRules) -> None:
    authenticator = Authenticator(rules)
    for now_s in (1.0, 2.0, 99.0):
        assert authenticator.principal_of(bearer("good"), now_s).id == ORDERS
    assert rules.asked == ["good"]
    with pytest.raises(UnauthenticatedError, match="expired"):
        authenticator.principal_of(bearer("good"), 100.0)


def test_new_keys_void_what_was_verified(rules: CountedRules) -> None:
    authenticator = Authenticator(rules)
    authenticator.principal_of(bearer("good"), 1.0)
    authenticator.use(rules)
    authenticator.principal_of(bearer("good"), 1.0)
    assert rules.asked == ["good", "good"]


def test_a_revoked_token_is_refused_though_it_was_verified(rules: CountedRules) -> None:
    authenticator = Authenticator(rules)
    authenticator.principal_of(bearer("good"), 1.0)
    authenticator.revoke(Revocations([Revocation(id="r", token_id="good", reason="lost laptop")]))
    with pytest.raises(UnauthenticatedError, match="lost laptop"):
        authenticator.principal_of(bearer("good"), 1.0)


def test_wrong_tokens_of_one_address_are_no_more_checked_and_others_go_on(rules: CountedRules) -> None:
    authenticator = Authenticator(rules)
    authenticator.principal_of(bearer("known"), 0.5)
    for _ in range(10_000):
        with pytest.raises(UnauthenticatedError):
            authenticator.principal_of(bearer("bad"), 1.0)
    assert rules.asked.count("bad") == FAILED_ATTEMPTS_MAX
    assert authenticator.principal_of(bearer("known"), 1.0).id == ORDERS
    assert authenticator.principal_of(bearer("good", "10.0.0.2"), 1.0).id == ORDERS
    with pytest.raises(UnauthenticatedError, match="too many"):
        authenticator.principal_of(bearer("new"), 1.0)
    assert authenticator.principal_of(bearer("new"), 1.0 + FAILED_ATTEMPTS_S).id == ORDERS


def test_what_is_remembered_has_a_bound(rules: CountedRules) -> None:
    authenticator = Authenticator(rules)
    for number in range(TOKEN_CACHE_MAX + 1):
        authenticator.principal_of(bearer(str(number)), 1.0)
    authenticator.principal_of(bearer("0"), 1.0)
    assert rules.asked.count("0") == 2


@pytest.mark.parametrize("authorization", ["", "Bearer", "Basic YTpi", "token good"])
def test_another_form_of_the_header_is_refused(rules: CountedRules, authorization: str) -> None:
    with pytest.raises(UnauthenticatedError):
        Authenticator(rules).principal_of(Proof(host="h", authorization=authorization), 1.0)
    assert rules.asked == []


def test_no_proof_is_no_principal(rules: CountedRules) -> None:
    with pytest.raises(UnauthenticatedError, match="credentials are missing"):
        Authenticator(rules).principal_of(Proof(host="h"), 1.0)


def test_a_certificate_names_an_account_and_one_of_the_cluster_a_broker() -> None:
    authenticator = Authenticator(None, broker_names=frozenset({"broker-1"}))
    names = [authenticator.principal_of(Proof(host="h", certificate_name=name), 1.0).id for name in ("app", "broker-1")]
    assert [name.kind for name in names] == [PrincipalKind.SERVICE_ACCOUNT, PrincipalKind.BROKER]
    with pytest.raises(UnauthenticatedError, match="no tokens"):
        authenticator.principal_of(bearer("good"), 1.0)


@pytest.mark.parametrize(
    ("issued_s", "before_s", "void"), [(5.0, 6.0, True), (6.0, 6.0, False), (0.0, 6.0, True), (9.0, 0.0, True)]
)
def test_tokens_of_a_subject_are_revoked_by_when_they_were_issued(issued_s: float, before_s: float, void: bool) -> None:
    revocations = Revocations(
        [
            Revocation(id="wide", subject="orders", issued_before_ms=round(before_s * 1_000)),
            Revocation(id="narrow", subject="orders", issued_before_ms=2_000),
        ]
    )
    assert (revocations.revoked(Principal(id=ORDERS, issued_s=issued_s)) is not None) is void


def test_an_api_key_is_known_by_its_digest_alone() -> None:
    key_id, key, digest = new_key(7, bytes(32))
    record = ApiKey(id=key_id, principal_type=ORDERS.kind, principal_name=ORDERS.name, digest=digest, expires_ms=2_000)
    assert key_id_of(key) == key_id
    assert key.rpartition("_")[2] not in repr(record)
    assert check_key(key, record, 1_000) == record
    with pytest.raises(UnauthenticatedError, match="expired"):
        check_key(key, record, 2_000)
    for wrong, known in ((key[:-1] + "1", record), (key, None), ("dk_x", record)):
        with pytest.raises(UnauthenticatedError, match="no API key of this cluster"):
            check_key(wrong, known, 1_000)
