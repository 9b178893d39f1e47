"""S3, and what speaks like it, by the library s3fs: the adapter of the extra `s3`.

The library's own retries are off: those of `retrying.py` are counted, and know which requests may be sent again.
"""

import asyncio
import base64
import concurrent.futures
import contextlib
import hashlib
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from danube.model.limits.objects import (
    OBJECT_CONNECT_TIMEOUT_S,
    OBJECT_DELETE_PAGE,
    OBJECT_PART_BYTES,
    OBJECT_REQUEST_TIMEOUT_S,
)
from danube.objects.place import ObjectPlace
from danube.objects.refusals import refusal_of
from danube.objects.store import ObjectInfo, StoreBusyError, Tagged, joined
from danube.runtime.blocking import LoopThread
from danube.runtime.disk import Buffer

T = TypeVar("T")
Arguments = Mapping[str, Any]

_TAKEN = {"PreconditionFailed", "412", "ConditionalRequestConflict", "409"}
_ABSENT = {"NoSuchKey", "404", "NotFound", "NoSuchUpload"}
_PAST_END = {"InvalidRange", "416"}
_BUSY_FROM = 500
_BUSY = {
    "SlowDown",
    "RequestTimeout",
    "Throttling",
    "ThrottlingException",
    "TooManyRequests",
    "429",
    "RequestTimeTooLate",
}
_WAIT_S = 2 * OBJECT_REQUEST_TIMEOUT_S


class S3Store:
    """An `ObjectStore` on S3; it has a thread with an event loop of its own."""

    def __init__(self, place: ObjectPlace) -> None:
        import s3fs  # noqa: PLC0415 - an extra, for this mode alone
        from aiobotocore.session import AioSession  # noqa: PLC0415 - as above

        self._place = place
        session = AioSession(profile=place.profile)
        session.register("before-call.s3.DeleteObjects", _add_content_md5)
        self._thread = LoopThread("objects")
        self._fs = s3fs.S3FileSystem(
            asynchronous=True,
            session=session,
            loop=self._thread.loop,
            skip_instance_cache=True,
            use_listings_cache=False,
            endpoint_url=place.endpoint,
            key=place.access_key,
            secret=place.secret_key,
            token=place.session_token,
            client_kwargs=_given(region_name=place.region, verify=place.ca_file),
            config_kwargs={
                "connect_timeout": OBJECT_CONNECT_TIMEOUT_S,
                "read_timeout": OBJECT_REQUEST_TIMEOUT_S,
                "retries": {"mode": "standard", "total_max_attempts": 1},
                "s3": {"addressing_style": "virtual" if place.virtual_host_style else "path"},
                "request_checksum_calculation": "when_required",
                "response_checksum_validation": "when_required",
            },
        )
        self._fs.retries = 1

    def get(self, name: str, position: int = 0, length: int | None = None) -> bytes:
        if length == 0:
            return b""
        end = "" if length is None else str(position + length - 1)
        wanted = {} if not position and length is None else {"Range": f"bytes={position}-{end}"}
        try:
            return self._run(lambda: self._get(name, wanted)).data
        except _PastEndError:
            return b""

    def get_tagged(self, name: str) -> Tagged:
        return self._run(lambda: self._get(name, {}))

    def put(self, name: str, chunks: Sequence[Buffer]) -> None:
        self._run(lambda: self._put(name, joined(chunks), {}))

    def put_if_absent(self, name: str, chunks: Sequence[Buffer]) -> None:
        self._run(lambda: self._put(name, joined(chunks), {"IfNoneMatch": "*"}))

    def swap(self, name: str, chunks: Sequence[Buffer], tag: str) -> None:
        self._run(lambda: self._put(name, joined(chunks), {"IfMatch": tag}))

    def size(self, name: str) -> int:
        return int(self._run(lambda: self._ask("head_object", Key=self._key(name)))["ContentLength"])

    def listing(self, prefix: str, after: str = "") -> list[ObjectInfo]:
        pages = self._run(lambda: self._list(prefix, **_given(StartAfter=self._key(after) if after else None)))
        start = len(self._place.prefix)
        return [ObjectInfo(one["Key"][start:], one["Size"]) for page in pages for one in page.get("Contents", ())]

    def folders(self, prefix: str) -> list[str]:
        pages = self._run(lambda: self._list(prefix, Delimiter="/"))
        start = len(self._key(prefix))
        return [one["Prefix"][start:-1] for page in pages for one in page.get("CommonPrefixes", ())]

    def delete(self, names: Iterable[str]) -> None:
        keys = [{"Key": self._key(name)} for name in names]
        for first in range(0, len(keys), OBJECT_DELETE_PAGE):
            page = {"Objects": keys[first : first + OBJECT_DELETE_PAGE], "Quiet": True}
            answer = self._run(lambda: self._ask("delete_objects", Delete=page))  # noqa: B023 - done in its turn
            for error in answer.get("Errors", ()):
                raise self._fault(str(error.get("Code")), 200, str(error.get("Message")))

    def close(self) -> None:
        """The client's connections are closed with their loop."""
        if not self._thread.loop.is_closed():
            session = getattr(self._fs, "_s3", None)
            if session is not None:
                future = asyncio.run_coroutine_threadsafe(self._close(), self._thread.loop)
                concurrent.futures.wait([future], timeout=OBJECT_CONNECT_TIMEOUT_S)
            self._thread.close()

    async def _close(self) -> None:
        await self._fs._s3.close()  # noqa: SLF001 - the library closes it only by its own loop

    def _key(self, name: str) -> str:
        return self._place.prefix + name

    async def _ask(self, call: str, **arguments: object) -> Any:  # noqa: ANN401 - as the library answers
        return await self._fs._call_s3(call, Bucket=self._place.bucket, **arguments)  # noqa: SLF001 - its way to any call

    async def _get(self, name: str, wanted: Arguments) -> Tagged:
        answer = await self._ask("get_object", Key=self._key(name), **wanted)
        async with answer["Body"] as body:
            data = await body.read()
        if len(data) != answer["ContentLength"]:
            raise StoreBusyError(f"{name} ended after {len(data)} of {answer['ContentLength']} bytes")
        return Tagged(bytes(data), answer["ETag"])

    async def _put(self, name: str, data: bytes, condition: Arguments) -> None:
        if len(data) <= OBJECT_PART_BYTES:
            await self._ask("put_object", Key=self._key(name), Body=data, **condition)
            return
        where = {"Key": self._key(name)}
        upload = (await self._ask("create_multipart_upload", **where))["UploadId"]
        try:
            parts = []
            for number, first in enumerate(range(0, len(data), OBJECT_PART_BYTES), 1):
                body = data[first : first + OBJECT_PART_BYTES]
                part = await self._ask("upload_part", **where, UploadId=upload, PartNumber=number, Body=body)
                parts.append({"PartNumber": number, "ETag": part["ETag"]})
            await self._ask(
                "complete_multipart_upload", **where, UploadId=upload, MultipartUpload={"Parts": parts}, **condition
            )
        except BaseException:
            await self._abort(where, upload)
            raise

    async def _abort(self, where: Arguments, upload: str) -> None:
        """The first error counts: what stays is expired by the store's own rules."""
        with contextlib.suppress(Exception):
            await self._ask("abort_multipart_upload", **where, UploadId=upload)

    async def _list(self, prefix: str, **how: object) -> list[Any]:
        pages: list[Any] = []
        token: dict[str, str] = {}
        while True:
            page = await self._ask("list_objects_v2", Prefix=self._key(prefix), **how, **token)
            pages.append(page)
            if not page.get("IsTruncated"):
                return pages
            token = {"ContinuationToken": page["NextContinuationToken"]}

    def _run(self, work: Callable[[], Awaitable[T]]) -> T:
        """Do it on the loop, and translate its errors."""

        async def bounded() -> T:
            return await work()

        future = asyncio.run_coroutine_threadsafe(bounded(), self._thread.loop)
        try:
            return future.result(_WAIT_S)
        except (FileExistsError, StoreBusyError):
            raise
        except (TimeoutError, concurrent.futures.TimeoutError) as error:
            future.cancel()
            raise StoreBusyError(f"{self._place.url} does not answer") from error
        except Exception as error:
            raise self._translated(error) from error

    def _translated(self, error: Exception) -> OSError:
        from botocore.exceptions import ClientError, NoCredentialsError, ProfileNotFound  # noqa: PLC0415 - as above

        cause = error if isinstance(error, ClientError) else error.__cause__
        if isinstance(cause, ClientError):
            details = cause.response.get("Error", {})
            status = int(cause.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))
            return self._fault(str(details.get("Code", status)), status, str(details.get("Message", error)))
        if isinstance(error, FileNotFoundError):
            return error
        if isinstance(error, NoCredentialsError | ProfileNotFound):
            return refusal_of("NoCredentials", self._place, str(error))
        if isinstance(error, PermissionError):
            return refusal_of("AccessDenied", self._place, str(error))
        return StoreBusyError(f"{self._place.url} does not answer: {type(error).__name__}: {error}")

    def _fault(self, code: str, status: int, message: str) -> OSError:
        if code == "NoSuchBucket":
            return refusal_of(code, self._place, message)
        if code in _TAKEN:
            return FileExistsError(f"the object store has another version already ({code})")
        if code in _ABSENT:
            return FileNotFoundError(f"the object is not in {self._place.url}")
        if code in _PAST_END:
            return _PastEndError(message)
        if status >= _BUSY_FROM or code in _BUSY:
            return StoreBusyError(f"{self._place.url} answers {code}: {message}")
        return refusal_of(code, self._place, message)


class _PastEndError(OSError):
    """A range begins behind the end of an object."""


def _add_content_md5(params: Mapping[str, Any], **_: object) -> None:
    """MinIO before 2025 and other stores refuse to delete several objects at once without it; Amazon takes it."""
    digest = hashlib.md5(params["body"], usedforsecurity=False).digest()
    params["headers"]["Content-MD5"] = base64.b64encode(digest).decode()


def _given(**values: object) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}
