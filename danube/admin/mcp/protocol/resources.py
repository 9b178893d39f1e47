"""Resources: what a host may attach to a conversation without a tool call. They read through the same operations."""

import json
from typing import Any
from urllib.parse import unquote

from mcp_types import Resource, ResourceTemplate

from danube.admin.mcp.answers import answer_of
from danube.admin.mcp.calls import Context, ToolCalls
from danube.admin.mcp.protocol.instructions import access_of
from danube.admin.mcp.tool_catalogue import ToolCatalogue
from danube.admin.mcp.untrusted_text import untrusted_document
from danube.admin.operations import operation_of
from danube.admin.present import printable
from danube.model.errors import NotFoundError

JSON = "application/json"
_ACCESS = "danube://access"
_CLUSTER = "danube://cluster"
_TOPICS = "danube://topics/"

RESOURCES = (
    Resource(
        uri=_CLUSTER,
        name="cluster",
        title="The cluster",
        description="Its brokers and their agreement, now.",
        mime_type=JSON,
    ),
    Resource(
        uri=_ACCESS,
        name="access",
        title="What this server may do",
        description="Access level, approval, the tools that are offered, and why the others are not.",
        mime_type=JSON,
    ),
)
TEMPLATES = (
    ResourceTemplate(
        uri_template=f"{_TOPICS}{{name}}",
        name="topic",
        title="One topic",
        description="A topic with its subscriptions and their lag; the slashes of its name may stand as they are.",
        mime_type=JSON,
    ),
)


class Resources:
    """The resources of one server."""

    def __init__(self, calls: ToolCalls, catalogue: ToolCatalogue) -> None:
        self._calls = calls
        self._catalogue = catalogue

    async def read(self, context: Context, uri: str) -> str:
        """The JSON text behind an address. Raises NotFoundError, and what the operations raise."""
        if uri == _ACCESS:
            return json.dumps(access_of(self._catalogue))
        if uri == _CLUSTER:
            return await self._data(context, {"status": ("cluster_status", {}), "brokers": ("list_brokers", {})})
        if uri.startswith(_TOPICS) and (name := unquote(uri.removeprefix(_TOPICS)).strip("/")):
            return await self._data(context, {"topic": ("describe_topic", {"topic": f"/{name}"})})
        raise NotFoundError(f"there is no resource {printable(uri[:200])}: list the resources and their templates")

    async def _data(self, context: Context, parts: dict[str, tuple[str, dict[str, Any]]]) -> str:
        data = {}
        for name, (operation, arguments) in parts.items():
            declared = operation_of(operation)
            result = await self._calls.run(context, declared, arguments)
            data[name] = answer_of(declared, result, self._catalogue).structured_content
        return json.dumps(untrusted_document(data))
