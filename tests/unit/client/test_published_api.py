"""The names and parameters that applications written for danube-client 0.5.0 use."""

import inspect
from collections.abc import Callable

import pytest

from danube import client
from danube.client.schemas import SchemaRegistrationBuilder

SIGNATURES: dict[type, dict[str, str]] = {
    client.DanubeClient: {"new_producer": "", "new_consumer": "", "schema": ""},
    client.DanubeClientBuilder: {
        "service_url": "url",
        "with_tls": "ca_cert_path",
        "with_mtls": "ca_cert_path client_cert_path client_key_path",
        "with_token": "token",
        "with_token_supplier": "supplier",
        "build": "",
    },
    client.ProducerBuilder: {
        "with_topic": "topic",
        "with_name": "name",
        "with_schema_subject": "subject",
        "with_schema_version": "subject version",
        "with_schema_min_version": "subject min_version",
        "with_dispatch_strategy": "strategy",
        "with_partitions": "partitions",
        "with_options": "options",
        "build": "",
    },
    client.Producer: {
        "create": "",
        "send": "data attributes=None",
        "send_with_key": "data attributes routing_key",
        "close": "",
    },
    client.ConsumerBuilder: {
        "with_topic": "topic",
        "with_consumer_name": "name",
        "with_subscription": "subscription",
        "with_subscription_type": "sub_type",
        "with_options": "options",
        "with_key_filter": "pattern",
        "with_key_filters": "patterns",
        "build": "",
    },
    client.Consumer: {
        "subscribe": "",
        "receive": "",
        "ack": "message",
        "nack": "message delay_ms=None reason=None",
        "close": "",
    },
    client.SchemaRegistryClient: {
        "register_schema": "subject",
        "get_schema_by_id": "schema_id",
        "get_schema_version": "schema_id version=None",
        "get_latest_schema": "subject",
        "list_versions": "subject",
        "check_compatibility": "subject schema_data schema_type mode=None",
        "set_compatibility_mode": "subject mode",
        "delete_schema_version": "subject version",
        "configure_topic_schema": "topic_name schema_subject validation_policy='none' enable_payload_validation=False",
        "update_topic_validation_policy": "topic_name validation_policy enable_payload_validation=False",
        "get_topic_schema_config": "topic_name",
    },
    SchemaRegistrationBuilder: {
        "with_type": "schema_type",
        "with_schema_data": "data",
        "with_description": "description",
        "with_created_by": "created_by",
        "with_tags": "tags",
        "execute": "",
    },
}


def parameters(function: Callable[..., object]) -> str:
    found = inspect.signature(function).parameters.values()
    return " ".join(
        name.name if name.default is name.empty else f"{name.name}={name.default!r}"
        for name in found
        if name.name != "self"
    )


@pytest.mark.parametrize(
    ("owner", "method", "expected"),
    [(owner, method, expected) for owner, methods in SIGNATURES.items() for method, expected in methods.items()],
)
def test_a_published_method_takes_what_it_took(owner: type, method: str, expected: str) -> None:
    assert parameters(getattr(owner, method)) == expected


@pytest.mark.parametrize("kind", [client.ProducerOptions, client.ConsumerOptions])
def test_options_are_made_from_the_published_three(kind: type[client.ProducerOptions]) -> None:
    assert kind(5, 200, 5_000) == kind(max_retries=5, base_backoff_ms=200, max_backoff_ms=5_000)
    assert (kind().max_retries, kind().base_backoff_ms, kind().max_backoff_ms) == (0, 0, 0)


def test_enums_have_the_published_members_and_numbers() -> None:
    assert {kind.name: int(kind) for kind in client.SubType} == {
        "EXCLUSIVE": 0,
        "SHARED": 1,
        "FAILOVER": 2,
        "KEY_SHARED": 3,
    }
    assert {kind.name: kind.to_proto() for kind in client.DispatchStrategy} == {"NON_RELIABLE": 0, "RELIABLE": 1}
    assert client.CompatibilityMode.parse("FULL").as_string() == "full"
    assert client.SchemaType.JSON_SCHEMA.as_string() == "json_schema"


async def test_a_producer_is_not_reliable_and_a_consumer_shares_unless_told_otherwise() -> None:
    built = await client.DanubeClientBuilder().service_url("http://127.0.0.1:1").build()
    assert built.new_producer().strategy is client.DispatchStrategy.NON_RELIABLE
    assert built.new_consumer().subscription_type is client.SubType.SHARED


def test_the_errors_are_one_family() -> None:
    assert issubclass(client.UnrecoverableError, client.DanubeError)
    assert issubclass(client.LookupError, client.DanubeError)
