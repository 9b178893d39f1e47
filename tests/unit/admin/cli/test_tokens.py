"""`danube-admin security tokens create` and `validate`, which need no broker."""

from pathlib import Path

import pytest

from danube.admin.cli.commands.tokens import lifetime_s
from danube.model.errors import InvalidRequestError
from tests.unit.admin.cli.conftest import Admin

SECRET = "planted-secret-of-tokens-0123456789abcdef"
CREATE, VALIDATE = ("security", "tokens", "create"), ("security", "tokens", "validate")


@pytest.fixture
def secret_file(tmp_path: Path) -> str:
    file = tmp_path / "secret"
    file.write_text(f"key-1:{SECRET}\nold:{SECRET[::-1]}\n")
    return str(file)


def test_a_token_is_all_that_is_printed_and_it_counts(admin: Admin, secret_file: str) -> None:
    made = admin(*CREATE, "--subject", "shop", "--scope", "operator", "--ttl", "2d", "--secret-file", secret_file)
    assert (made.code, made.out.count("\n"), made.out.count("."), made.error) == (0, 1, 2, "")
    shown = admin(*VALIDATE, "--secret-file", secret_file, environment={"DANUBE_ADMIN_TOKEN": made.out.strip()})
    assert (shown.code, shown.error) == (0, "")
    assert "Subject:   shop" in shown.out
    assert "Scope:     operator" in shown.out
    assert "Remaining: 2 d" in shown.out
    assert SECRET not in made.out + shown.out


@pytest.mark.parametrize("token", ["", "garbage", "a.b.c", "x" * 9_000])
def test_a_token_that_does_not_count_is_refused_without_a_word_of_secrets(token: str, admin: Admin) -> None:
    ended = admin(*VALIDATE, stdin=token, environment={"DANUBE_JWT_SECRET_KEY": SECRET})
    assert (ended.code, ended.out, ended.error.count("\n")) == (2, "", 1)
    assert SECRET not in ended.error
    assert not token or token not in ended.error


def test_a_token_of_another_secret_is_refused(admin: Admin, secret_file: str) -> None:
    made = admin(*CREATE, "--subject", "shop", environment={"DANUBE_JWT_SECRET_KEY": "another" * 8})
    ended = admin(*VALIDATE, "--secret-file", secret_file, stdin=made.out)
    assert (ended.code, ended.out) == (2, "")
    assert "not signed by a key" in ended.error


def test_a_secret_and_a_token_on_the_command_line_are_taken_as_in_the_original_with_a_warning(admin: Admin) -> None:
    made = admin(*CREATE, "--subject", "shop", "--secret-key", SECRET)
    assert (made.code, made.out.count("\n")) == (0, 1)
    assert "use --secret-file" in made.error
    shown = admin(*VALIDATE, "--secret-key", SECRET, "--token", made.out.strip())
    assert (shown.code, SECRET in made.error + shown.error) == (0, False)


def test_without_a_secret_the_way_to_give_one_is_told(admin: Admin) -> None:
    ended = admin(*CREATE, "--subject", "shop")
    assert ended.code == 2
    assert "--secret-file" in ended.error


@pytest.mark.parametrize(("ttl", "seconds"), [("12h", 43_200), ("30d", 2_592_000), ("90", 90), ("2w", 1_209_600)])
def test_a_time_to_live_is_written_as_in_the_original(ttl: str, seconds: int) -> None:
    assert lifetime_s(ttl) == seconds


@pytest.mark.parametrize("ttl", ["", "0", "-1", "0.5s", "9999999999d", "h"])
def test_another_time_to_live_is_refused(ttl: str) -> None:
    with pytest.raises(InvalidRequestError, match=r"no time to live|no duration|no whole"):
        lifetime_s(ttl)
