"""Revocation rules: which proofs are void before their time. Pure."""

from collections.abc import Iterable

from danube.model.security.credentials import Revocation
from danube.model.security.principal import Principal


class Revocations:
    """Revocations as they stand, indexed for one look-up a check."""

    def __init__(self, revocations: Iterable[Revocation] = ()) -> None:
        self._tokens: dict[str, Revocation] = {}
        self._subjects: dict[str, Revocation] = {}
        for revocation in revocations:
            if revocation.token_id:
                self._tokens[revocation.token_id] = revocation
            elif self._is_wider(revocation):
                self._subjects[revocation.subject] = revocation

    def revoked(self, principal: Principal) -> Revocation | None:
        """The revocation that voids a principal's token; None where there is none.

        A token without `iat` counts as issued before any moment.
        """
        if principal.token_id and (found := self._tokens.get(principal.token_id)):
            return found
        named = (self._subjects.get(name) for name in (principal.id.name, principal.subject))
        return next((one for one in named if one and _is_before(principal, one)), None)

    def _is_wider(self, revocation: Revocation) -> bool:
        known = self._subjects.get(revocation.subject)
        if known is None or not revocation.issued_before_ms:
            return True
        return 0 < known.issued_before_ms < revocation.issued_before_ms


def _is_before(principal: Principal, revocation: Revocation) -> bool:
    return not revocation.issued_before_ms or principal.issued_s * 1_000 < revocation.issued_before_ms
