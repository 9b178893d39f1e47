"""Authentication of random and of damaged proofs: none is let in, and nothing but a refusal comes out."""

import json
import random
from base64 import urlsafe_b64decode, urlsafe_b64encode

from danube.model.errors import UnauthenticatedError
from danube.model.security.principal import PrincipalKind, PrincipalName
from danube.security.authentication import Authenticator, Proof
from danube.security.cluster_token import ClusterSecret
from danube.security.tokens import TokenClaims, TokenRules, issue, secret_key

SECRET, NOW_S = b"a secret of thirty-two bytes or more", 1_800_000_000.0
CLUSTER = ClusterSecret(b"another secret of thirty-two bytes")
INPUTS = 1_000
"""20,000 by hand, before a release."""


def test_no_damaged_proof_is_let_in_and_every_one_is_refused_in_words() -> None:
    check_inputs(INPUTS)


def check_inputs(count: int) -> None:
    chance = random.Random(4711)
    rules = TokenRules(keys=(secret_key(SECRET),), issuer="danube-auth")
    claims = TokenClaims(
        principal=PrincipalName(PrincipalKind.USER, "ada"), expires_s=NOW_S + 600, issuer="danube-auth"
    )
    whole = [f"Bearer {issue(claims, SECRET)}", CLUSTER.issue(7, NOW_S)]
    authenticator = Authenticator(rules, cluster_secret=CLUSTER)
    for number in range(count):
        given = damaged(chance, chance.choice(whole))
        proof = Proof(host=f"host-{number}", authorization=given)
        try:
            authenticator.principal_of(proof, NOW_S)
        except UnauthenticatedError as error:
            assert len(str(error)) < 300
        else:
            assert any(same(given, one) for one in whole), f"input {number} was let in: {given!r}"


def damaged(chance: random.Random, header: str) -> str:
    """The header with something changed, or something else."""
    kind, _, token = header.partition(" ")
    head, body, sign = token.split(".")
    at = chance.randrange(len(header))
    some = "".join(chr(chance.randrange(1, 0x2FF)) for _ in range(chance.randrange(40)))
    forged = {"alg": chance.choice(["none", "HS256", "RS256", "hs256", some, 1, None]), "kid": some, "crit": [some]}
    claimed: dict[str, object] = {
        "iss": "danube-auth",
        "sub": "root",
        "exp": chance.choice([NOW_S * 2, -1, some, None, {}, 1e308]),
    }
    return chance.choice(
        [
            header[:at] + some + header[at:],
            header[:at] + header[at + 1 :],
            header[:at] + chr(ord(header[at]) ^ 1) + header[at + 1 :],
            header[:at],
            f"{kind} {_part(forged)}.{body}.{sign}",
            f"{kind} {head}.{_part(claimed)}.{sign}",
            f"{kind} {_part(forged)}.{_part(claimed)}.",
            f"{kind} {'[' * chance.randrange(5_000)}.{body}.{sign}",
            f"{kind} {token}{'x' * chance.randrange(1, 20_000)}",
            some,
        ]
    )


def same(given: str, whole: str) -> bool:
    """Whether a text says the same bytes: letters may differ in bits that no byte has, and white space around it."""
    try:
        parts, wanted = given.rsplit(maxsplit=1)[-1].split("."), whole.rsplit(maxsplit=1)[-1].split(".")
        return [_bytes(part) for part in parts] == [_bytes(part) for part in wanted]
    except (ValueError, IndexError):
        return False


def _bytes(part: str) -> bytes:
    return urlsafe_b64decode(part + "=" * (-len(part) % 4))


def _part(value: object) -> str:
    return urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()
