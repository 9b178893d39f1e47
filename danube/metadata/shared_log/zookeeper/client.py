"""Client of ZooKeeper on the event loop: kazoo works in threads of its own.

No call is made without a connection: kazoo would keep it, however long that takes. A call without an answer in time may
still be carried out, since kazoo keeps it until the session ends.
"""

import asyncio
import logging
import re
import socket
import ssl
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from danube.metadata.shared_log.backend import ROOT, import_extra
from danube.model.errors import MetadataError, SettingsError, UnknownOutcomeError
from danube.model.limits.metadata import METADATA_LOG_CALL_TIMEOUT_S, METADATA_LOG_RETRY_DELAY_MAX_S
from danube.runtime.blocking import BlockingThread

_SESSION_S = 10.0
"""Nothing hangs on our sessions; a server that does not answer for two thirds of it is left."""
_CHARS_MAX = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class ZookeeperSettings:
    """Hosts of ZooKeeper, and credentials."""

    hosts: Sequence[str]
    """`host:port` each."""
    root: str = ROOT
    user: str = ""
    password: str = field(default="", repr=False)
    """Password of the scheme `digest`: only we may then use the nodes that we make."""
    tls: bool = False
    ca_file: str | None = None
    """PEM of who is trusted, and nobody else; None: what the system trusts."""
    certificate_file: str | None = None
    """PEM of who we are, and its key, which are read when the connection is opened."""
    key_file: str | None = None

    def check(self) -> None:
        """Raise SettingsError for what cannot work, or would be less safe than it looks."""
        if not self.hosts or not all(host and "/" not in host and "," not in host for host in self.hosts):
            raise SettingsError("ZooKeeper needs its hosts: give host:port each, and the path as the root")
        if bool(self.user) != bool(self.password):
            raise SettingsError("ZooKeeper needs both a user and a password, or none of them")
        if (self.ca_file or self.certificate_file or self.key_file) and not self.tls:
            raise SettingsError("certificates for ZooKeeper are given and TLS is off: turn it on")
        if bool(self.certificate_file) != bool(self.key_file):
            raise SettingsError("ZooKeeper needs both a certificate and its key, or none of them")


class ZookeeperClient:
    """One session, and a new one when it is lost. Raises MetadataError where ZooKeeper does not answer as asked."""

    def __init__(self, settings: ZookeeperSettings, on_connected: Callable[[], None]) -> None:
        """`on_connected` is called on the event loop, each time that there is a connection again: watches are gone.

        Raises SettingsError, also when `kazoo` is not installed.
        """
        settings.check()
        self._settings = settings
        self._on_connected = on_connected
        self._kazoo = import_extra("kazoo.client", "zookeeper")
        self.errors = import_extra("kazoo.exceptions", "zookeeper")
        self._answers = (self.errors.NoNodeError, self.errors.NodeExistsError, self.errors.BadVersionError)
        self._dialer = Dialer()
        self._complaints = Complaints()
        self._client = self._new_client()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._connected = asyncio.Event()
        self._thread = BlockingThread("zookeeper")
        self._closed = False

    async def connect(self) -> None:
        """Connect, or raise MetadataError with the next step, SettingsError for certificates that cannot be used."""
        self._loop = asyncio.get_running_loop()
        if self._settings.tls:
            self._dialer.tls = await self._thread.run(self._tls_context)
        self._client.add_listener(self._state_changed)
        await self._thread.run(self._client.start_async)
        try:
            async with asyncio.timeout(METADATA_LOG_CALL_TIMEOUT_S + _SESSION_S):
                await self._connected.wait()
        except TimeoutError:
            raise MetadataError(
                f"ZooKeeper at {self._hosts()} cannot be reached{self._complaint()}: see to it that it runs, and that"
                " its address, TLS and password are right"
            ) from None

    async def call(self, start: Callable[[Any], Any]) -> Any:  # noqa: ANN401 - kazoo has no types
        """Have kazoo do what `start` starts (one of its `..._async`), and answer what comes of it.

        Raises what ZooKeeper answers (`errors`), UnknownOutcomeError when it does not answer, MetadataError when it was
        surely not asked.
        """
        return (await self.calls([start]))[0]

    async def calls(
        self, starts: Sequence[Callable[[Any], Any]], *, ignoring: type[Exception] | tuple[()] = ()
    ) -> list[Any]:
        """The same for several, which ZooKeeper carries out in this order.

        Raises the first error that is not of the kind that is ignored; for such a one the answer is None.
        """
        await self._ready()
        loop = asyncio.get_running_loop()
        answers = [loop.create_future() for _ in starts]
        try:
            async with asyncio.timeout(METADATA_LOG_CALL_TIMEOUT_S):
                await self._thread.run(partial(self._start_all, starts, answers))
                await asyncio.wait(answers)
        except TimeoutError:
            raise UnknownOutcomeError(f"ZooKeeper at {self._hosts()} does not answer") from None
        return [self._result(answer.result(), ignoring) for answer in answers]

    async def close(self) -> None:
        """End the session. Idempotent."""
        if self._closed:
            return
        self._closed = True
        await self._thread.run(self._end)
        await self._thread.aclose()

    def tell(self, callback: Callable[[], None]) -> None:
        """Call back on the event loop; for kazoo's threads. A loop that is closed has nobody left to tell."""
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(callback)

    def acl(self) -> Any:  # noqa: ANN401 - as above
        """Access list of the nodes that we make; None for everything to everybody."""
        if not self._settings.user:
            return None
        security = import_extra("kazoo.security", "zookeeper")
        return [security.make_digest_acl(self._settings.user, self._settings.password, all=True)]

    def _new_client(self) -> Any:  # noqa: ANN401 - as above
        settings = self._settings
        handler = import_extra("kazoo.handlers.threading", "zookeeper").SequentialThreadingHandler()
        handler.create_connection = self._dialer
        return self._kazoo.KazooClient(
            hosts=",".join(settings.hosts),
            timeout=_SESSION_S,
            handler=handler,
            logger=self._complaints,
            connection_retry={"max_tries": -1, "delay": 0.1, "max_delay": METADATA_LOG_RETRY_DELAY_MAX_S},
            auth_data=[("digest", f"{settings.user}:{settings.password}")] if settings.user else None,
            default_acl=self.acl(),
        )

    def _tls_context(self) -> ssl.SSLContext:
        settings = self._settings
        return tls_context(settings.ca_file, settings.certificate_file, settings.key_file)

    def _hosts(self) -> str:
        return ", ".join(self._settings.hosts)[:_CHARS_MAX]

    def _complaint(self) -> str:
        return f" ({self._complaints.last})" if self._complaints.last else ""

    def _start_all(self, starts: Sequence[Callable[[Any], Any]], answers: Sequence["asyncio.Future[Any]"]) -> None:
        """In the thread: kazoo wakes its own by a socket that may block."""
        for start, answer in zip(starts, answers, strict=True):
            start(self._client).rawlink(partial(self._answered, answer))

    def _answered(self, answer: "asyncio.Future[Any]", result: Any) -> None:  # noqa: ANN401 - as above
        """Runs in one of kazoo's threads."""
        self.tell(lambda: None if answer.done() else answer.set_result(result))

    def _result(self, answer: Any, ignoring: type[Exception] | tuple[()]) -> Any:  # noqa: ANN401 - as above
        error = answer.exception
        if error is None or isinstance(error, ignoring):
            return answer.value
        if isinstance(error, self._answers):
            raise error
        if isinstance(error, self.errors.NoAuthError | self.errors.AuthFailedError):
            raise MetadataError(
                f"ZooKeeper refused: {type(error).__name__}; check the user and the password, and who may do what"
                f" below {self._settings.root}"
            ) from None
        raise UnknownOutcomeError(f"ZooKeeper at {self._hosts()} does not answer: {type(error).__name__}") from None

    def _state_changed(self, state: str) -> None:
        """Called in kazoo's thread."""
        if state == "CONNECTED":
            self.tell(self._now_connected)
        else:
            self.tell(self._connected.clear)

    def _now_connected(self) -> None:
        self._complaints.last = ""
        self._connected.set()
        self._on_connected()

    def _end(self) -> None:
        self._client.remove_listener(self._state_changed)
        self._client.stop()
        self._client.close()

    async def _ready(self) -> None:
        """Wait a moment for a connection that was lost: another one is often there soon."""
        if not self._closed and not self._connected.is_set():
            with suppress(TimeoutError):
                async with asyncio.timeout(METADATA_LOG_CALL_TIMEOUT_S):
                    await self._connected.wait()
        if self._closed:
            raise MetadataError("the connection to ZooKeeper is closed: this broker is going down")
        if not self._connected.is_set():
            raise MetadataError(f"ZooKeeper at {self._hosts()} is not connected{self._complaint()}")


_NOISE = re.compile(r"^Connection dropped: (socket connection error: )?|\[SSL[^]]*\] | \(_ssl\.c:\d+\)")
"""Parts of a reason that are left out: the lost connection is reported anyway, and OpenSSL's source lines help nobody.
"""


def tls_context(ca_file: str | None, certificate_file: str | None, key_file: str | None) -> ssl.SSLContext:
    """Trusts the authorities of `ca_file` and no others; without one, those of the system. Reads the files.

    Raises SettingsError that names the file that cannot be used.
    """
    try:
        context = ssl.create_default_context(cafile=ca_file)
    except (OSError, ValueError) as error:
        raise SettingsError(f"{ca_file} holds no certificates that can be trusted: {_words_of(error)}") from error
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if certificate_file is not None:
        try:
            context.load_cert_chain(certificate_file, key_file, password=_no_password)
        except (OSError, ValueError) as error:
            files = f"{certificate_file} and {key_file} are no certificate and its key, unencrypted, in PEM"
            raise SettingsError(f"{files}: {_words_of(error)}") from error
    return context


class Dialer:
    """Opens connections in place of kazoo's handler; in kazoo's thread."""

    def __init__(self) -> None:
        self.tls: ssl.SSLContext | None = None
        """None: without TLS."""

    def __call__(self, *, address: tuple[str, int], hostname: str, timeout: float, **_ignored: Any) -> socket.socket:  # noqa: ANN401 - all that kazoo's own is told
        """A connection to this address, whose certificate is for this host name. Raises OSError."""
        timeout_s = min(timeout, METADATA_LOG_CALL_TIMEOUT_S)
        try:
            plain = socket.create_connection(address, timeout_s)
            try:
                plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                return plain if self.tls is None else self.tls.wrap_socket(plain, server_hostname=hostname)
            except BaseException:
                plain.close()
                raise
        except TimeoutError as error:
            raise TimeoutError(error.errno, f"no answer within {timeout_s:g} s") from error


class Complaints(logging.Logger):
    """Takes kazoo's log, a line for each attempt, and keeps the last reason: it is said once, by whoever gives up."""

    def __init__(self) -> None:
        super().__init__("kazoo", logging.WARNING)
        self.last = ""
        """Reason why there is no connection; "" when kazoo gave none yet."""

    def handle(self, record: logging.LogRecord) -> None:
        """Keep what is a reason. kazoo's others have nothing to fill in ("Transition to CONNECTING")."""
        if record.args:
            with suppress(TypeError, ValueError):  # a message that does not fit what is to be filled in
                self.last = _NOISE.sub("", record.getMessage())[:_CHARS_MAX]


def _no_password() -> str:
    """A broker asks nothing at its terminal."""
    raise ValueError("the key is encrypted")


def _words_of(error: Exception) -> str:
    return _NOISE.sub("", getattr(error, "strerror", None) or str(error))[:_CHARS_MAX]
