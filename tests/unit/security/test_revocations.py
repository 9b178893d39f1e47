"""Revocations of a subject: of the claim `sub` of its tokens, and of the principal's name."""

import pytest

from danube.model.security.credentials import Revocation
from danube.model.security.principal import Principal, PrincipalKind, PrincipalName
from danube.security.revocations import Revocations

ADA = Principal(id=PrincipalName(PrincipalKind.USER, "ada"), subject="0f3c-subject", issued_s=100.0)


@pytest.mark.parametrize(("subject", "is_void"), [("ada", True), ("0f3c-subject", True), ("eve", False)])
def test_a_token_is_void_by_its_subject_and_by_the_name_of_its_principal(subject: str, is_void: bool) -> None:
    revocations = Revocations([Revocation(id="r", subject=subject)])
    assert (revocations.revoked(ADA) is not None) is is_void


def test_tokens_issued_after_the_moment_count() -> None:
    revocations = Revocations([Revocation(id="r", subject="0f3c-subject", issued_before_ms=100_000)])
    assert revocations.revoked(ADA) is None
