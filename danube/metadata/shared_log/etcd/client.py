"""Client of etcd: several endpoints, TLS, a user, a deadline for each call, and clear outcomes.

It uses the stubs of `aetcd` and not its client, which has one endpoint, no TLS, and neither deadlines for watches nor
tokens that expire.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from danube.metadata.shared_log.backend import ROOT, import_extra
from danube.model.errors import MetadataError, SettingsError, UnknownOutcomeError
from danube.model.limits.metadata import ETCD_ENTRY_BYTES_MAX, METADATA_LOG_CALL_TIMEOUT_S, METADATA_LOG_RUN_MAX
from danube.runtime.tasks import TaskScope, is_being_cancelled

_REFUSED = {
    "INVALID_ARGUMENT",
    "UNAUTHENTICATED",
    "PERMISSION_DENIED",
    "RESOURCE_EXHAUSTED",
    "FAILED_PRECONDITION",
    "UNIMPLEMENTED",
    "NOT_FOUND",
}
"""Statuses after which a change surely was not made."""
_CHARS_MAX = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class EtcdSettings:
    """Endpoints of etcd, and credentials."""

    endpoints: Sequence[str]
    """`host:port` each; one is used at a time, and the next one when it fails."""
    root: str = ROOT
    user: str = ""
    password: str = field(default="", repr=False)
    tls: bool = False
    ca: bytes | None = field(default=None, repr=False)
    """PEM of who is trusted; None: what the system trusts."""
    certificate: bytes | None = field(default=None, repr=False)
    """PEM of who we are, and its key."""
    key: bytes | None = field(default=None, repr=False)

    def check(self) -> None:
        """Raise SettingsError for what cannot work, or would be less safe than it looks."""
        if not self.endpoints:
            raise SettingsError("etcd needs at least one endpoint: give host:port")
        if bool(self.user) != bool(self.password):
            raise SettingsError("etcd needs both a user and a password, or none of them")
        if (self.ca or self.certificate or self.key) and not self.tls:
            raise SettingsError("certificates for etcd are given and TLS is off: turn it on")
        if bool(self.certificate) != bool(self.key):
            raise SettingsError("etcd needs both a certificate and its key, or none of them")


class _SignedOutError(MetadataError):
    """The token was refused, and another one may not be."""


class _NotAskedError(MetadataError):
    """An endpoint gave no token, so it was asked for nothing: another one may."""


class EtcdClient:
    """One connection at a time. Raises MetadataError where etcd does not answer, or not as asked."""

    def __init__(self, settings: EtcdSettings) -> None:
        """Raises SettingsError, also when `aetcd` is not installed."""
        settings.check()
        self.rpc = import_extra("aetcd.rpc", "etcd")
        self._settings = settings
        self._turn = 0
        self._connection: _Connection | None = None
        self._closed = False
        self._tasks = TaskScope("etcd")

    @property
    def endpoint(self) -> str:
        return self._settings.endpoints[self._turn % len(self._settings.endpoints)]

    async def kv(self, method: str, request: Any) -> Any:  # noqa: ANN401 - protobuf without types
        """One call of the service KV that changes nothing, or may be made twice; tried once at each endpoint."""
        tries = max(2, len(self._settings.endpoints))
        for left in reversed(range(tries)):
            try:
                return await self.change(method, request)
            except (UnknownOutcomeError, _NotAskedError) as error:
                if not left:
                    raise MetadataError(str(error)) from error
        raise MetadataError("etcd was not asked")

    async def change(self, method: str, request: Any) -> Any:  # noqa: ANN401 - as above
        """One call of the service KV, made once.

        Raises UnknownOutcomeError when etcd does not say whether it did it.
        """
        try:
            return await self._call(method, request)
        except _SignedOutError:
            return await self._call(method, request)  # tokens expire, and end when etcd starts anew

    async def _call(self, method: str, request: Any) -> Any:  # noqa: ANN401 - as above
        connection = await self._connected()
        try:
            return await connection.call(getattr(connection.key_values, method), request)
        except self.rpc.AioRpcError as error:
            raise self._error_of(connection, error) from None
        except (asyncio.CancelledError, self.rpc.BaseError):
            if is_being_cancelled():
                raise asyncio.CancelledError from None
            raise UnknownOutcomeError(f"etcd at {connection.endpoint} does not answer: the call was cut off") from None

    async def watch(self, key: bytes, on_event: Callable[[Sequence[bytes]], None]) -> None:
        """Tell the values that the key gets, and once none when the watch has begun; ends when it is lost.

        Raises MetadataError.
        """
        connection = await self._connected()
        create = self.rpc.WatchRequest(create_request=self.rpc.WatchCreateRequest(key=key))
        ended = asyncio.Event()

        async def ask() -> Any:  # noqa: ANN401 - as above
            yield create
            await ended.wait()  # a stream whose requests end is ended by etcd

        stream = connection.watches.Watch(ask(), metadata=connection.metadata)
        try:
            async for response in stream:
                if response.canceled:
                    raise MetadataError(f"etcd ended the watch: {response.cancel_reason[:_CHARS_MAX]!r}")
                on_event([event.kv.value for event in response.events])
        except self.rpc.AioRpcError as error:
            raise self._error_of(connection, error) from None
        except (asyncio.CancelledError, self.rpc.BaseError):
            if is_being_cancelled():
                raise asyncio.CancelledError from None
            raise MetadataError(f"the watch of etcd at {connection.endpoint} was cut off") from None
        finally:
            ended.set()
            stream.cancel()

    async def close(self) -> None:
        """Let go of the connection. Idempotent."""
        self._closed = True
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.close()
        await self._tasks.close()

    async def _connected(self) -> "_Connection":
        if self._closed:
            raise MetadataError("the connection to etcd is closed: this broker is going down")
        if self._connection is None:
            self._connection = _Connection(self.rpc, self._settings, self.endpoint)
        connection = self._connection
        try:
            await connection.sign_in()
        except self.rpc.AioRpcError as error:
            told = self._error_of(connection, error)
            kind = _NotAskedError if isinstance(told, UnknownOutcomeError) else MetadataError
            raise kind(str(told)) from None
        return connection

    def _error_of(self, connection: "_Connection", error: Any) -> MetadataError:  # noqa: ANN401 - as above
        """Error for a gRPC error; if etcd did not answer, the next endpoint is tried."""
        status, details = error.code().name, str(error.details())[:_CHARS_MAX]
        if status in _REFUSED:
            refusal = f"etcd at {connection.endpoint} refused: {details!r}{_advice(status, details)}"
            return _SignedOutError(refusal) if connection.sign_out(status) else MetadataError(refusal)
        if connection is self._connection:
            self._connection = None
            self._turn += 1
            if not self._closed:
                self._tasks.spawn(connection.close(), "close a connection")
        return UnknownOutcomeError(f"etcd at {connection.endpoint} does not answer: {status}, {details!r}")


class _Connection:
    """A channel to one endpoint, and who we are on it."""

    def __init__(self, rpc: Any, settings: EtcdSettings, endpoint: str) -> None:  # noqa: ANN401 - without types
        self.endpoint = endpoint
        # An endpoint that is cut off from the majority has to say so.
        self.metadata: tuple[tuple[str, str], ...] = (("hasleader", "true"),)
        self._rpc = rpc
        self._settings = settings
        self._signing = asyncio.Lock()
        self._signed_in = not settings.user
        self._channel = _open_channel(rpc, settings, endpoint)
        self.key_values = rpc.KVStub(self._channel)
        self.watches = rpc.WatchStub(self._channel)

    async def call(self, method: Callable[..., Awaitable[Any]], request: Any) -> Any:  # noqa: ANN401 - as above
        return await method(request, timeout=METADATA_LOG_CALL_TIMEOUT_S, metadata=self.metadata)

    async def sign_in(self) -> None:
        """Get a token, unless there is one or none is needed."""
        async with self._signing:
            if self._signed_in:
                return
            request = self._rpc.AuthenticateRequest(name=self._settings.user, password=self._settings.password)
            answer = await self._rpc.AuthStub(self._channel).Authenticate(request, timeout=METADATA_LOG_CALL_TIMEOUT_S)
            self.metadata = (("hasleader", "true"), ("token", answer.token))
            self._signed_in = True

    def sign_out(self, status: str) -> bool:
        """Forget a token that is good for nothing any more; says whether there was one."""
        if status != "UNAUTHENTICATED" or not self._settings.user or not self._signed_in:
            return False
        self._signed_in = False
        return True

    async def close(self) -> None:
        """Close the channel; calls that are under way on it are cut off."""
        await self._channel.close()


def _open_channel(rpc: Any, settings: EtcdSettings, endpoint: str) -> Any:  # noqa: ANN401 - without types
    options = [
        ("grpc.max_receive_message_length", (METADATA_LOG_RUN_MAX + 1) * ETCD_ENTRY_BYTES_MAX),
        ("grpc.keepalive_time_ms", 10_000),
        ("grpc.keepalive_timeout_ms", 3_000),
        ("grpc.use_local_subchannel_pool", 1),  # a new channel is a new connection, not the one that just failed
        ("grpc.initial_reconnect_backoff_ms", 100),
        ("grpc.max_reconnect_backoff_ms", 1_000),
        ("grpc.enable_http_proxy", 0),
    ]
    from danube.rpc.grpc.carrier import channel_credentials, keep_engine  # noqa: PLC0415 - grpc is loaded for etcd only

    keep_engine()
    if not settings.tls:
        return rpc.insecure_channel(endpoint, options=options)
    credentials = channel_credentials(ca=settings.ca, certificate=settings.certificate, key=settings.key)
    return rpc.secure_channel(endpoint, credentials, options=options)


def _advice(status: str, details: str) -> str:
    if status == "UNAUTHENTICATED" or "user name is empty" in details or "authentication failed" in details:
        return ": check the user and the password"
    if status == "PERMISSION_DENIED":
        return ": grant the user read and write below the root"
    if "database space exceeded" in details:
        return (
            ": etcd's quota is used up; compact and defragment it, then disarm the alarm, and turn auto-compaction on"
        )
    if "request is too large" in details:
        return ": raise etcd's --max-request-bytes to its default, 1.5 MiB, or more"
    return ""
