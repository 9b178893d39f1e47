"""Calls between brokers that carry the log of a topic from one disk to another."""

from dataclasses import dataclass
from enum import IntEnum

from danube.model.topic import TopicName


class CarryStep(IntEnum):
    """A step of carrying a log, as its next owner asks for it."""

    COPY = 0
    """The topic is served on."""
    PAUSE = 1
    """The topic is served no more, and nothing is added to what is answered."""
    RESUME = 2
    """The next owner gives up, and the topic is served again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PrepareCarry:
    """Have what is stored of a topic in segments."""

    topic: TopicName
    topic_id: int
    step: CarryStep


@dataclass(frozen=True, slots=True, kw_only=True)
class CarryOffer:
    """Offer of all that is stored of a topic."""

    manifest: bytes = b""
    """As in its file; empty after RESUME."""
    revision: int = 0
    """Of the topic's ownership in metadata."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadSegment:
    """A piece of a segment."""

    topic_id: int
    name: str
    """Of the file, within the topic's folder."""
    position: int
    length: int
    copied_bytes: int = 0
    """Of the log, as far as it is copied."""
    log_bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentPiece:
    """Bytes of a segment, with their CRC-32."""

    content: bytes
    checksum: int
