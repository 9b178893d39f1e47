"""Metrics hooks of a client: subclass `Metrics`, override what you count, and give it to a builder.

Hooks run on the event loop, once a batch where batches are sent and received. They must not block or raise.
"""

from collections.abc import Sequence

from danube.client.message import Message


class Metrics:
    """Hooks that do nothing."""

    def sent(self, topic: str, count: int, seconds: float) -> None:
        """The broker has `count` messages, `seconds` after the first of them was given to the producer."""

    def send_failed(self, topic: str, error: Exception) -> None:
        """A send raised."""

    def received(self, topic: str, messages: Sequence[Message]) -> None:
        """The application has these messages."""

    def acknowledged(self, topic: str, count: int) -> None:
        """The application acknowledged `count` messages."""

    def nacked(self, topic: str, count: int) -> None:
        """The application refused `count` messages."""


NO_METRICS = Metrics()
