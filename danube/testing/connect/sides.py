"""The other side of a connector, as the contract suite sees it."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from danube.connect.sdk import Definition


class SinkSide(Protocol):
    """The other side of a sink."""

    @property
    def definition(self) -> Definition:
        """The sink: `definition_of` the marked function or class."""

    @property
    def section(self) -> Mapping[str, Any]:
        """Its section in a file, without routes."""

    @property
    def route(self) -> Mapping[str, Any]:
        """The keys of its route but for the topic."""

    async def rows(self) -> Sequence[bytes]:
        """The payloads that the other side holds, in any order, those that it holds twice twice."""


class SourceSide(Protocol):
    """The other side of a source."""

    @property
    def definition(self) -> Definition:
        """As above."""

    @property
    def section(self) -> Mapping[str, Any]:
        """As above."""

    async def add(self, payloads: Sequence[bytes]) -> None:
        """Add records to the end of what the source reads; the suite makes each payload once."""
