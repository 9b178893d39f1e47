"""Load of brokers and topics, as values: what a broker reports, in absolute units, and as shares of its capacity.

A report is untrusted: numbers that cannot be (negative, NaN, absurd) count as 0, and a report that is too old counts as
unknown. Load that is unknown is never taken for 0.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from enum import StrEnum

from danube.model.limits.balance import COST_BYTES_PER_MESSAGE, COST_CPU_S_MAX, LOAD_NUMBER_MAX, OWN_CORES


class Resource(StrEnum):
    """A resource of a broker that topics take up."""

    CPU = "cpu"
    MEMORY = "memory"
    NETWORK = "network"
    DISK = "disk"


Shares = tuple[float, float, float, float]
"""Shares of the capacity of each resource, in the order of `Resource`; 1.0 is all of it."""

RESOURCES = tuple(Resource)
NOTHING: Shares = (0.0, 0.0, 0.0, 0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicLoad:
    """Load of one topic, a partition each; rates are smoothed, per second."""

    topic: str
    messages_per_s: float = 0.0
    """In and out together."""
    bytes_per_s: float = 0.0
    """In and out together."""
    producers: int = 0
    consumers: int = 0
    backlog_messages: int = 0
    stored_bytes: int = 0
    """Bytes that a move carries where each broker has a disk of its own."""

    @property
    def cost(self) -> float:
        """Work that the topic makes, in messages: bytes count as well."""
        return self.messages_per_s + self.bytes_per_s / COST_BYTES_PER_MESSAGE

    @property
    def clients(self) -> int:
        """Producers and consumers, which a move disturbs."""
        return self.producers + self.consumers


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerLoad:
    """Report of one broker."""

    broker_id: int
    measured_ms: int
    cores: float = 1.0
    """That it may use, by its container's limit or the machine's."""
    cpu: float = 0.0
    """Share of these cores that it used, 0 to 1."""
    memory: float = 0.0
    """Share of the memory that it may use."""
    network_bytes_per_s: float = 125e6
    """Capacity of its network."""
    disk_bytes: int = 0
    """Size of its disk; 0 where the brokers share one."""
    disk_used_bytes: int = 0
    memory_bytes: int = 0
    """That it may use, by its container's limit or the machine's; 0 where it is not known."""
    disk_bytes_per_s: float = 0.0
    """Read and written."""
    traffic_bytes_per_s: float = 0.0
    """In and out, of its network."""
    messages_in_per_s: float = 0.0
    messages_out_per_s: float = 0.0
    bytes_in_per_s: float = 0.0
    bytes_out_per_s: float = 0.0
    topic_count: int = 0
    """Topics that it serves; `topics` may have fewer, the busiest."""
    refuses: bool = False
    """True while its disk takes no messages, or is nearly full."""
    topics: tuple[TopicLoad, ...] = field(default=())


_TOTALS = (
    "memory_bytes",
    "disk_bytes_per_s",
    "traffic_bytes_per_s",
    "messages_in_per_s",
    "messages_out_per_s",
    "bytes_in_per_s",
    "bytes_out_per_s",
    "topic_count",
)


def plausible(report: BrokerLoad) -> BrokerLoad:
    """The report with 0 in place of numbers that cannot be, and each topic once."""
    topics: dict[str, TopicLoad] = {}
    for one in report.topics:
        topics[one.topic] = replace(
            one,
            messages_per_s=_rate(one.messages_per_s),
            bytes_per_s=_rate(one.bytes_per_s),
            producers=int(_rate(one.producers)),
            consumers=int(_rate(one.consumers)),
            backlog_messages=int(_rate(one.backlog_messages)),
            stored_bytes=int(_rate(one.stored_bytes)),
        )
    return replace(
        report,
        cores=_rate(report.cores) or 1.0,
        cpu=min(1.0, _rate(report.cpu)),
        memory=min(1.0, _rate(report.memory)),
        network_bytes_per_s=_rate(report.network_bytes_per_s) or 125e6,
        disk_bytes=int(_rate(report.disk_bytes)),
        disk_used_bytes=int(_rate(report.disk_used_bytes)),
        **{name: type(getattr(report, name))(_rate(getattr(report, name))) for name in _TOTALS},
        topics=tuple(topics.values()),
    )


def implausible(report: BrokerLoad) -> list[str]:
    """Names of the numbers of a report that cannot be, each once."""
    names = [(report, one.name) for one in fields(report) if one.name not in {"broker_id", "measured_ms"}]
    of_topics = [(topic, one.name) for topic in report.topics for one in fields(topic)]
    found = {name: None for each, name in (*names, *of_topics) if _cannot_be(getattr(each, name))}
    return [*found, *(name for name in ("cpu", "memory") if name not in found and getattr(report, name) > 1)]


def _cannot_be(value: object) -> bool:
    return isinstance(value, int | float) and _rate(value) != value


def _rate(value: float) -> float:
    return value if math.isfinite(value) and 0 <= value <= LOAD_NUMBER_MAX else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Capacity:
    """Capacity of a broker in each resource; a disk of 0 bytes is shared, and no resource of its own."""

    cores: float = 1.0
    network_bytes_per_s: float = 125e6
    disk_bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """Demand of a topic for each resource on any broker, in absolute units."""

    topic: str
    cores: float = 0.0
    bytes_per_s: float = 0.0
    stored_bytes: int = 0
    clients: int = 0
    carried_bytes: int = 0
    """Bytes that a move copies: 0 where the brokers share their storage."""

    def shares(self, capacity: Capacity) -> Shares:
        """The demand as shares of a broker's capacity."""
        disk = self.stored_bytes / capacity.disk_bytes if capacity.disk_bytes else 0.0
        return (self.cores / capacity.cores, 0.0, self.bytes_per_s / capacity.network_bytes_per_s, disk)

    def scaled(self, factor: float) -> "Demand":
        """The topic at another rate; what it has stored stays."""
        return replace(self, cores=self.cores * factor, bytes_per_s=self.bytes_per_s * factor)


def capacity_of(report: BrokerLoad) -> Capacity:
    """Capacity of the broker of a report."""
    return Capacity(cores=report.cores, network_bytes_per_s=report.network_bytes_per_s, disk_bytes=report.disk_bytes)


def demands_of(report: BrokerLoad, *, carries_logs: bool) -> dict[str, Demand]:
    """Demand of each topic of a plausible report.

    The CPU that a broker used beyond OWN_CORES is shared out by the work of its topics; one that is nearly idle uses
    most of it for itself, so a message counts for COST_CPU_S_MAX seconds of a core at most.
    """
    total = sum(one.cost for one in report.topics)
    used = max(0.0, report.cpu * report.cores - OWN_CORES)
    per_cost = min(used / total, COST_CPU_S_MAX) if total else 0.0
    return {
        one.topic: Demand(
            topic=one.topic,
            cores=one.cost * per_cost,
            bytes_per_s=one.bytes_per_s,
            stored_bytes=one.stored_bytes if report.disk_bytes else 0,
            clients=one.clients,
            carried_bytes=one.stored_bytes if carries_logs else 0,
        )
        for one in report.topics
    }


def own_shares(report: BrokerLoad, demands: Mapping[str, Demand]) -> Shares:
    """Shares that the broker takes up without its topics: they stay whatever moves."""
    capacity, taken = capacity_of(report), list(demands.values())
    cpu = max(0.0, report.cpu - sum(one.cores for one in taken) / report.cores)
    disk = 0.0
    if capacity.disk_bytes:
        disk = max(0.0, (report.disk_used_bytes - sum(one.stored_bytes for one in taken)) / capacity.disk_bytes)
    return (cpu, report.memory, 0.0, disk)
