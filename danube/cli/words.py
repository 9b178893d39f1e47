"""What people write for attributes, subscription types and the like, read into values. Pure."""

from danube.model.errors import InvalidRequestError
from danube.model.subscription import SubscriptionType

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


def address_and_subscription(address: str, texts: list[str]) -> tuple[str, str]:
    """Tell a subscription from an address: `-s` is the one here and the other in danube-cli.

    Raises InvalidRequestError without exactly one subscription.
    """
    addresses = [text for text in texts if "://" in text]
    names = [text for text in texts if "://" not in text]
    if len(names) != 1:
        raise InvalidRequestError("name one subscription, such as: -s my-subscription")
    return (addresses[-1] if addresses else address), names[0]
