"""Help for filling in a form: names to pick from, and the values that hold now."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from danube.admin.completion import names_of
from danube.admin.gateway import AdminGateway
from danube.admin.operations import BY_NAME
from danube.admin.operations.operation import AnyOperation
from danube.admin.present import printable
from danube.admin.web.pages.forms import field_text, fields_of
from danube.admin.web.server import WebServer
from danube.model.errors import DanubeError
from danube.model.limits.faces import WEB_NAMES_MAX, WEB_PROBE_TIMEOUT_S
from danube.model.plans.durability import durability_of
from danube.model.policies import PoliciesView
from danube.model.topic import TopicName

_READ_BY = {
    "set_subscription_failure_policy": "get_subscription_failure_policy",
    "set_subscription_dispatch_config": "get_subscription_dispatch_config",
    "set_validation_policy": "get_topic_schema",
    "configure_topic_schema": "get_topic_schema",
    "set_automatic_balance": "get_automatic_balance",
}
"""Operations that set what another one shows, with fields of the same names."""
_LIMITS = ("policies", "retention", "durability")
_FIELDS = {"time_s": "retention_time_s", "bytes": "retention_bytes", "drops_unread": "retention_drops_unread"}
"""Fields of the forms of retention, by their names among the limits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """Values that hold now."""

    own: Mapping[str, str] = field(default_factory=dict)
    """Set here: a form begins with them."""
    inherited: Mapping[str, str] = field(default_factory=dict)
    """From elsewhere: shown, and not sent unless they are typed."""


async def pick_lists(server: WebServer, operation: AnyOperation, values: Mapping[str, str]) -> dict[str, list[str]]:
    """Names by the kinds that the operation's fields take; a kind that cannot be read has none."""
    kinds = sorted({field.completes for field in fields_of(operation) if field.completes})
    topic = values.get("topic") or None
    try:
        async with asyncio.timeout(WEB_PROBE_TIMEOUT_S):
            found = {kind: await _names(server.gateway, kind, topic) for kind in kinds}
    except (TimeoutError, DanubeError):
        return {}
    return {kind: names for kind, names in found.items() if names}


async def standing(server: WebServer, operation: AnyOperation, values: Mapping[str, str]) -> Standing:
    """The values that the form of an operation is about to change; none where they cannot be read."""
    try:
        async with asyncio.timeout(WEB_PROBE_TIMEOUT_S):
            if operation.name.startswith("set_") and operation.name.endswith(_LIMITS):
                view = await _limits(server.gateway, operation, values)
                return _of_limits(operation, view) if view else Standing()
            return await _read(server, operation, values)
    except (TimeoutError, DanubeError):
        return Standing()


async def _names(gateway: AdminGateway, kind: str, topic: str | None) -> list[str]:
    names: Sequence[str]
    if kind == "subject":
        names = [each.subject for each in await gateway.subjects()]
    else:
        names = await names_of(gateway, kind, topic=topic, with_bases=True)
    return [name for name in names if printable(name) == name][:WEB_NAMES_MAX]


async def _limits(gateway: AdminGateway, operation: AnyOperation, values: Mapping[str, str]) -> PoliciesView | None:
    if operation.words[0] == "namespaces" and values.get("namespace"):
        return await gateway.namespace_limits(values["namespace"])
    return await gateway.topic_policies(TopicName.parse(values["topic"])) if values.get("topic") else None


def _of_limits(operation: AnyOperation, view: PoliciesView) -> Standing:
    own: dict[str, Any] = dict(view.own.given())
    held: dict[str, Any] = {name: getattr(view.holding, name) for name in view.holding.__dataclass_fields__}
    if "durability" in held:
        held["durability"] = durability_of(held["durability"])
        own = {name: durability_of(value) if name == "durability" else value for name, value in own.items()}
    names = {each.name: _FIELDS.get(each.name, each.name) for each in fields_of(operation)}
    return Standing(
        own={name: field_text(own[of]) for name, of in names.items() if of in own},
        inherited={name: field_text(held[of]) for name, of in names.items() if of in held and of not in own},
    )


async def _read(server: WebServer, operation: AnyOperation, values: Mapping[str, str]) -> Standing:
    reader = BY_NAME.get(_READ_BY.get(operation.name, ""))
    if reader is None:
        return Standing()
    needed = {each.name: values.get(each.name, "") for each in fields_of(reader) if each.is_required}
    if not all(needed.values()):
        return Standing()
    found: dict[str, Any] = (await server.look(reader, needed)).model_dump(mode="json")
    names = [each.name for each in fields_of(operation)]
    return Standing(own={name: field_text(found[name]) for name in names if found.get(name) is not None})
