"""Types of addresses in settings, and the addresses of a broker."""

from dataclasses import dataclass
from typing import Annotated

from pydantic import AfterValidator

from danube.model.errors import SettingsError
from danube.rpc.address import split_address


def _address(text: str) -> str:
    try:
        split_address(text)
    except SettingsError as error:
        raise ValueError(str(error)) from None
    return text


def _url(text: str) -> str:
    """Official clients need a scheme; one is added where the original's flag leaves it out."""
    scheme, separator, rest = text.rpartition("://")
    _address(rest)
    if separator and scheme not in {"http", "https"}:
        raise ValueError("write a URL as http://host:port or https://host:port")
    return text if separator else f"http://{text}"


Address = Annotated[str, AfterValidator(_address)]
Url = Annotated[str, AfterValidator(_url)]


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerUrls:
    """The URLs of a broker, each with a scheme; known once it listens."""

    broker: str = ""
    connect: str = ""
    admin: str = ""
    metrics: str = ""
    """Empty without a metrics port."""
