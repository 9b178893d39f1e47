"""Completion of names while a person fills in a prompt or an address: what there is in the cluster, by what was typed.

It reads names alone and is not written to the audit log: it is called at every key.
"""

import asyncio
from collections.abc import Mapping, Sequence

from mcp_types import CompleteRequestParams, Completion

from danube.admin.gateway import AdminGateway
from danube.admin.present import printable
from danube.model.errors import DanubeError
from danube.model.limits.faces import MCP_COMPLETION_TIMEOUT_S, MCP_COMPLETIONS_MAX
from danube.model.topic import TopicName


async def complete(gateway: AdminGateway, params: CompleteRequestParams) -> Completion:
    """The names that begin with what was typed, then those that contain it; none where nobody can be asked."""
    given = (params.context.arguments if params.context else None) or {}
    try:
        async with asyncio.timeout(MCP_COMPLETION_TIMEOUT_S):
            names = await _names(gateway, params.argument.name, given)
    except (DanubeError, TimeoutError):
        names = ()
    typed = params.argument.value.casefold()
    found = sorted(
        (name for name in names if typed in name.casefold() and printable(name) == name),
        key=lambda name: (not name.casefold().lstrip("/").startswith(typed.lstrip("/")), name),
    )
    shown = found[:MCP_COMPLETIONS_MAX]
    return Completion(values=shown, total=len(found), has_more=len(found) > len(shown))


async def _names(gateway: AdminGateway, kind: str, given: Mapping[str, str]) -> Sequence[str]:
    match kind:
        case "namespace":
            return await gateway.namespaces()
        case "topic" | "name":
            return [
                str(info.topic) for namespace in await gateway.namespaces() for info in await gateway.topics(namespace)
            ]
        case "subscription" if "topic" in given:
            return await gateway.subscriptions(TopicName.parse(given["topic"]))
        case _:
            return ()
