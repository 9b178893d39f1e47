"""S3, Google Cloud Storage and Azure Blob Storage by the library obstore: the adapter of the extra `obstore`."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

from danube.model.limits.objects import (
    OBJECT_BYTES_MAX,
    OBJECT_CONNECT_TIMEOUT_S,
    OBJECT_PART_BYTES,
    OBJECT_REQUEST_TIMEOUT_S,
)
from danube.objects.place import ObjectPlace
from danube.objects.refusals import refusal_of
from danube.objects.store import ObjectInfo, StoreBusyError, Tagged, joined
from danube.runtime.disk import Buffer

T = TypeVar("T")

_CODES = ("NoSuchBucket", "InvalidAccessKeyId", "SignatureDoesNotMatch", "ExpiredToken", "RequestTimeTooSkewed")
_MORE_CODES = ("AuthorizationHeaderMalformed", "PermanentRedirect", "NotImplemented", "AccessDenied")
_REDIRECTED = "Received redirect without LOCATION"


class ObstoreStore:
    """An `ObjectStore` over obstore."""

    def __init__(self, place: ObjectPlace) -> None:
        import obstore  # noqa: PLC0415 - an extra, for this mode alone

        self._place = place
        self._obstore = obstore
        self._store = _open(place)

    def get(self, name: str, position: int = 0, length: int | None = None) -> bytes:
        if length == 0:
            return b""
        if not position and length is None:
            return self.get_tagged(name).data
        try:
            return self._get_range(name, position, position + (OBJECT_BYTES_MAX if length is None else length))
        except StoreBusyError:
            if position < self.size(name):  # else it is a range past the end, which is no error of its own there
                raise
            return b""

    def _get_range(self, name: str, start: int, end: int) -> bytes:
        key = self._key(name)
        return self._run(lambda: bytes(self._obstore.get_range(self._store, key, start=start, end=end)))

    def get_tagged(self, name: str) -> Tagged:
        def ask() -> Tagged:
            answer = self._obstore.get(self._store, self._key(name))
            return Tagged(bytes(answer.bytes()), str(answer.meta["e_tag"]))

        return self._run(ask)

    def put(self, name: str, chunks: Sequence[Buffer]) -> None:
        self._run(lambda: self._obstore.put(self._store, self._key(name), joined(chunks), chunk_size=OBJECT_PART_BYTES))

    def put_if_absent(self, name: str, chunks: Sequence[Buffer]) -> None:
        self._put_on(name, chunks, "create")

    def swap(self, name: str, chunks: Sequence[Buffer], tag: str) -> None:
        self._put_on(name, chunks, {"e_tag": tag})

    def _put_on(self, name: str, chunks: Sequence[Buffer], mode: Any) -> None:  # noqa: ANN401 - as the library has it
        self._run(
            lambda: self._obstore.put(self._store, self._key(name), joined(chunks), mode=mode, use_multipart=False)
        )

    def size(self, name: str) -> int:
        try:
            return int(self._run(lambda: self._obstore.head(self._store, self._key(name)))["size"])
        except OSError:
            self._get_range(name, 0, 1)  # an answer to HEAD has no text: this one says why
            raise

    def listing(self, prefix: str, after: str = "") -> list[ObjectInfo]:
        """The library lists whole folders: what only begins like the prefix is left out here."""
        folder, _, _ = self._key(prefix).rpartition("/")
        how = {"offset": self._key(after)} if after else {}
        start = len(self._place.prefix)

        def ask() -> list[ObjectInfo]:
            pages = self._obstore.list(self._store, folder or None, **how)
            found = [ObjectInfo(one["path"][start:], one["size"]) for page in pages for one in page]
            return sorted(one for one in found if one.name.startswith(prefix))

        return self._run(ask)

    def folders(self, prefix: str) -> list[str]:
        key = self._key(prefix).rstrip("/")
        answer = self._run(lambda: self._obstore.list_with_delimiter(self._store, key or None))
        return sorted(one.rstrip("/").rpartition("/")[2] for one in answer["common_prefixes"])

    def delete(self, names: Iterable[str]) -> None:
        keys = [self._key(name) for name in names]
        if keys:
            try:
                self._run(lambda: self._obstore.delete(self._store, keys))
            except FileNotFoundError:
                for key in keys:
                    self._delete_one(key)

    def _delete_one(self, key: str) -> None:
        try:
            self._run(lambda: self._obstore.delete(self._store, key))
        except FileNotFoundError:
            return

    def close(self) -> None:
        return None

    def _key(self, name: str) -> str:
        return self._place.prefix + name

    def _run(self, request: Callable[[], T]) -> T:
        from obstore import exceptions  # noqa: PLC0415 - as above

        try:
            return request()
        except (exceptions.AlreadyExistsError, exceptions.PreconditionError) as error:
            raise self._refusal(error) or FileExistsError(
                f"the object store has another version already: {_first_line(error)}"
            ) from error
        except (FileNotFoundError, exceptions.NotFoundError) as error:
            raise self._refusal(error) or FileNotFoundError(f"the object is not in {self._place.url}") from error
        except (exceptions.PermissionDeniedError, exceptions.UnauthenticatedError) as error:
            raise self._refusal(error) or refusal_of("AccessDenied", self._place, "") from error
        except exceptions.BaseError as error:
            raise self._refusal(error) or StoreBusyError(
                f"{self._place.url} does not answer: {_first_line(error)}"
            ) from error

    def _refusal(self, error: Exception) -> OSError | None:
        """The refusal that the store's answer names; the library passes on its text alone."""
        for code in (*_CODES, *_MORE_CODES):
            if _has_code(error, code):
                return refusal_of(code, self._place, _first_line(error))
        return refusal_of("301", self._place, "") if _REDIRECTED in str(error) else None


def _has_code(error: Exception, code: str) -> bool:
    """True for an answer with this code; addresses, names and spans of time in the text may look like one."""
    return f"<Code>{code}</Code>" in str(error)


def _first_line(error: Exception) -> str:
    return str(error).strip().split("\n", 1)[0][:200]


def _open(place: ObjectPlace) -> Any:  # noqa: ANN401 - one of the library's stores
    from obstore import store  # noqa: PLC0415 - as above

    if place.scheme == "memory":
        return store.MemoryStore()
    options: dict[str, Any] = {
        "timeout": f"{OBJECT_REQUEST_TIMEOUT_S:.0f}s",
        "connect_timeout": f"{OBJECT_CONNECT_TIMEOUT_S:.0f}s",
    }
    if place.endpoint is not None and place.endpoint.startswith("http://"):
        options["allow_http"] = True
    if place.ca_file is not None:
        with open(place.ca_file, encoding="ascii") as file:  # noqa: PTH123 - a setting's path
            options["root_certificate"] = file.read()
    shared: dict[str, Any] = {"client_options": options, "retry_config": {"max_retries": 0}}
    if place.scheme == "gs":
        return store.GCSStore(place.bucket, **shared)
    if place.scheme == "az":
        given: dict[str, Any] = {
            "account_name": place.access_key,
            "account_key": place.secret_key,
            "endpoint": place.endpoint,
        }
        return store.AzureStore(place.bucket, **_known(given), **shared)
    given = {
        "endpoint": place.endpoint,
        "region": place.region,
        "access_key_id": place.access_key,
        "secret_access_key": place.secret_key,
        "session_token": place.session_token,
    }
    return store.S3Store(
        place.bucket,
        virtual_hosted_style_request=place.virtual_host_style,
        **_known(given),
        **shared,
    )


def _known(values: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}
