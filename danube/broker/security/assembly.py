"""Security of a broker, built and started: the gate, the administration, and the carriers of both ports."""

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from danube.broker.cluster.metadata import Metadata
from danube.broker.environment import Dependencies
from danube.broker.security.building import Credentials, issuing_secret, read_credentials
from danube.broker.security.cluster_carrier import ClusterCarrier
from danube.broker.security.control import SecurityControl
from danube.broker.security.directory import SecurityDirectory
from danube.broker.security.gate import Gate
from danube.broker.security.reloading import Reloading
from danube.metadata.security.records import SecurityRecords
from danube.model.limits.security import SECURITY_SWEEP_S
from danube.rpc.carrier import Carrier, CarrierOptions
from danube.rpc.engines import server_carrier
from danube.runtime.clock import sleep_for

if TYPE_CHECKING:
    from danube.rpc.http_port import App


@dataclass(frozen=True, slots=True, kw_only=True)
class Security:
    """Security of one broker."""

    carrier: Carrier
    """Of the client port, and of calls to other brokers."""
    admin_carrier: Carrier
    control: SecurityControl
    gate: Gate | None
    """None while `auth.mode` is none."""
    credentials: Credentials | None
    directory: SecurityDirectory

    def guarded(self, app: "App") -> "App":
        """The application behind the gate; as it is while security is off."""
        if self.gate is None:
            return app
        from danube.broker.security.http_gate import GuardedApp  # noqa: PLC0415 - for ports that are switched on

        return GuardedApp(app, self.gate)


def unguarded(deps: Dependencies, metadata: Metadata, carrier: Carrier) -> Security:
    """Security that is off, over a given carrier: nothing is read or followed."""
    directory = SecurityDirectory(metadata.store, deps.clock)
    control = SecurityControl(directory, SecurityRecords(metadata.store, deps.rng), deps.clock, deps.rng)
    return Security(
        carrier=carrier, admin_carrier=carrier, control=control, gate=None, credentials=None, directory=directory
    )


async def open_credentials(deps: Dependencies) -> Credentials | None:
    """Read the files of a secured broker. Raises SettingsError for those that cannot be used."""
    settings = deps.settings.auth
    return await deps.reader.run(partial(read_credentials, settings)) if settings.is_on else None


async def open_security(deps: Dependencies, metadata: Metadata, credentials: Credentials | None) -> Security:
    """Follow roles and bindings, and the files of credentials. Raises SettingsError."""
    settings = deps.settings.auth
    directory = SecurityDirectory(metadata.store, deps.clock, frozenset(settings.super_admins))
    await directory.start(deps.tasks)
    control = SecurityControl(
        directory,
        SecurityRecords(metadata.store, deps.rng),
        deps.clock,
        deps.rng,
        issuer=settings.jwt_issuer,
        secret=await deps.reader.run(partial(issuing_secret, settings)),
    )
    gate = None
    if credentials is not None:
        gate = Gate(credentials.authenticator, directory, deps.clock)
        deps.tasks.spawn(_sweep(deps, gate), "cut streams of void tokens")
        reloading = Reloading(settings, credentials, deps.clock, deps.reader)
        await reloading.look()
        deps.tasks.spawn(reloading.run(), "read certificates again")
    carrier, admin_carrier = _carriers(deps, credentials)
    return Security(
        carrier=carrier,
        admin_carrier=admin_carrier,
        control=control,
        gate=gate,
        credentials=credentials,
        directory=directory,
    )


def _carriers(deps: Dependencies, credentials: Credentials | None) -> tuple[Carrier, Carrier]:
    options = CarrierOptions(stream_memory_bytes_max=deps.settings.stream_memory_bytes_max)
    plain = deps.environment.carrier
    if credentials is None or plain is not None:
        carrier = plain or server_carrier(deps.settings.rpc_engine, deps.clock, options)
        proving = _proving(deps, credentials, carrier)
        return proving, proving
    from danube.rpc.http2.carrier import Http2Carrier  # noqa: PLC0415 - loaded where it is used

    secure = Http2Carrier(
        deps.clock, options, server_tls=credentials.certificates.context, client_tls=credentials.client_tls
    )
    carrier = _proving(deps, credentials, secure)
    if deps.settings.auth.admin_tls:
        return carrier, carrier
    return carrier, _proving(deps, credentials, Http2Carrier(deps.clock, options))


def _proving(deps: Dependencies, credentials: Credentials | None, carrier: Carrier) -> Carrier:
    """The carrier with the cluster's proof in its calls, where brokers know each other by a secret."""
    secret = None if credentials is None else credentials.cluster_secret
    if secret is None:
        return carrier
    broker_id, clock = deps.folder.broker_id, deps.clock
    return ClusterCarrier(carrier, lambda: secret.issue(broker_id, clock.now_ms() / 1_000))


async def _sweep(deps: Dependencies, gate: Gate) -> None:
    while True:
        await sleep_for(deps.clock, SECURITY_SWEEP_S)
        gate.sweep()
