"""Calls to the ports of brokers: deadlines, the token, TLS, and errors as sentences that say what to do next."""

from collections import deque
from collections.abc import Callable, Sequence
from enum import Enum, auto
from pathlib import Path
from typing import TypeVar
from urllib.parse import urlsplit

from danube.admin.operations.act import ACT, Act, before_unrecorded
from danube.admin.target import PASSED_TOKEN, Target
from danube.model.errors import (
    BrokerUnreachableError,
    DanubeError,
    DeadlineExceededError,
    SettingsError,
    ShuttingDownError,
    UnauthenticatedError,
)
from danube.model.limits.broker import CLIENT_CHANNELS_MAX
from danube.model.limits.faces import ADMIN_EACH_SHARE
from danube.rpc.address import is_loopback, join_address
from danube.rpc.carrier import Carrier, Channel, ClientStream, NotConnectedError
from danube.rpc.engines import ClientTls, client_carrier
from danube.runtime.blocking import BlockingRunner
from danube.runtime.clock import Clock
from danube.wire.codec import Codec
from danube.wire.plan_messages import CREATE_PLAN, caller_header
from danube.wire.schema_messages import SET_MODE

Request = TypeVar("Request")
Answer = TypeVar("Answer")

_READING = ("Get", "List", "Describe", "Read", "Find", "Preview", "Explain", "ClusterStatus", "Peek")
"""Beginnings of the names of methods that change nothing."""
_ALSO_READING = {
    *("Authenticate", "Record", "CheckCompatibility", "CheckVersion", "ReceiveMessages", "TopicLookup"),
    *("TopicPartitions", "HealthCheck", "Fetch", "Bounds"),
}
"""`Record` is the record itself."""
_EVERYDAY = {
    *("CreateTopic", "CreatePartitionedTopic", "CreateSubscription", "RegisterSchema", "RegisterVersion"),
    *("ClaimRunner", "BeginRun", "CreateProducer", "SendMessage", "Subscribe", "Ack", "Nack", "Publish", "Consume"),
    "ReportConnectors",
    *("CloseProducer", "CloseConsumer"),
}
"""Changes that applications make all day."""
_ASKS: dict[str, Callable[[bytes], bool]] = {
    "/danube.control.Plans/CreatePlan": lambda request: CREATE_PLAN.decode(request).dry_run,
    "/danube.control.Schemas/SetMode": lambda request: SET_MODE.decode(request).ask,
}
"""Calls that with some requests only read."""
_UNRECORDED = (UnauthenticatedError, DeadlineExceededError, ShuttingDownError)
"""Errors of calls that may have ended before their record."""
_ANY_HOST = {"0.0.0.0", "::"}  # noqa: S104 - what brokers advertise that were told no better; compared, not bound


class WhoRecords(Enum):
    """Recorder of a call."""

    NOBODY = auto()
    """Nobody needs to: it changes nothing."""
    FACE = auto()
    BROKER = auto()


def who_records(path: str, request: bytes = b"") -> WhoRecords:
    """Recorder of a call of a broker of ours."""
    method = path.rpartition("/")[2]
    if method in _EVERYDAY:
        return WhoRecords.FACE
    asks = _ASKS.get(path)
    if method.startswith(_READING) or method in _ALSO_READING or (asks is not None and request and asks(request)):
        return WhoRecords.NOBODY
    return WhoRecords.BROKER


class BrokerConnection:
    """Calls to one port of one broker."""

    def __init__(self, channel: Channel, url: str, target: Target) -> None:
        self._url = url
        self._channel = channel
        self._target = target

    @property
    def url(self) -> str:
        """Its address, as it is dialled."""
        return self._url

    @property
    def _metadata(self) -> tuple[tuple[str, str], ...]:
        token, act = self._token, ACT.get()
        proof = (("authorization", f"Bearer {token}"),) if token else ()
        return proof if act is None else (*proof, caller_header(act.caller))

    @property
    def _token(self) -> str | None:
        return PASSED_TOKEN.get() or self._target.token

    async def call(self, path: str, request: bytes = b"") -> bytes:
        """One unary call. Raises DanubeError."""
        act, records = ACT.get(), who_records(path, request)
        if records is WhoRecords.FACE:
            await before_unrecorded()
        try:
            answer = await self._channel.call(path, request, timeout_s=self._target.timeout_s, metadata=self._metadata)
        except DanubeError as error:
            if act is not None and records is WhoRecords.BROKER:
                _note(act, error)
            raise self._explained(error) from error
        if act is not None and records is WhoRecords.BROKER:
            _note(act)
        return answer

    async def ask(self, path: str, request: Codec[Request], value: Request, answer: Codec[Answer]) -> Answer:
        """One unary call, encoded and decoded. Raises DanubeError."""
        return answer.decode(await self.call(path, request.encode(value)))

    def stream(self, path: str, request: bytes) -> ClientStream:
        """A server stream that ends with the deadline of one call."""
        return self._channel.server_stream(path, request, timeout_s=self._target.timeout_s, metadata=self._metadata)

    async def close(self) -> None:
        await self._channel.close()

    def _explained(self, error: DanubeError) -> DanubeError:
        match error:
            case BrokerUnreachableError():
                return type(error)(f"no broker answers at {self.url}{_cause(error)}: {self._next_step()}")
            case DeadlineExceededError():
                return DeadlineExceededError(
                    f"the broker at {self.url} did not answer within {self._target.timeout_s:g} s, and may still do"
                    " what it was asked: look, and try again or with a larger --timeout-s"
                )
            case UnauthenticatedError():
                if PASSED_TOKEN.get() is not None:
                    return UnauthenticatedError(f"the cluster refuses your token: log in with another ({error})")
                had = "refuses the token" if self._token else "wants a token"
                return UnauthenticatedError(
                    f"the broker at {self.url} {had}: set DANUBE_ADMIN_TOKEN, or the token of a context ({error})"
                )
            case _:
                return error

    def _next_step(self) -> str:
        if self.url not in self._target.endpoints:
            named = f"the broker at {self._target.endpoint} names that address"
            return f"{named}; check that a broker runs there, and that this machine resolves and reaches the address"
        if self._target.tls:
            return "start it, check that it serves TLS and that DANUBE_ADMIN_CA is who signed its certificate"
        return "start one with `danube-broker`, or name another with --endpoint, DANUBE_ADMIN_ENDPOINT or a context"


def _note(act: Act, error: DanubeError | None = None) -> None:
    """Note how a call ended that a broker records, unless it is refused before that."""
    if isinstance(error, BrokerUnreachableError):  # another broker may be asked
        return
    if isinstance(error, _UNRECORDED):
        act.is_unrecorded = True
    act.is_recorded = True


class EndpointConnection(BrokerConnection):
    """Calls to the broker behind the endpoint: of several, to the first that answers, until it does so no longer."""

    def __init__(self, brokers: Sequence[BrokerConnection]) -> None:
        self._brokers = deque(brokers)

    @property
    def url(self) -> str:
        """The address of the broker that is asked now."""
        return self._brokers[0].url

    async def call(self, path: str, request: bytes = b"") -> bytes:
        """As `BrokerConnection.call`. The next one is asked only where the call was not sent, or changes nothing."""
        failures: list[DanubeError] = []
        while True:
            broker = self._brokers[0]
            try:
                return await broker.call(path, request)
            except (BrokerUnreachableError, DeadlineExceededError) as error:
                failures.append(error)
                if broker is self._brokers[0]:  # and no call beside this one has left it
                    self._brokers.rotate(-1)
                may_repeat = isinstance(error, NotConnectedError) or path.rpartition("/")[2].startswith(_READING)
                if not may_repeat or len(self._brokers) == 1:
                    raise
                if len(failures) == len(self._brokers):
                    told = "; ".join(str(each).partition(": ")[0] for each in failures)
                    raise type(error)(f"none of {len(failures)} brokers answers: {told}: start one of them") from error

    def stream(self, path: str, request: bytes) -> ClientStream:
        return self._brokers[0].stream(path, request)

    async def close(self) -> None:
        for broker in self._brokers:
            await broker.close()


class ConnectionPool:
    """The connections of one target: to the broker behind its endpoint, and to others that it names."""

    def __init__(self, target: Target, carrier: Carrier) -> None:
        self._target = target
        self._carrier = carrier
        self._pool: dict[str, BrokerConnection] = {}
        self.each_s = ADMIN_EACH_SHARE * target.timeout_s
        """Time for each broker, where all are asked."""
        self.endpoint = EndpointConnection([self._at(url) for url in target.endpoints])

    def to(self, advertised: str) -> BrokerConnection:
        """A connection to a broker at its URL; `0.0.0.0` there is the host that was dialled. Raises SettingsError."""
        return self._at(self.dialled(advertised))

    def _at(self, url: str) -> BrokerConnection:
        check_token_is_safe(self._target, url)
        if url not in self._pool:
            if len(self._pool) >= CLIENT_CHANNELS_MAX:
                raise SettingsError(f"the broker names more than {CLIENT_CHANNELS_MAX} addresses to go to")
            self._pool[url] = BrokerConnection(self._carrier.connect(_host_and_port(url)), url, self._target)
        return self._pool[url]

    def dialled(self, advertised: str) -> str:
        """An address as this machine reaches it; one that cannot be read stays as it is."""
        parts = _parts(advertised)
        if parts is None or parts[0] not in _ANY_HOST:
            return advertised
        host, _ = _parts(self.endpoint.url) or parts
        scheme, separator, _ = advertised.partition("://")
        return f"{scheme if separator else 'http'}://{join_address(host, parts[1])}"

    async def close(self) -> None:
        for broker in self._pool.values():
            await broker.close()


def check_token_is_safe(target: Target, url: str) -> None:
    """Raise SettingsError where the target's token would go to this URL in plain text."""
    parts = _parts(url)
    if (target.token or PASSED_TOKEN.get()) is None or target.tls or (parts is not None and is_loopback(parts[0])):
        return
    raise SettingsError(
        f"a token would go to {url} in plain text, for everybody on the way to read: use an https:// endpoint or"
        " DANUBE_ADMIN_TLS=true, or forward the port to this machine"
    )


async def carrier_for(target: Target, clock: Clock, runner: BlockingRunner) -> Carrier:
    """A carrier with the target's TLS. Raises SettingsError."""
    if not target.tls:
        return client_carrier(clock)
    files = (target.ca_file, target.cert_file, target.key_file)
    ca, certificate, key = await runner.run(lambda: [_pem(path) for path in files])
    tls = ClientTls(ca=ca, certificate=certificate, key=key, name=target.tls_domain)
    return await runner.run(lambda: client_carrier(clock, tls))


def _pem(path: Path | None) -> bytes | None:
    if path is None:
        return None
    try:
        content = path.read_bytes()
    except OSError as error:
        raise SettingsError(f"cannot read the PEM file {path}: {error.strerror}") from None
    if b"-----BEGIN" not in content:
        raise SettingsError(f"{path} is no PEM file: it has no line with -----BEGIN")
    return content


def _host_and_port(url: str) -> str:
    parts = _parts(url)
    if parts is None:
        raise SettingsError(f"the broker is said to be at {url[:80]!r}, which is no address: mend what it advertises")
    return join_address(*parts)


def _parts(url: str) -> tuple[str, int] | None:
    try:
        parts = urlsplit(url if "://" in url else f"http://{url}")
        return (parts.hostname, parts.port) if parts.hostname and parts.port else None
    except ValueError:
        return None


def _cause(error: DanubeError) -> str:
    """The words of the engine, where they say more than that nobody listens."""
    _, _, said = str(error).rpartition("last error: ")
    if "Connection refused" in said or "Connect call failed" in said or not said.isprintable():
        return ""
    return f" ({said.removeprefix('UNKNOWN: ').removeprefix('UNAVAILABLE: ')[:200]})"
