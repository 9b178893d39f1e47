"""The table of errors and status codes, both ways."""

import subprocess
import sys

import pytest

from danube.model import errors
from danube.model.errors import DanubeError
from danube.testing.patience import PATIENCE_S
from danube.wire.status import StatusCode, error_from, opaque_status, status_of

RETRIED_BY_OFFICIAL_CLIENTS = {StatusCode.UNAVAILABLE, StatusCode.DEADLINE_EXCEEDED, StatusCode.RESOURCE_EXHAUSTED}


def tree(root: type[DanubeError]) -> list[type[DanubeError]]:
    return [root, *(found for child in root.__subclasses__() for found in tree(child))]


ALL = [kind for kind in tree(DanubeError) if kind.__module__ == errors.__name__]
PUBLIC = [kind for kind in ALL if kind.public]
PRIVATE = [kind for kind in ALL if not kind.public]


@pytest.mark.parametrize("kind", PUBLIC)
def test_public_error_comes_back_as_itself(kind: type[DanubeError]) -> None:
    status = status_of(kind("it says why"))
    error = error_from(status.code, status.message, status.error_code)
    assert (type(error), str(error)) == (kind, "it says why")


@pytest.mark.parametrize("kind", PRIVATE)
def test_error_that_is_not_public_crosses_the_wire_without_its_words(kind: type[DanubeError]) -> None:
    status = status_of(kind("/var/lib/danube/secret"))
    assert status == opaque_status()
    assert type(error_from(status.code, status.message, status.error_code)) is errors.InternalError


@pytest.mark.parametrize("kind", PRIVATE)
def test_peer_cannot_make_us_raise_an_error_that_is_not_public(kind: type[DanubeError]) -> None:
    assert type(error_from(StatusCode.NOT_FOUND, "", kind.code)) is errors.NotFoundError


def test_what_inherits_its_code_elsewhere_does_not_take_the_place_of_an_error() -> None:
    program = (
        "import danube.metadata.replication.sequencer; from danube.wire.status import error_from;"
        " print(type(error_from(14, '', 'METADATA')).__name__)"
    )
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True, timeout=PATIENCE_S)
    assert said.stdout.split() == [b"MetadataError"]


def test_codes_of_errors_are_unique() -> None:
    assert len({kind.code for kind in ALL}) == len(ALL)


@pytest.mark.parametrize("kind", [kind for kind in PUBLIC if kind.retryable])
def test_what_a_retry_may_mend_has_a_code_that_official_clients_retry(kind: type[DanubeError]) -> None:
    expected = {StatusCode.ABORTED} if kind is errors.VersionConflictError else RETRIED_BY_OFFICIAL_CLIENTS
    assert status_of(kind("")).code in expected


@pytest.mark.parametrize("kind", [kind for kind in PUBLIC if not kind.retryable])
def test_what_no_retry_mends_has_a_code_that_official_clients_raise(kind: type[DanubeError]) -> None:
    retried = status_of(kind("")).code in RETRIED_BY_OFFICIAL_CLIENTS
    assert retried == (kind is errors.MetadataError)


def test_error_of_an_unknown_kind_has_the_code_of_its_nearest_kin() -> None:
    class Unlisted(errors.TopicNotServedError):
        code = "UNLISTED"

    assert status_of(Unlisted("elsewhere")).code == StatusCode.UNAVAILABLE


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (StatusCode.NOT_FOUND, errors.NotFoundError),
        (StatusCode.OUT_OF_RANGE, errors.MessageTooLargeError),
        (StatusCode.UNAVAILABLE, errors.UnavailableError),
        (StatusCode.INTERNAL, errors.InternalError),
        (StatusCode.UNKNOWN, errors.InternalError),
        (StatusCode.DATA_LOSS, errors.InternalError),
        (14, errors.UnavailableError),
        (17, errors.InternalError),
        (-1, errors.InternalError),
    ],
)
def test_peer_without_our_codes_gives_the_class_of_its_status(code: int, kind: type[DanubeError]) -> None:
    for error_code in (None, "", "SOMETHING_NEWER"):
        assert type(error_from(code, "why", error_code)) is kind
