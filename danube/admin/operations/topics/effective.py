"""Limits that hold for a topic, each with its source: the topic, its namespace, or the settings of its broker."""

from collections.abc import Mapping
from dataclasses import asdict, fields
from typing import Any

from pydantic import Field

from danube.admin.gateway import AdminGateway
from danube.admin.operations.fields import Result
from danube.model.errors import NotFoundError, UnavailableError, UnsupportedError
from danube.model.plans.durability import durability_of
from danube.model.policies import Limits, Policies, PoliciesView
from danube.model.text import size_text, span_text
from danube.model.topic import TopicName


class EffectivePolicy(Result):
    """A limit that holds, and its source."""

    policy: str = Field(description="Its name, as set_topic_policies and the like have it.")
    value: bool | int | str | None = Field(description="0 is no limit; null where nothing is kept.")
    source: str = Field(description="`topic`, `namespace`, or `broker` for its settings.")

    def words(self) -> Mapping[str, str]:
        return {"value": value_text(self.policy, self.value)}


async def effective_policies(gateway: AdminGateway, topic: TopicName) -> list[EffectivePolicy]:
    """The limits that hold for a topic; none where the broker does not tell, or the topic is not served."""
    try:
        view = await gateway.topic_policies(topic)
        origins = await origins_of_topic(gateway, topic, view)
    except (UnsupportedError, NotFoundError, UnavailableError):
        return []
    values = values_of(view.holding)
    return [EffectivePolicy(policy=name, value=values[name], source=source) for name, source in origins.items()]


async def origins_of_topic(gateway: AdminGateway, topic: TopicName, view: PoliciesView) -> dict[str, str]:
    """The source of each limit of a topic."""
    above = await gateway.namespace_limits(topic.namespace)
    return origins_of(("topic", view.own), ("namespace", above.own))


def values_of(limits: Limits) -> dict[str, Any]:
    """Values by the names of limits."""
    return asdict(limits) | {"durability": durability_of(limits.durability)}


def limit_text(name: str, value: object, origin: str) -> str:
    """A limit for people, with its origin: `7 d (namespace)`."""
    return f"{value_text(name, value)} ({origin})"


def value_text(name: str, value: object) -> str:
    """A limit for people."""
    match value:
        case None:
            shown = "-"
        case bool():
            shown = "yes" if value else "no"
        case int():
            shown = "no limit" if not value else _measured_text(name, value)
        case _:
            shown = str(value)
    return shown


def _measured_text(name: str, value: int) -> str:
    if name.endswith("_s"):
        return span_text(value)
    return size_text(value) if "bytes" in name or name == "max_message_size" else f"{value:,}"


def origins_of(*places: tuple[str, Policies]) -> dict[str, str]:
    """For each limit the first of the places that sets it; the broker's settings for the others."""
    names = [field.name for field in fields(Policies)]
    return {
        name: next((place for place, policies in places if getattr(policies, name) is not None), "broker")
        for name in names
    }
