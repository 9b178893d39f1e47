"""Redaction: what has the form of a secret goes, and nothing else."""

from pathlib import Path

import pytest

from danube.security.redaction import REDACTED, redacted
from tests.plugins.secrets import found_below, found_in

SECRET = "s3cr3t-Value"


@pytest.mark.parametrize(
    "text",
    [
        f"token={SECRET} given",
        f"authorization: Bearer {SECRET}",
        f"Authorization: Basic {SECRET}",
        f'{{"password": "{SECRET}"}}',
        f"password: '{SECRET} {SECRET}'",
        f"api_key = {SECRET}, and more",
        f"cannot open http://user:{SECRET}@host/path",
        f"-----BEGIN EC PRIVATE KEY-----\n{SECRET}\n-----END EC PRIVATE KEY-----",
        f"-----BEGIN PRIVATE KEY-----\n{SECRET}",
        f"a token eyJhbGciOiJIUzI1NiJ9.{SECRET}.{SECRET} in the middle",
        f"the key dk_0123456789abcdef_{'0' * 64}",
    ],
)
def test_a_secret_is_replaced_wherever_it_stands(text: str) -> None:
    assert SECRET not in redacted(text)
    assert "0" * 64 not in redacted(text)
    assert REDACTED in redacted(text)


@pytest.mark.parametrize(
    "text",
    [
        "topic /default/token opened",
        "the token of broker 7 has expired",
        "subscription password is blocked",
        "basic checks passed: 3 of 3",
        "http://host:8080/path@home",
    ],
)
def test_words_that_only_look_like_secrets_stay(text: str) -> None:
    assert redacted(text) == text


def test_a_run_that_logged_a_secret_says_where(tmp_path: Path) -> None:
    (tmp_path / "broker.log").write_text("refused: eyJhbGciOi.eyJzdWIiOi.c2lnbmF0dXJl")
    (tmp_path / "tokens.secret").write_text("dk_" + "0" * 40)
    assert [line.partition(": ")[0] for line in found_below(tmp_path)] == ["broker.log"]
    (tmp_path / "broker.log").unlink()  # the search of this run would find it, too
    assert list(found_in("the token of broker 7 has expired", "log")) == []
