"""Arguments of commands as values: the access to a broker, attributes, subscription types. Pure, but for `connect`."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from danube.model.calls.stream import FetchStart
from danube.model.errors import InvalidRequestError
from danube.model.limits.faces import CLI_CONNECT_TIMEOUT_S, CLI_RETRY_TOTAL_S
from danube.model.schema import SchemaType
from danube.model.subscription import SubscriptionType
from danube.model.text import parse_start

if TYPE_CHECKING:
    from danube.client import ConsumerOptions, DanubeClient, ProducerOptions

_SUB_TYPES = {
    "exclusive": SubscriptionType.EXCLUSIVE,
    "shared": SubscriptionType.SHARED,
    "failover": SubscriptionType.FAILOVER,
    "fail-over": SubscriptionType.FAILOVER,
    "key-shared": SubscriptionType.KEY_SHARED,
}


def attributes(texts: list[str]) -> dict[str, str]:
    """Read `key=value`, one each, or the original's `key:value,key:value`. Raises InvalidRequestError."""
    found: dict[str, str] = {}
    for text in texts:
        found.update([_pair(text, "=")] if "=" in text else [_pair(part, ":") for part in text.split(",")])
    return found


def _pair(text: str, separator: str) -> tuple[str, str]:
    key, found, value = text.partition(separator)
    if not found or not key.strip():
        raise InvalidRequestError(f"attribute {text!r} has no key and value: write it as key=value")
    return key.strip(), value if separator == "=" else value.strip()


def subscription_type(text: str) -> SubscriptionType:
    """Read a subscription type. Raises InvalidRequestError."""
    kind = _SUB_TYPES.get(text.lower().replace("_", "-"))
    if kind is None:
        raise InvalidRequestError(f"{text!r} is not a subscription type: use exclusive, shared, failover or key-shared")
    return kind


def address_and_subscription(address: str, texts: list[str]) -> tuple[str, str | None]:
    """Tell a subscription from an address: `-s` is the one here and the other in danube-cli.

    Raises InvalidRequestError for more than one subscription.
    """
    addresses = [text for text in texts if "://" in text]
    names = [text for text in texts if "://" not in text]
    if len(names) > 1:
        raise InvalidRequestError("name one subscription, such as: -s my-subscription")
    return (addresses[-1] if addresses else address), names[0] if names else None


def first_message(start: str | None, topic: str, subscription: str | None) -> FetchStart:
    """The message to begin with. Raises InvalidRequestError beside a subscription, which has a position of its own."""
    if start is not None and subscription is not None:
        raise InvalidRequestError(
            f"--start is for reading without a subscription, and {subscription} has a position: create it with"
            f" `danube-admin topics create-subscription {topic} -s {subscription} --start {start}`, or move it with"
            f" `danube-admin topics seek {topic} -s {subscription} --to {start}`"
        )
    return parse_start(start or "earliest")


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaSource:
    """The schema that messages are written with."""

    file: Path | None
    """Registered first; without one the subject has versions already."""
    kind: SchemaType | None
    subject: str | None


def schema_source(file: Path | None, kind: str | None, subject: str | None) -> SchemaSource | None:
    """Read the flags of a schema; None without any. Raises InvalidRequestError."""
    if file is None and kind is None and subject is None:
        return None
    if (file is None) != (kind is None):
        raise InvalidRequestError("--schema-file and --schema-type go together: give both, or a --schema-subject alone")
    try:
        return SchemaSource(file=file, kind=None if kind is None else SchemaType.parse(kind), subject=subject)
    except ValueError as error:
        raise InvalidRequestError(f"{error}: use {', '.join(one.value for one in SchemaType)}") from None


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """The broker's address, the caller's credentials, and the bounds of retries."""

    service_addr: str
    ca_cert: str | None = None
    token: str | None = None
    connect_timeout_s: float = CLI_CONNECT_TIMEOUT_S
    """For the first connection."""
    retry_for_s: float = CLI_RETRY_TOTAL_S
    """For a broker that was there."""

    async def connect(self) -> "DanubeClient":
        """A client. Raises SettingsError for a wrong address or an unreadable certificate."""
        from danube.client import DanubeClientBuilder  # noqa: PLC0415 - `--help` needs no gRPC

        builder = DanubeClientBuilder().service_url(self.service_addr)
        if self.ca_cert:
            builder.with_tls(self.ca_cert)
        if self.token:
            builder.with_token(self.token)
        return await builder.build()

    def producer_options(self) -> "ProducerOptions":
        """The retry bounds of a producer."""
        from danube.client import ProducerOptions  # noqa: PLC0415 - `--help` needs no gRPC

        return ProducerOptions(connect_total_s=self.connect_timeout_s, retry_total_s=self.retry_for_s)

    def consumer_options(self) -> "ConsumerOptions":
        """The retry bounds of a consumer."""
        from danube.client import ConsumerOptions  # noqa: PLC0415 - `--help` needs no gRPC

        return ConsumerOptions(connect_total_s=self.connect_timeout_s, retry_total_s=self.retry_for_s)
