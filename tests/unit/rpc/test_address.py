"""`host:port`, read and written."""

import pytest

from danube.model.errors import SettingsError
from danube.rpc.address import join_address, split_address


@pytest.mark.parametrize(
    ("address", "parts"),
    [
        ("127.0.0.1:6650", ("127.0.0.1", 6650)),
        ("broker-1.example.org:0", ("broker-1.example.org", 0)),
        ("memory:1", ("memory", 1)),
        ("[::1]:65535", ("::1", 65535)),
    ],
)
def test_address_has_a_host_and_a_port_and_is_put_together_again(address: str, parts: tuple[str, int]) -> None:
    assert split_address(address) == parts
    assert join_address(*parts) == address


@pytest.mark.parametrize(
    "address", ["", ":", "host", "host:", ":80", "[]:80", "host:-1", "host:٣", "host:65536", "a:b"]
)
def test_what_is_no_address_is_refused_with_an_example(address: str) -> None:
    with pytest.raises(SettingsError, match="host:port"):
        split_address(address)


def test_ipv6_host_without_brackets_is_refused_with_the_right_form() -> None:
    with pytest.raises(SettingsError, match="brackets"):
        split_address("::1:6650")
