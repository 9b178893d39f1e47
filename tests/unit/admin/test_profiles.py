"""Contexts, and which cluster a face speaks to."""

import stat
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from danube.admin.access import AccessLevel, ApprovalMode, Guard
from danube.admin.profiles import (
    TargetFlags,
    checked_endpoint,
    contexts_file,
    list_contexts,
    read_contexts,
    remove_context,
    resolve_target,
    set_context,
    show_context,
    use_context,
)
from danube.admin.target import Colour, Target
from danube.model.errors import NotFoundError, SettingsError
from danube.rpc.address import is_loopback

PROD = "https://danube.example:50051"
TOKEN = "hunter2-token"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "danube" / "contexts.yaml"


def resolved(file: Path, flags: TargetFlags | None = None, **variables: str) -> Target:
    environ = {"DANUBE_ADMIN_CONFIG": str(file)}
    environ.update({f"DANUBE_ADMIN_{name}": value for name, value in variables.items()})
    return resolve_target(flags or TargetFlags(), environ)


# Where the file is


def test_the_file_is_found_by_flag_variable_and_the_users_folders(tmp_path: Path) -> None:
    named = tmp_path / "mine.yaml"
    environ = {"HOME": "/people/ada", "XDG_CONFIG_HOME": "/people/ada/settings", "DANUBE_ADMIN_CONFIG": "/named.yaml"}
    assert contexts_file(named, environ) == named
    assert contexts_file(None, environ) == Path("/named.yaml")
    del environ["DANUBE_ADMIN_CONFIG"]
    assert contexts_file(None, environ) == Path("/people/ada/settings/danube/contexts.yaml")
    del environ["XDG_CONFIG_HOME"]
    assert contexts_file(None, environ) == Path("/people/ada/.config/danube/contexts.yaml")


def test_a_user_without_a_home_folder_is_told_to_name_an_endpoint_and_needs_no_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def no_home() -> None:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr("pathlib.Path.home", no_home)
    with pytest.raises(SettingsError, match="no home folder: give --endpoint or --config-file, or set HOME or"):
        resolve_target(TargetFlags(), {})
    assert resolve_target(TargetFlags(endpoint=PROD), {}).endpoint == PROD


# Keeping contexts


def test_the_first_context_is_the_current_one_until_another_is_used(file: Path) -> None:
    set_context(file, "local", {"endpoint": "127.0.0.1:50051"})
    set_context(file, "prod", {"endpoint": PROD, "colour": "red"})
    assert [(name, is_current) for name, _, is_current in list_contexts(file)] == [("local", True), ("prod", False)]
    use_context(file, "prod")
    assert show_context(file) == {"name": "prod", "endpoint": PROD, **shown_defaults(), "colour": "red"}


def shown_defaults() -> dict[str, str]:
    return {"tls": "False", "yes": "False"}


def test_a_change_keeps_the_other_fields_and_none_takes_one_away(file: Path) -> None:
    set_context(file, "prod", {"endpoint": PROD, "access": "read", "domain": "inner"})
    set_context(file, "prod", {"access": AccessLevel.WRITE, "domain": None})
    context = read_contexts(file).get("prod")
    assert (context.endpoint, context.access, context.domain) == (PROD, AccessLevel.WRITE, None)


def test_a_context_that_is_removed_is_no_longer_the_current_one(file: Path) -> None:
    set_context(file, "local", {"endpoint": "127.0.0.1:50051"})
    remove_context(file, "local")
    assert list_contexts(file) == []
    with pytest.raises(NotFoundError, match="contexts use"):
        show_context(file)


@pytest.mark.parametrize("act", [use_context, remove_context, show_context])
def test_an_unknown_context_is_not_found_and_the_known_ones_are_named(file: Path, act: object) -> None:
    set_context(file, "local", {"endpoint": "127.0.0.1:50051"})
    with pytest.raises(NotFoundError, match="known are: local"):
        act(file, "prod")  # type: ignore[operator]


@pytest.mark.parametrize(
    ("name", "changes", "problem"),
    [
        ("a b", {"endpoint": PROD}, "cannot name a context"),
        ("../up", {"endpoint": PROD}, "cannot name a context"),
        ("prod", {}, "endpoint"),
        ("prod", {"endpoint": "ftp://x:1"}, "no endpoint"),
        ("prod", {"endpoint": PROD, "access": "all"}, "access"),
        ("prod", {"endpoint": PROD, "color": "red"}, "color"),
    ],
)
def test_what_is_no_context_is_refused_and_nothing_is_written(
    file: Path, name: str, changes: dict[str, str], problem: str
) -> None:
    with pytest.raises(SettingsError, match=problem):
        set_context(file, name, changes)
    assert not file.exists()


def test_the_file_is_for_its_owner_alone(file: Path) -> None:
    set_context(file, "local", {"endpoint": "127.0.0.1:50051"})
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700


def test_a_token_is_kept_and_never_shown(file: Path) -> None:
    context = set_context(file, "prod", {"endpoint": PROD, "token": TOKEN})
    set_context(file, "prod", {"access": "read"})
    assert TOKEN not in str(show_context(file)) + repr(context) + repr(list_contexts(file))
    assert resolved(file).token == TOKEN
    assert TOKEN not in repr(resolved(file))


def test_a_file_with_a_token_that_others_can_read_is_refused(file: Path) -> None:
    set_context(file, "prod", {"endpoint": PROD, "token": TOKEN})
    file.chmod(0o640)
    with pytest.raises(SettingsError, match="chmod 600") as caught:
        read_contexts(file)
    assert TOKEN not in str(caught.value)


def test_a_file_without_a_token_may_be_read_by_others(file: Path) -> None:
    set_context(file, "prod", {"endpoint": PROD, "token_env": "PROD_TOKEN"})
    file.chmod(0o644)
    assert read_contexts(file).current == "prod"


@pytest.mark.parametrize("content", ["[]", "contexts: {a: 1}", "unknown: 1", "{", "contexts:\n  a: {endpoint: 5}"])
def test_a_file_that_is_no_file_of_contexts_is_refused_with_its_name(file: Path, content: str) -> None:
    file.parent.mkdir()
    file.write_text(content)
    with pytest.raises(SettingsError, match=r"contexts\.yaml"):
        resolved(file)


# Endpoints


@pytest.mark.parametrize(
    ("text", "tls", "endpoint"),
    [
        ("localhost:50051", False, "http://localhost:50051"),
        ("http://localhost:50051/", False, "http://localhost:50051"),
        ("https://danube.example", False, "https://danube.example:50051"),
        ("localhost:1", True, "https://localhost:1"),
        ("http://[::1]:50051", False, "http://[::1]:50051"),
        (" danube ", False, "http://danube:50051"),
    ],
)
def test_an_endpoint_is_written_in_full(text: str, tls: bool, endpoint: str) -> None:
    assert checked_endpoint(text, tls=tls) == endpoint


@pytest.mark.parametrize(
    "text", ["", "ftp://a:1", "http://a:port", "http://a:1/path", "http://a:99999", "http://", "a b:1", "http://a:1?x"]
)
def test_what_is_no_endpoint_is_refused_with_the_form_it_needs(text: str) -> None:
    with pytest.raises(SettingsError, match="http://host:port"):
        checked_endpoint(text, tls=False)


def test_a_password_in_an_endpoint_is_refused_and_not_repeated() -> None:
    with pytest.raises(SettingsError) as caught:
        checked_endpoint("http://ada:hunter2@localhost:50051", tls=False)
    assert "hunter2" not in str(caught.value)


@given(st.text(max_size=40))
def test_any_text_is_an_endpoint_or_a_clear_error(text: str) -> None:
    try:
        endpoint = checked_endpoint(text, tls=False)
    except SettingsError:
        return
    assert checked_endpoint(endpoint, tls=False) == endpoint


@pytest.mark.parametrize(
    ("host", "answer"),
    [
        ("127.0.0.1", True),
        ("127.8.8.8", True),
        ("::1", True),
        ("[::1]", True),
        ("localhost", True),
        ("10.0.0.1", False),
        ("LocalHost", True),
        ("localhost.example", False),
        ("anything.localhost", False),
        ("0.0.0.0", False),
    ],
)
def test_only_this_machine_is_loopback(host: str, answer: bool) -> None:
    assert is_loopback(host) is answer


# What stands over what


def test_without_anything_it_is_the_broker_on_this_machine(file: Path) -> None:
    assert resolved(file) == Target()


def test_the_current_context_is_used_when_nothing_else_is_said(file: Path) -> None:
    set_context(file, "prod", {"endpoint": PROD, "access": "read", "approval": "move", "yes": True, "colour": "red"})
    target = resolved(file)
    assert (target.endpoint, target.context, target.tls) == (PROD, "prod", True)
    assert target.guard == Guard(level=AccessLevel.READ, approval=ApprovalMode.MOVE)
    assert (target.assume_yes, target.colour) == (True, Colour.RED)


@pytest.mark.parametrize("named", ["flag", "variable"])
def test_whoever_names_an_endpoint_gets_nothing_of_the_current_context(file: Path, named: str) -> None:
    set_context(file, "prod", {"endpoint": PROD, "token": TOKEN, "yes": True})
    other = "http://other:50051"
    target = resolved(file, TargetFlags(endpoint=other)) if named == "flag" else resolved(file, ENDPOINT=other)
    assert (target.endpoint, target.context, target.token, target.assume_yes) == (other, None, None, False)


def test_variables_stand_over_the_current_context(file: Path) -> None:
    set_context(file, "prod", {"endpoint": PROD, "token": TOKEN, "domain": "inner"})
    target = resolved(file, TOKEN="other", DOMAIN="outer")
    assert (target.context, target.token, target.tls_domain) == ("prod", "other", "outer")


def test_a_context_that_a_flag_names_stands_over_variables(file: Path) -> None:
    set_context(file, "staging", {"endpoint": "http://staging:50051"})
    set_context(file, "prod", {"endpoint": PROD, "token": TOKEN})
    target = resolved(file, TargetFlags(context="prod"), ENDPOINT="http://other:1", TOKEN="other", CONTEXT="staging")
    assert (target.endpoint, target.context, target.token) == (PROD, "prod", TOKEN)


def test_a_variable_names_a_context_too(file: Path) -> None:
    set_context(file, "staging", {"endpoint": "http://staging:50051"})
    set_context(file, "prod", {"endpoint": PROD})
    assert resolved(file, CONTEXT="prod").context == "prod"
    with pytest.raises(NotFoundError, match="known are: prod, staging"):
        resolved(file, CONTEXT="missing")


def test_the_endpoint_of_a_flag_stands_over_that_of_a_named_context(file: Path) -> None:
    set_context(file, "prod", {"endpoint": PROD, "token": TOKEN})
    target = resolved(file, TargetFlags(context="prod", endpoint="https://127.0.0.1:9"))
    assert (target.endpoint, target.context, target.token) == ("https://127.0.0.1:9", None, TOKEN)


@pytest.mark.parametrize(("said", "tls"), [("true", True), ("True", False), ("1", False), ("false", False)])
def test_tls_is_asked_for_by_exactly_true(file: Path, said: str, tls: bool) -> None:
    target = resolved(file, TLS=said, ENDPOINT="http://danube:50051")
    assert (target.tls, target.endpoint.startswith("https://")) == (tls, tls)


def test_the_originals_variable_for_the_token_counts_where_ours_is_not_set(file: Path) -> None:
    assert resolved(file, API_KEY="old").token == "old"
    assert resolved(file, API_KEY="old", TOKEN="new").token == "new"


def test_files_for_tls_come_from_variables_and_contexts(file: Path, tmp_path: Path) -> None:
    set_context(file, "prod", {"endpoint": PROD, "ca": tmp_path / "ca.pem"})
    target = resolved(file, CERT="/own.pem", KEY="/own.key")
    assert (target.ca_file, target.cert_file, target.key_file) == (
        tmp_path / "ca.pem",
        Path("/own.pem"),
        Path("/own.key"),
    )
    with pytest.raises(SettingsError, match="needs its key"):
        resolved(file, CERT="/own.pem")


@pytest.mark.parametrize(("said", "yes"), [("1", True), ("0", False), ("", False), ("yes", False)])
def test_yes_is_said_by_exactly_one(file: Path, said: str, yes: bool) -> None:
    assert resolved(file, YES=said).assume_yes is yes


def test_a_timeout_has_bounds(file: Path) -> None:
    assert resolved(file, TargetFlags(timeout_s=0.5)).timeout_s == 0.5
    for wrong_s in (0.0, -1.0, 1e9, float("nan")):
        with pytest.raises(SettingsError, match="timeout"):
            resolved(file, TargetFlags(timeout_s=wrong_s))


# Tokens


def test_a_token_comes_from_a_file_or_from_a_variable_of_the_contexts_choice(file: Path, tmp_path: Path) -> None:
    (tmp_path / "token").write_text(f"{TOKEN}\n")
    set_context(file, "prod", {"endpoint": PROD, "token_file": tmp_path / "token"})
    assert resolved(file).token == TOKEN
    set_context(file, "prod", {"token_file": None, "token_env": "PROD_TOKEN"})
    environ = {"DANUBE_ADMIN_CONFIG": str(file), "PROD_TOKEN": TOKEN}
    assert resolve_target(TargetFlags(), environ).token == TOKEN
    with pytest.raises(SettingsError, match="PROD_TOKEN, which is not set"):
        resolved(file)


def test_a_token_file_that_is_not_there_is_named(file: Path, tmp_path: Path) -> None:
    set_context(file, "prod", {"endpoint": PROD, "token_file": tmp_path / "token"})
    with pytest.raises(SettingsError, match="cannot read the token file"):
        resolved(file)


@pytest.mark.parametrize("token", ["two words", "line\nbreak", "ümlaut", "x" * 9_000, "\x1b[31m"])
def test_what_is_no_token_is_refused_and_not_repeated(file: Path, token: str) -> None:
    with pytest.raises(SettingsError, match="DANUBE_ADMIN_TOKEN holds no token") as caught:
        resolved(file, TOKEN=token)
    assert token not in str(caught.value)


# Levels


def test_a_level_comes_from_flag_variable_or_context(file: Path) -> None:
    assert resolved(file, TargetFlags(access=AccessLevel.READ), ACCESS="write").guard.level is AccessLevel.READ
    assert resolved(file, ACCESS="write").guard.level is AccessLevel.WRITE
    assert resolved(file, APPROVAL="none").guard.approval is ApprovalMode.NONE
    with pytest.raises(SettingsError, match="use one of read, write, destroy"):
        resolved(file, ACCESS="all")


def test_a_pinned_level_can_be_lowered_and_not_raised(file: Path) -> None:
    set_context(file, "prod", {"endpoint": PROD, "access": "write"})
    assert resolved(file, TargetFlags(access=AccessLevel.READ)).guard.level is AccessLevel.READ
    for raise_it in (TargetFlags(access=AccessLevel.DESTROY), None):
        with pytest.raises(SettingsError, match="allows access level write and no more"):
            resolved(file, raise_it, ACCESS="destroy")


def test_a_pinned_approval_can_be_made_stricter_and_not_looser(file: Path) -> None:
    set_context(file, "prod", {"endpoint": PROD, "approval": "destroy"})
    assert resolved(file, TargetFlags(approval=ApprovalMode.MOVE)).guard.approval is ApprovalMode.MOVE
    with pytest.raises(SettingsError, match="has approval destroy and no less"):
        resolved(file, TargetFlags(approval=ApprovalMode.NONE))
