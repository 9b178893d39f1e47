import pytest

from danube.model.address import host_and_port
from danube.model.errors import SettingsError


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("http://127.0.0.1:6650", "127.0.0.1:6650"),
        ("https://broker.example:6650/", "broker.example:6650"),
        ("localhost:6650", "localhost:6650"),
        ("http://[::1]:6650", "[::1]:6650"),
    ],
)
def test_a_service_url_names_host_and_port(url: str, expected: str) -> None:
    assert host_and_port(url) == expected


@pytest.mark.parametrize("url", ["", "http://", "http://host", "ftp://host:1", "http://host:port", "http://host:99999"])
def test_anything_else_is_refused_with_the_form_it_should_have(url: str) -> None:
    with pytest.raises(SettingsError, match="http://host:port"):
        host_and_port(url)
