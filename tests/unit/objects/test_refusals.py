"""Answers of stores, translated: what may be sent again, what is taken, and what is refused in one sentence."""

from unittest.mock import Mock

import pytest
from obstore.exceptions import GenericError

from danube.model.errors import DataFolderError, SettingsError, StorageUnavailableError
from danube.objects.memory import MemoryObjects
from danube.objects.obstore_store import ObstoreStore
from danube.objects.opening import open_objects, probe, unusable
from danube.objects.place import Adapter, ObjectPlace
from danube.objects.s3 import S3Store
from danube.objects.store import StoreBusyError, StoreRefusedError
from danube.runtime.disk import Buffer
from danube.runtime.rng import SystemRng

URL = "s3://bkt/prefix/"


@pytest.mark.parametrize(
    ("code", "status", "kind", "said"),
    [
        ("SlowDown", 503, StoreBusyError, "SlowDown"),
        ("InternalError", 500, StoreBusyError, "InternalError"),
        ("RequestTimeout", 400, StoreBusyError, "RequestTimeout"),
        ("PreconditionFailed", 412, FileExistsError, "another version"),
        ("ConditionalRequestConflict", 409, FileExistsError, "another version"),
        ("NoSuchKey", 404, FileNotFoundError, "not in s3://bkt/prefix/"),
        ("NoSuchBucket", 404, StoreRefusedError, "there is no such bucket: make it"),
        ("InvalidAccessKeyId", 403, StoreRefusedError, "correct the keys"),
        ("SignatureDoesNotMatch", 403, StoreRefusedError, "the secret key does not fit"),
        ("AccessDenied", 403, StoreRefusedError, "allow them to get, put, list and delete"),
        ("RequestTimeTooSkewed", 403, StoreRefusedError, "set it by NTP"),
        ("AuthorizationHeaderMalformed", 400, StoreRefusedError, "correct object_store.region"),
        ("PermanentRedirect", 301, StoreRefusedError, "another region"),
        ("Strange", 400, StoreRefusedError, "check object_store"),
    ],
)
def test_an_answer_of_s3_is_translated(code: str, status: int, kind: type[OSError], said: str) -> None:
    store = object.__new__(S3Store)
    store._place = ObjectPlace.of(URL)
    found = store._fault(code, status, "as the store says")
    assert type(found) is kind
    assert said in str(found)


SLOW_DOWN = "503 Service Unavailable: <Error><Code>SlowDown</Code></Error>"
DENIED = "400 Bad Request: <Error><Code>InvalidAccessKeyId</Code></Error>"


@pytest.mark.parametrize(
    ("request_told", "answer", "kind"),
    [
        ("GET http://127.0.0.1:41191/bkt/log/26 in 1.454167ms", SLOW_DOWN, StoreBusyError),
        ("GET http://127.0.0.1:4160/bkt/416/NoSuchBucket in 416.41641ms", SLOW_DOWN, StoreBusyError),
        ("GET http://127.0.0.1:80/bkt/log/26 in 2ms", DENIED, StoreRefusedError),
        ("GET http://127.0.0.1:80/bkt/Received/redirect/without/LOCATION in 301ms", SLOW_DOWN, StoreBusyError),
    ],
)
def test_an_answer_told_by_obstore_is_read_in_the_answer_alone(
    request_told: str, answer: str, kind: type[OSError], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Addresses, names and spans of time in the text of an error are no answers."""
    store = open_objects(ObjectPlace.of("memory://here", adapter=Adapter.OBSTORE))
    assert isinstance(store, ObstoreStore)
    told = GenericError(f"Generic S3 error: Error performing {request_told} - Server returned status code: {answer}")
    monkeypatch.setattr(store._obstore, "get_range", Mock(side_effect=told))
    store.put("a", [bytes(20)])
    with pytest.raises(kind):
        store.get("a", 10, 10)


def test_a_range_past_the_end_of_an_object_in_memory_is_empty() -> None:
    store = open_objects(ObjectPlace.of("memory://here", adapter=Adapter.OBSTORE))
    store.put("a", [b"0123456789"])
    assert [store.get("a", start, 10) for start in (5, 10, 20)] == [b"56789", b"", b""]


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("ftp://bkt/x", "is not known: give s3://bucket/prefix"),
        ("bkt/x", "no scheme"),
        ("s3://-/x", "no name of a bucket"),
        ("s3://bkt/a b", "not every store keeps"),
        ("s3://bkt/a//b", "not every store keeps"),
        ("s3://bkt/a?b=c", "not every store keeps"),
    ],
)
def test_a_url_that_is_none_is_refused_with_what_to_write(url: str, said: str) -> None:
    with pytest.raises(SettingsError, match=said):
        ObjectPlace.of(url)


def test_a_url_names_bucket_and_prefix() -> None:
    place = ObjectPlace.of("gcs://bkt/a/b/", adapter=Adapter.OBSTORE)
    assert (place.scheme, place.bucket, place.prefix, place.url) == ("gs", "bkt", "a/b/", "gs://bkt/a/b/")
    assert ObjectPlace.of("s3://bkt").prefix == ""


class BlindObjects(MemoryObjects):
    """A store that takes no notice of If-None-Match."""

    def put_if_absent(self, name: str, chunks: list[Buffer]) -> None:  # type: ignore[override]
        self.put(name, chunks)


class BlindSwaps(MemoryObjects):
    """A store that takes no notice of If-Match."""

    def swap(self, name: str, chunks: list[Buffer], tag: str) -> None:  # type: ignore[override]
        del tag
        self.put(name, chunks)


@pytest.mark.parametrize("store", [BlindObjects(), BlindSwaps()])
def test_a_store_without_conditions_is_refused_for_fencing(store: MemoryObjects) -> None:
    with pytest.raises(DataFolderError, match="does not honour conditional writes"):
        probe(store, URL, SystemRng(seed=1))
    assert store.listing("") == []


def test_a_refusal_needs_a_correction_and_silence_another_try() -> None:
    assert isinstance(unusable(StoreRefusedError("refused"), URL), DataFolderError)
    silent = unusable(StoreBusyError("s3://bkt/ does not answer"), URL)
    assert isinstance(silent, StorageUnavailableError)
    assert "then try again" in str(silent)


def test_memory_is_opened_for_tests() -> None:
    assert isinstance(open_objects(ObjectPlace.of("memory://bkt/x")), MemoryObjects)
