"""What is refused before the server starts: reading for strangers, writing without a token, tokens that are none."""

from functools import partial
from pathlib import Path

import pytest

from danube.admin.access import AccessLevel
from danube.admin.web.protection.exposure import Exposure, WebToken, check_exposure, parse_tokens, warnings_of
from danube.model.errors import SettingsError
from tests.unit.admin.web.site import TOKEN

TOKENS = (WebToken("ada", TOKEN),)


@pytest.mark.parametrize("address", ["127.0.0.1:8080", "127.8.9.1:0", "[::1]:8080", "localhost:8080"])
def test_a_server_that_reads_on_loopback_needs_no_token(address: str) -> None:
    check_exposure(Exposure(listen_addr=address), AccessLevel.READ)


@pytest.mark.parametrize("address", ["0.0.0.0:8080", "[::]:8080", "10.1.2.3:80", "broker.example:80"])
def test_a_server_that_others_reach_is_refused_without_a_token(address: str) -> None:
    with pytest.raises(SettingsError, match="can be reached from other machines and there is no token"):
        check_exposure(Exposure(listen_addr=address), AccessLevel.READ)
    check_exposure(Exposure(listen_addr=address, tokens=TOKENS, is_plain_meant=True), AccessLevel.DESTROY)


def test_a_server_that_others_reach_has_tls_unless_told_otherwise() -> None:
    others = partial(Exposure, listen_addr="0.0.0.0:8080", tokens=TOKENS)
    for plain in (others(), others(public_url="http://admin.example")):
        with pytest.raises(SettingsError, match="has no TLS"):
            check_exposure(plain, AccessLevel.READ)
    pem = Path("pem")
    safe = others(certificate=pem, key=pem), others(public_url="https://admin.example"), others(is_plain_meant=True)
    for exposure in safe:
        check_exposure(exposure, AccessLevel.READ)
    for half in (others(certificate=pem), others(key=pem), Exposure(key=pem)):
        with pytest.raises(SettingsError, match="belong together"):
            check_exposure(half, AccessLevel.READ)


def test_tokens_are_of_the_server_or_of_the_cluster() -> None:
    with pytest.raises(SettingsError, match="give one"):
        check_exposure(Exposure(tokens=TOKENS, passes_tokens=True), AccessLevel.READ)


def test_a_server_behind_a_proxy_is_refused_without_a_token() -> None:
    with pytest.raises(SettingsError, match="there is no token"):
        check_exposure(Exposure(public_url="https://admin.example"), AccessLevel.READ)


@pytest.mark.parametrize("level", [AccessLevel.WRITE, AccessLevel.DESTROY])
def test_a_server_that_changes_something_is_refused_without_a_token(level: AccessLevel) -> None:
    with pytest.raises(SettingsError, match=f"--access {level} lets whoever reaches the port change the cluster"):
        check_exposure(Exposure(), level)
    check_exposure(Exposure(tokens=TOKENS), level)


@pytest.mark.parametrize("url", ["admin.example", "ftp://admin.example", "https://", "https://a.example/path"])
def test_a_public_url_is_scheme_and_host(url: str) -> None:
    with pytest.raises(SettingsError, match="--public-url"):
        check_exposure(Exposure(public_url=url, tokens=TOKENS), AccessLevel.READ)


def test_without_tls_on_the_way_there_is_a_warning() -> None:
    (warning,) = warnings_of(Exposure(listen_addr="0.0.0.0:80", tokens=TOKENS))
    assert "without TLS" in warning
    assert warnings_of(Exposure()) == ()
    assert warnings_of(Exposure(listen_addr="0.0.0.0:80", public_url="https://admin.example", tokens=TOKENS)) == ()


def test_a_file_of_tokens_has_labels_comments_and_a_token_alone() -> None:
    tokens = parse_tokens(f"# who may\nada {TOKEN}\n\n{TOKEN}2\n", source="tokens")
    assert [(token.label, token.secret) for token in tokens] == [("ada", TOKEN), ("web", f"{TOKEN}2")]
    assert Exposure(tokens=tokens).who(TOKEN) == "ada"
    assert Exposure(tokens=tokens).who(f"{TOKEN}3") is None


@pytest.mark.parametrize(
    "text",
    [
        "",
        "# nothing\n",
        "short",
        f"a b {TOKEN}",
        f"ada {TOKEN}\nada {TOKEN}2",
        f"ada {TOKEN}\nbob {TOKEN}",
        f"{'x' * 61} {TOKEN}",
        f"\x1b[31m {TOKEN}",
        "x" * 5_000,
    ],
)
def test_a_file_of_tokens_that_is_none_is_refused_without_showing_one(text: str) -> None:
    with pytest.raises(SettingsError) as refused:
        parse_tokens(text, source="tokens")
    assert TOKEN not in str(refused.value)
    assert str(refused.value).startswith("tokens")


def test_too_many_tokens_are_refused() -> None:
    with pytest.raises(SettingsError, match="101 tokens and 100 are taken"):
        parse_tokens("\n".join(f"label{number} {TOKEN}{number}" for number in range(101)), source="tokens")


def test_a_token_is_in_no_representation() -> None:
    assert TOKEN not in repr(Exposure(tokens=TOKENS))
