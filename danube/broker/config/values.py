"""Values that a broker's parts are built from. Only this module makes them from settings."""

import socket
from collections.abc import Callable
from dataclasses import replace

from danube.broker.config.auth import ApprovalPolicy
from danube.broker.config.settings import BrokerSettings
from danube.broker.control.plans.approval import ApprovalRules
from danube.broker.dispatch.driver import DispatchSettings
from danube.broker.dispatch.redelivery import RedeliveryPolicy
from danube.broker.rates.quotas import Quota, Quotas
from danube.model.errors import SettingsError
from danube.model.limits.objects import JOURNAL_FILE_AGE_OBJECTS_S
from danube.model.ownership import StorageMode
from danube.model.plans.plan import Effect
from danube.model.policies import DURABILITY_NAME, POLICY_NAMES, PoisonPolicy, Policies
from danube.model.records.telemetry import TELEMETRY_TOPIC
from danube.rpc.address import join_address, split_address
from danube.storage.batches.codec import Codec, is_available
from danube.storage.disk_space import Watermarks
from danube.storage.settings import JournalSettings, StorageSettings

_TOPICS = "topics"


def storage_settings(settings: BrokerSettings) -> StorageSettings:
    """The storage's settings. Raises SettingsError for a compression whose package is missing."""
    codec = Codec[settings.segment_compression.upper()]
    if not is_available(codec):
        raise SettingsError(
            f"segment_compression {settings.segment_compression} needs a package that is not there: "
            "pip install zstandard, or run Python 3.14 or newer"
        )
    is_by_objects = settings.storage.mode is StorageMode.OBJECT_STORE
    is_round_an_object = settings.cluster_mode is StorageMode.OBJECT_STORE
    age_s = settings.journal_file_age_s or (JOURNAL_FILE_AGE_OBJECTS_S if is_by_objects else 0)
    return StorageSettings(
        journal=JournalSettings(
            batch_timeout_s=settings.object_store.batch_timeout_ms / 1_000 if is_round_an_object else 0,
            durability=settings.durability,
            sync_interval_s=settings.sync_interval_ms / 1_000,
            file_bytes_max=settings.journal_file_bytes_max,
            cache_bytes_max=settings.cache_bytes_max,
        ),
        watermarks=Watermarks(
            warn_below_bytes=settings.disk_warn_free_bytes, refuse_below_bytes=settings.disk_refuse_free_bytes
        ),
        journal_file_age_s=age_s,
        segment_bytes_max=settings.segment_bytes_max,
        codec=codec,
    )


def quotas_of(settings: BrokerSettings) -> Quotas:
    """The quotas of namespaces and of principals."""
    given = settings.quotas
    namespace = Quota(
        streams=given.namespace_streams,
        bytes_in_s=given.namespace_bytes_in_s,
        bytes_out_s=given.namespace_bytes_out_s,
        stored_bytes=given.namespace_stored_bytes,
    )
    principal = Quota(
        streams=given.principal_streams,
        bytes_in_s=given.principal_bytes_in_s,
        bytes_out_s=given.principal_bytes_out_s,
    )
    exceptions = {
        who: replace(
            principal if ":" in who else namespace, **{name: limits[name] for name in limits if name != _TOPICS}
        )
        for who, limits in given.of_each().items()
    }
    return Quotas(namespace, principal, exceptions)


def topics_max_of(settings: BrokerSettings) -> Callable[[str], int]:
    """Most topics of a namespace, by its name; 0 for no limit."""
    given = settings.quotas
    own = {who: limits[_TOPICS] for who, limits in given.of_each().items() if _TOPICS in limits}
    return lambda namespace: own.get(namespace, given.namespace_topics)


def dispatch_settings(settings: BrokerSettings) -> DispatchSettings:
    """The dispatch settings of subscriptions that set nothing themselves."""
    policy = RedeliveryPolicy(
        ack_timeout_s=settings.ack_timeout_s,
        base_delay_s=settings.redelivery_delay_s,
        max_delay_s=max(settings.redelivery_delay_s, settings.redelivery_delay_max_s),
        max_redelivery_count=settings.max_redelivery_count,
        poison=PoisonPolicy[settings.poison_policy.upper()],
        disconnects_fail=settings.disconnects_fail,
    )
    return DispatchSettings(window=settings.max_unacked_messages, policy=policy, grace_s=settings.key_shared_grace_s)


def default_policies(settings: BrokerSettings) -> Policies:
    """The policies of topics that set nothing themselves, in namespaces that set nothing either."""
    limits_set = {name: int(getattr(settings, name)) for name in POLICY_NAMES if name != DURABILITY_NAME}
    return Policies(durability=settings.durability.number, **limits_set)


def own_policies(settings: BrokerSettings) -> dict[str, Policies]:
    """The policies of topics that the broker itself writes, by name: telemetry is trimmed, the audit log is not."""
    telemetry = Policies(
        retention_time_s=settings.telemetry_retention_s,
        retention_bytes=settings.telemetry_retention_bytes,
        retention_drops_unread=1,
    )
    return {str(TELEMETRY_TOPIC): telemetry}


def advertised_urls(settings: BrokerSettings, bound: str) -> tuple[str, str]:
    """The broker's URL and the URL that clients dial, for a client port bound at `bound`.

    The machine's name replaces the wildcard address, which nobody can dial, unless `advertised_addr` is set.
    """
    broker_url = settings.advertised_addr or bound_url(bound, is_secure=settings.auth.is_on)
    urls = broker_url, settings.connect_url or broker_url
    if not settings.auth.is_on:
        return urls
    broker_url, connect_url = (f"https://{url.partition('://')[2]}" for url in urls)  # Rust's client goes by the scheme
    return broker_url, connect_url


def bound_url(bound: str, *, is_secure: bool = False, advertised: str | None = None) -> str:
    """A URL for a port bound at `bound`, with a name instead of the wildcard address.

    The name is the one at which the broker is `advertised`, and else the machine's own.
    """
    host, port = split_address(bound)
    dialled = host
    if host in {"0.0.0.0", "::"}:  # noqa: S104 - compared, not bound
        dialled = split_address(advertised.rpartition("://")[2])[0] if advertised else socket.gethostname()
    return f"{'https' if is_secure else 'http'}://{join_address(dialled, port)}"


def approval_rules(settings: BrokerSettings) -> ApprovalRules:
    """Which plans wait for approval, whoever asks."""
    effects = {
        ApprovalPolicy.CALLER: frozenset[Effect](),
        ApprovalPolicy.DESTROY: frozenset({Effect.DESTROY}),
        ApprovalPolicy.MOVE: frozenset({Effect.DESTROY, Effect.MOVE}),
    }
    return ApprovalRules(effects=effects[settings.auth.approval], two_person=settings.auth.two_person)
