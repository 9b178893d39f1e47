"""Metrics of security, and the part of all metrics that a principal may see."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, make_asgi_app
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from danube.broker.security.assembly import Security
from danube.broker.security.current import current_principal
from danube.broker.security.gate import Gate
from danube.model.security.principal import Principal
from danube.security.decision import topic_target

if TYPE_CHECKING:
    from danube.rpc.http_port import App, Message, Receive, Send

_TOPIC = "topic"


class SecurityCollector(Collector):
    """Decisions, streams that were cut, and the expiry of the certificate; without samples while security is off."""

    def __init__(self, security: Security) -> None:
        self._security = security

    def describe(self) -> list[Metric]:
        """Nothing up front: the registry need not collect once to know the names."""
        return []

    def collect(self) -> Iterator[Metric]:
        gate, credentials = self._security.gate, self._security.credentials
        calls = CounterMetricFamily("danube_security_calls", "Calls by what the gate said.", labels=("outcome",))
        cut = CounterMetricFamily("danube_security_streams_cut", "Streams whose proof or binding became void.")
        expiry = GaugeMetricFamily(
            "danube_security_certificate_expiry_timestamp_seconds", "When the broker's certificate becomes void."
        )
        if gate is not None:
            for outcome, count in gate.counts().items():
                calls.add_metric((outcome,), count)
            cut.add_metric((), gate.streams_cut)
        if credentials is not None:
            expiry.add_metric((), credentials.certificates.expires_s)
        yield from (calls, cut, expiry)


def metrics_app(registry: CollectorRegistry, gate: Gate | None) -> "App":
    """An application that shows a principal the metrics of the topics that it may see.

    Who may see all of the cluster gets all of them.
    """
    whole: App = make_asgi_app(registry)
    if gate is None:
        return whole

    async def show(scope: "Message", receive: "Receive", send: "Send") -> None:
        principal = current_principal()
        assert principal is not None  # noqa: S101 - GuardedApp is before this
        if gate.sees_all(principal):
            await whole(scope, receive, send)
            return
        visible = CollectorRegistry(auto_describe=False)
        visible.register(_Visible(registry, gate, principal))
        part: App = make_asgi_app(visible)
        await part(scope, receive, send)

    return show


class _Visible(Collector):
    """The samples of a registry that name a topic which the principal sees."""

    def __init__(self, registry: CollectorRegistry, gate: Gate, principal: Principal) -> None:
        self._registry = registry
        self._gate = gate
        self._principal = principal

    def describe(self) -> list[Metric]:
        """Nothing up front."""
        return []

    def collect(self) -> Iterator[Metric]:
        for family in self._registry.collect():
            family.samples = [one for one in family.samples if self._is_seen(one.labels.get(_TOPIC))]
            if family.samples:
                yield family

    def _is_seen(self, topic: str | None) -> bool:
        return topic is not None and self._gate.sees(self._principal, topic_target(str(topic)))
