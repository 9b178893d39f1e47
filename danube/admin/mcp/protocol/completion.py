"""Completion of names while a person fills in a prompt or an address: what there is in the cluster, by what was typed.

It reads names alone and is not written to the audit log: it is called at every key.
"""

import asyncio

from mcp_types import CompleteRequestParams, Completion

from danube.admin.completion import names_of
from danube.admin.gateway import AdminGateway
from danube.admin.present import printable
from danube.model.errors import DanubeError
from danube.model.limits.faces import MCP_COMPLETION_TIMEOUT_S, MCP_COMPLETIONS_MAX

_KINDS = {"namespace": "namespace", "topic": "topic", "name": "topic", "subscription": "subscription"}
"""What arguments of prompts and resources name."""


async def complete(gateway: AdminGateway, params: CompleteRequestParams) -> Completion:
    """The names that begin with what was typed, then those that contain it; none where nobody can be asked."""
    given = (params.context.arguments if params.context else None) or {}
    try:
        async with asyncio.timeout(MCP_COMPLETION_TIMEOUT_S):
            names = await names_of(gateway, _KINDS.get(params.argument.name, ""), topic=given.get("topic"))
    except (DanubeError, TimeoutError):
        names = ()
    typed = params.argument.value.casefold()
    found = sorted(
        (name for name in names if typed in name.casefold() and printable(name) == name),
        key=lambda name: (not name.casefold().lstrip("/").startswith(typed.lstrip("/")), name),
    )
    shown = found[:MCP_COMPLETIONS_MAX]
    return Completion(values=shown, total=len(found), has_more=len(found) > len(shown))
